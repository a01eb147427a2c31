// Small texts of the client: what an answer's status or an error means. Internal to net/client.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// "answers 503 Service Unavailable"; a redirect names where it points, without what may be a key: the query,
// the path at another host, and, with `secret_path`, any path.
std::string DescribeStatus(int status, std::string_view location, bool secret_path = false);
// An error without the words that tell which call failed: people know that we connect. What is left stands
// behind a colon, so it begins small.
std::string WithoutPrefix(std::string text, std::string_view prefix);

}  // namespace gpulens
