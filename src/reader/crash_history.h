// What has ended reader processes, and how the next one is started.
//
// After ends that nothing explains, the next processes begin their devices one at a time, so that an end
// tells which it was. A thread that waits for the library's events and ends the process again is not started
// for a while. Devices that end processes are counted elsewhere, in the DeviceTable.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "reader/culprit.h"

namespace gpulens::driver {

// Used by one thread.
class CrashHistory {
 public:
  struct Limits {
    Duration interval, deadline;  // of the driver's readings
    Duration healthy;             // what happened before a process lived so long is past
    Duration rest;                // how long the events are not waited for
  };
  explicit CrashHistory(Limits limits) noexcept : limits_(limits) {}

  // A process is being started: in which way, the two below say.
  void Start(Instant now) noexcept;
  bool one_by_one() const noexcept { return one_by_one_; }
  bool waits_for_events() const noexcept;
  // The process was told to begin with this device.
  void Begun(uint32_t device, Instant now) noexcept;

  // Finds what ended the process, or keeps it from answering, and remembers it. `in_call`: the process stands
  // still where it failed. A device without a call is the one that was begun last.
  Culprit Blame(const CallPage& page, bool in_call, Instant now) noexcept;
  // What failed may have been repaired.
  void Forget() noexcept { unexplained_ = event_ends_ = 0; }

 private:
  const Limits limits_;
  int unexplained_ = 0, event_ends_ = 0;
  int64_t event_end_ns_ = 0;
  bool one_by_one_ = false;
  int64_t started_ns_ = 0;
  uint32_t begun_ = kMaxDevices;  // The last one; kMaxDevices: none yet.
  int64_t begun_ns_ = 0;
};

}  // namespace gpulens::driver
