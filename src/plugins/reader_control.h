// Passes an operator's commands for a reader process from the control socket to the collector that owns the
// process, and returns the collector's state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"

namespace gpulens {

// Thread-safe. Does not block.
class ReaderControl {
 public:
  enum class State : uint8_t {
    kUnowned,    // No collector has joined: there is no such driver on this machine.
    kRunning,    // The process may run.
    kReleasing,  // The process was requested to end, and has not ended yet.
    kReleased,   // No process of gpulens has a device open.
  };
  struct View {
    State state = State::kUnowned;
    int64_t until_boot_ns = 0;  // When the process restarts automatically; 0: never.
    std::string trouble;        // A problem in kRunning; empty: none.
    bool simulated = false;     // Whether the GPUs are simulated.
    size_t gpus = 0;            // Maximum number of GPUs seen.
  };

  // Ends the process for `length`; until Resume when it is zero or less.
  void Release(Instant now, Duration length);
  void Resume();
  // Whether the devices are to be free at `now`, and until when. Called by the collector at every run.
  struct Order {
    bool release = false;
    int64_t until_boot_ns = 0;
  };
  Order Query(Instant now);
  // Called by the collector after it has carried out the order. `quiet`: no process has a device open.
  // `trouble`: a problem of a running process, as a sentence; empty: none.
  void Answer(bool quiet, std::string trouble);
  // Called by a starting collector. During a reload there are two for a moment.
  void Join();
  // Called by the collector with what it reads.
  void Report(bool simulated, size_t gpus);
  // Descriptor of the file with the faults of simulated GPUs, which the reader process inherits. Set before
  // any collector is created; -1: none.
  void SetFaultFile(int fd) noexcept { fault_file_ = fd; }
  int fault_file() const noexcept { return fault_file_; }
  // The same for the profile of simulated GPUs.
  void SetProfileFile(int fd) noexcept { profile_file_ = fd; }
  int profile_file() const noexcept { return profile_file_; }
  // Called by an ending collector. After the last one the state is kUnowned.
  void Leave();

  View view() const;

 private:
  mutable std::mutex mutex_;
  int fault_file_ = -1, profile_file_ = -1;
  bool queried_ = false, release_ = false, quiet_ = false, simulated_ = false;
  size_t gpus_ = 0;
  int collectors_ = 0;
  int64_t until_boot_ns_ = 0;
  std::string trouble_;
};

}  // namespace gpulens
