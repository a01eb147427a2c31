// Small texts of the client: what an answer's status or an error means. Internal to net/client.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// "answers 503 Service Unavailable"; a redirect names where it points.
std::string DescribeStatus(int status, std::string_view location);
// An error without the words that tell which call failed: people know that we connect. What is left stands
// behind a colon, so it begins small.
std::string WithoutPrefix(std::string text, std::string_view prefix);

}  // namespace gpulens
