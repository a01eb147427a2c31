// Which devices and threads have ended driver processes, and what the next process is started without.
//
// A device that ended it is counted in the DeviceBook. Where nothing names one, the next processes begin
// their devices one at a time, so that an end tells which it was. A thread that waits for the library's
// events and ends the process again is not started for a while.
#pragma once

#include <cstdint>
#include <string>

#include "driver/culprit/culprit.h"
#include "driver/device_book.h"

namespace gpulens::driver {

// Used by one thread. The vendor and the book outlive it.
class CrashHistory {
 public:
  struct Limits {
    Duration interval, deadline;  // of the driver's readings
    Duration healthy;             // what happened before a process lived so long is past
    Duration rest;                // how long the events are not waited for
  };
  CrashHistory(const Vendor& vendor, DeviceBook& book, Limits limits)
      : vendor_(vendor), book_(book), limits_(limits) {}

  // A process is being started. It may be asked then what for.
  void Start(Instant now) noexcept;
  bool one_by_one() const noexcept { return one_by_one_; }
  bool waits_for_events() const noexcept;
  // The process was told to begin with this device.
  void Begun(uint32_t device, Instant now) noexcept;

  // Finds what ended the process, or keeps it from answering, and counts it. Returns what is to be said of
  // it, beginning with a blank or a comma; empty when nothing explains it. `in_call`: the process stands
  // still where it failed.
  std::string Blame(const CallPage& page, bool in_call, Instant now);
  // The devices may have other numbers, or were repaired.
  void Forget() noexcept;

 private:
  std::string BlameDevice(const Culprit& culprit, Instant now);
  std::string BlameEvents(const Culprit& culprit, Instant now);

  const Vendor& vendor_;
  DeviceBook& book_;
  const Limits limits_;
  int unexplained_ = 0, event_ends_ = 0;
  int64_t event_end_ns_ = 0;
  bool one_by_one_ = false;
  int64_t started_ns_ = 0;
  uint32_t begun_ = kMaxDevices;  // The last one; kMaxDevices: none yet.
  int64_t begun_ns_ = 0;
};

}  // namespace gpulens::driver
