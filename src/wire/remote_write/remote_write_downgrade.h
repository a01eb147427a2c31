// A request of remote write 2.0 as one of 1.0: for what waits while its receiver turns out to know 1.0 alone.
// Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// Replaces `out`. Metadata and start times are left out: 1.0 does not have them with samples. False for what
// is no such request, and for native histograms with custom bounds, which 1.0 does not know.
bool ToRemoteWrite1(std::string_view request, std::string& out);

}  // namespace gpulens
