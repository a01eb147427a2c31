// Finds the library call that ended a reader process, and decides how the next process is started.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "reader/call_page.h"

namespace gpulens::reader {

struct Culprit {
  enum Who : uint8_t { kUnknown, kMain, kDevice, kWaiting } who = kUnknown;
  uint32_t device = 0;        // In kDevice.
  CallNumber call = kNoCall;  // May be a number that is no call.
  friend bool operator==(const Culprit&, const Culprit&) noexcept = default;
};

// Of a process that has ended, or has stopped: the call that the process itself has named when it ended.
// Where it has named none and `in_call` holds, the one device that is in a call, if it is the only one; the
// page is then one of the moment of the end.
Culprit CulpritOf(const CallPage& page, bool in_call) noexcept;

// What has ended reader processes, and how the next one is started.
//
// After ends that nothing explains, the next processes begin their devices one at a time, so that an end
// shows which it was. A thread that waits for the library's events and ends the process again is not started
// for a while. Devices that end processes are counted elsewhere, in the DeviceTable.

// Used by one thread.
class CrashHistory {
 public:
  struct Limits {
    Duration interval, deadline;  // of the driver's readings
    Duration healthy;             // what happened before a process lived so long is past
    Duration rest;                // how long the events are not waited for
  };
  explicit CrashHistory(Limits limits) noexcept : limits_(limits) {}

  // A process is being started, in the way that the two below return.
  void Start(Instant now) noexcept;
  bool one_by_one() const noexcept { return one_by_one_; }
  bool waits_for_events() const noexcept;
  // The process was requested to begin with this device.
  void Begun(uint32_t device, Instant now) noexcept;

  // Finds what ended the process, or keeps it from answering, and remembers it. `in_call`: the process
  // stopped still where it failed. A device without a call is the one that was begun last.
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

}  // namespace gpulens::reader
