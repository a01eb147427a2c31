// What a receiver of remote write answers, and what it tells about the versions that it knows. Pure.
#pragma once

#include <string_view>

#include "delivery/request_sender.h"

namespace gpulens {

// Of one receiver. Plain; used by one thread at a time.
struct RemoteWritePeer {
  bool may_fall_back = false;  // to 1.0
  bool knows_2 = false;        // it said so in an answer
  bool only_1 = false;
};

// The start of the names of its header fields, to be kept: x-prometheus-remote-write-samples-written: 3
inline constexpr std::string_view kRemoteWriteFields = "x-prometheus-remote-write-";

// `second`: the request was one of 2.0. One that its receiver did not understand is to be made anew (kAnew),
// and from then on it is known as `only_1`. Receivers of 1.0 may take a request of 2.0 as an empty one, so an
// answer that does not say what was written counts as such, too.
SendOutcome ClassifyRemoteWriteReply(const HttpReply& reply, bool second, RemoteWritePeer& peer);

}  // namespace gpulens
