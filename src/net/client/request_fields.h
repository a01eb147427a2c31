// Small texts of the client: what an answer's status means. Internal to net/client.
#pragma once

#include <string>
#include <string_view>

namespace gpulens {

// "answers 503 Service Unavailable"; a redirect names where it points.
std::string DescribeStatus(int status, std::string_view location);

}  // namespace gpulens
