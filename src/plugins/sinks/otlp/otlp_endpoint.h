// Where OTLP requests go: from one endpoint to the URL of each signal. Pure.
#pragma once

#include <array>
#include <string_view>

#include <gpulens/status.h>

#include "net/message/address.h"

namespace gpulens {

// As the OTLP exporter specification has it: `own` (of one signal) as it stands; without it `endpoint` with
// "/v1/metrics" behind its path. A path that has its "/v1" or "/v1/metrics" already does not get it twice.
// `signal`: "metrics", "logs".
Result<HttpUrl> OtlpUrl(std::string_view endpoint, std::string_view own, std::string_view signal);

// Which of metrics, logs and traces are sent: all with an endpoint for all, or where nothing is told; else
// those that have a URL of their own. `own`: of each, empty without one.
std::array<bool, 3> OtlpWanted(std::string_view endpoint,
                               const std::array<std::string_view, 3>& own) noexcept;

}  // namespace gpulens
