// Why the GPUs of a training program wait, from the training.* series that programs with the SDK export.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/frame.h"
#include "ledger/observation.h"

namespace gpulens::cost {

// Follows the layouts of a tick's frames. Not thread-safe. Does not allocate while layouts stay.
//
//   kStartup      no step has ended yet
//   kCheckpoint   a checkpoint was saved: dated back to its begin
//   kInputWait    more than half of the time since the last look was spent waiting for batches
//   kNone         otherwise, while steps end; a program that does nothing of this gives no signal
class ProgramSignals {
 public:
  // Further programs are not followed.
  static constexpr size_t kMostPrograms = 1024;
  // Two looks at the counters of a program are at least so far apart.
  static constexpr int64_t kLookNs = 5'000'000'000;
  // An unchanged signal is repeated, as the ledger forgets it after a minute.
  static constexpr int64_t kRepeatNs = 30'000'000'000;

  // Returns the new signals of the tick. Valid until the next call.
  std::span<const ledger::ProgramSignal> Take(const Snapshot& snapshot);

 private:
  struct Program {
    int64_t pid = 0;
    std::vector<uint32_t> steps, waits, checkpoints;  // slots; one for each rank
    double last_steps = -1, last_wait_s = -1, last_checkpoint_s = -1;
    int64_t looked_ns = 0, sent_ns = 0;
    ledger::Cause sent = ledger::Cause::kUnknown;
  };
  struct Source {
    std::string name;
    uint64_t layout_id = 0, run = 0;
    bool seen = false;
    std::vector<Program> programs;
  };

  static void Plan(const Frame& frame, Source& source);
  void Look(const Frame& frame, Program& program);
  void Send(Program& program, ledger::Cause cause, int64_t at_ns);

  std::vector<Source> sources_;
  std::vector<ledger::ProgramSignal> out_;
};

}  // namespace gpulens::cost
