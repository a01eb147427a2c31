// Commands of an operator for a reader process, from the control socket to the collector that owns the
// process, and the collector's answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "base/clock.h"

namespace gpulens {

// Thread-safe. Never waits.
class DriverControl {
 public:
  enum class State : uint8_t {
    kNobody,     // No collector has asked yet: there is no such driver on this machine.
    kRunning,    // The process may run.
    kReleasing,  // It was asked to end, and has not ended yet.
    kReleased,   // No process of ours has a device open.
  };
  struct View {
    State state = State::kNobody;
    int64_t until_boot_ns = 0;  // When it starts again by itself; 0: never.
    std::string trouble;        // In kRunning.
    bool simulated = false;     // The GPUs are.
    size_t gpus = 0;            // That were ever seen.
  };

  // `length` zero or less: until Resume.
  void Release(Instant now, Duration length);
  void Resume();
  // By the collector, at every run: whether the devices are to be free at `now`, and until when.
  struct Order {
    bool release = false;
    int64_t until_boot_ns = 0;
  };
  Order Query(Instant now);
  // By the collector, after it has done so. `quiet`: no process has a device open. `trouble`: what is wrong
  // with a process that runs all the same; a sentence, empty when all is well.
  void Answer(bool quiet, std::string trouble);
  // By a collector that begins. While a configuration is changed there are two for a moment.
  void Join();
  // By the collector: what it reads.
  void Report(bool simulated, size_t gpus);
  // The file that says what goes wrong with simulated GPUs, for the collector to hand on. Set before any
  // collector is made; empty: none.
  void SetFaultFile(std::string path) { fault_file_ = std::move(path); }
  const std::string& fault_file() const noexcept { return fault_file_; }
  // The collector ends: until there is another one, nobody is here.
  void Leave();

  View view() const;

 private:
  mutable std::mutex mutex_;
  std::string fault_file_;
  bool queried_ = false, release_ = false, quiet_ = false, simulated_ = false;
  size_t gpus_ = 0;
  int collectors_ = 0;
  int64_t until_boot_ns_ = 0;
  std::string trouble_;
};

}  // namespace gpulens
