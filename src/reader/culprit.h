// Which library call ended a reader process, as far as its call page tells.
#pragma once

#include <cstdint>

#include "reader/call_page.h"

namespace gpulens::driver {

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

}  // namespace gpulens::driver
