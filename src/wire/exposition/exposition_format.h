// The three text formats a Prometheus endpoint may answer with, and how its Content-Type names them.
// The protobuf format is not among them: we never ask for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpulens {

enum class ExpositionFormat : uint8_t {
  kText004,         // text/plain; version=0.0.4: classic. Timestamps are integers of milliseconds.
  kText100,         // text/plain; version=1.0.0: the same with names in quotes.
  kOpenMetrics100,  // application/openmetrics-text: seconds, exemplars, units, "# EOF" at the end.
};

// The format a Content-Type stands for. An empty one is kText004, as old exporters send none; nothing
// for a type that is no exposition (HTML, JSON, protobuf).
std::optional<ExpositionFormat> DetectExpositionFormat(std::string_view content_type) noexcept;

}  // namespace gpulens
