// What an operator has asked of a driver process, handed from the control socket to the collector that owns
// the process, and what the collector has made of it.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace gpulens {

// Thread-safe; nobody waits here.
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
  };

  // `length` zero or less: until Resume.
  void Release(Instant now, Duration length);
  void Resume();
  // By the collector, at every run: whether the devices are to be free at `now`, and until when.
  struct Order {
    bool release = false;
    int64_t until_boot_ns = 0;
  };
  Order Ask(Instant now);
  // By the collector, after it has done so. `quiet`: no process has a device open. `trouble`: what is wrong
  // with a process that runs all the same; a sentence, empty when all is well.
  void Answer(bool quiet, std::string trouble);
  // The collector ends: until there is another one, nobody is here.
  void Leave();

  View view() const;

 private:
  mutable std::mutex mutex_;
  bool asked_ = false, release_ = false, quiet_ = false;
  int64_t until_boot_ns_ = 0;
  std::string trouble_;
};

}  // namespace gpulens
