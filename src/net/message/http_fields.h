// Header fields of HTTP requests and responses, and failures of requests as codes and texts. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens {

enum class HttpFailure : uint8_t {
  kNone,
  kConnect,   // no such host, refused, unreachable
  kTls,       // handshake, certificates
  kTimeout,   // no complete response in time
  kAuth,      // 401, 403
  kStatus,    // any response but 200, to a Post but 2xx
  kTooLarge,  // head or body above its limit
  kProtocol,  // not HTTP, damaged or truncated
};
inline constexpr size_t kHttpFailures = 8;
// "connect": the value of an attribute.
std::string_view HttpFailureName(HttpFailure failure) noexcept;
Code HttpFailureCode(HttpFailure failure) noexcept;

// Whether a text is a token of RFC 9110, such as the name of a field.
bool IsHttpToken(std::string_view text) noexcept;

// Appends "Name: value\r\n". kInvalidArgument when `name` is not a field name or one that clients set
// themselves (Connection, Content-Length, Host, …), or `value` has a control byte.
Status AddRequestField(std::string& headers, std::string_view name, std::string_view value);
// Appends an Authorization field of user and password.
void AddBasicAuth(std::string& headers, std::string_view user, std::string_view password);

// Parses a Retry-After field (RFC 9110, 10.2.3): the time to wait from `now` on, from 0 to a day. Seconds, or
// a date in any of HTTP's three forms, compared with the wall clock; its day of the week is not checked.
std::optional<Duration> RetryAfter(std::string_view field, Instant now) noexcept;

// "answers 503 Service Unavailable"; a redirect names its target without what may be secret: the query, the
// path at another host and, with `secret_path`, any path.
std::string DescribeStatus(int status, std::string_view location, bool secret_path = false);
// An error without the prefix that names the failed call, begun in lower case.
std::string WithoutPrefix(std::string text, std::string_view prefix);

}  // namespace gpulens
