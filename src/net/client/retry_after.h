// The Retry-After field of an answer (RFC 9110, 10.2.3) as a time to wait. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"

namespace gpulens {

// How long the field asks to wait, from `now` on, between 0 and a day: a number of seconds, or a date in any
// of HTTP's three forms, which is set against the wall clock; one that has passed is 0. Which day of the week
// a date claims is not checked. Nothing for anything else.
std::optional<Duration> RetryAfter(std::string_view field, Instant now) noexcept;

}  // namespace gpulens
