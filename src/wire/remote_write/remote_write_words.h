// Words of Prometheus in OpenTelemetry's terms: units, types, and what a type makes of a series. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/remote_write/remote_write_fields.h"

namespace gpulens {

// Replaces `out`: "seconds" is "s", "bytes_per_second" "By/s", "ratio" "1". A word that has no short form
// stays as it is.
void OtlpUnitOf(std::string_view unit, std::string& out);

// "counter"; the value of prometheus.type. Static storage.
std::string_view PrometheusTypeName(remote_write::Type type) noexcept;

// Numbers of a message become known types; others are unknown.
remote_write::Type TypeOfNumber(uint64_t number) noexcept;

// What one float series is in OTLP, all of it cumulative.
enum class FloatKind : uint8_t {
  kGauge,
  kCounter,  // a Sum that only grows
  kState,    // a Sum that does not: an info or a state
};

// By the type of its family. Parts of classic histograms and summaries stay series of their own: what counts
// in them is a counter. The time of creation, which OpenMetrics tells as a series, is none.
FloatKind FloatKindOf(remote_write::Type type, std::string_view name) noexcept;

}  // namespace gpulens
