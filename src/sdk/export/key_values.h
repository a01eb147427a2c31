// Lists in environment variables of OpenTelemetry: OTEL_RESOURCE_ATTRIBUTES, OTEL_EXPORTER_OTLP_HEADERS.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::sdk {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

// "a=1, b=x%20y": as W3C baggage, with %XX undone; blanks around keys and values do not count. Empty text is
// an empty list. kInvalidArgument for an element without '=', an empty key, a broken escape, control bytes,
// and for more than 128 elements: then all of it is to be thrown away, as OpenTelemetry wants.
Result<KeyValues> ParseKeyValues(std::string_view text);

}  // namespace gpulens::sdk
