// Why a point of OTLP cannot leave by remote write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpulens {

enum class RemoteWriteOutFault : uint8_t {
  kNone,
  kDelta,
  kTemporality,
  kNoName,
  kNoData,
  kNoTime,
  kNoValue,
  kMalformed,
  kBuckets,
  kSchema,
  kTooMany,
  kTooLarge,
  kTooMuch,
};
inline constexpr size_t kRemoteWriteOutFaults = 13;

// For logs. Static storage.
constexpr std::string_view TextOf(RemoteWriteOutFault fault) noexcept {
  constexpr std::string_view kTexts[kRemoteWriteOutFaults] = {
      "",
      "the metric has delta temporality",
      "the metric has no temporality",
      "the metric has no name that is valid in Prometheus",
      "the metric has data of an unknown kind",
      "a point has no time",
      "a point has no value",
      "a text is not valid UTF-8, or values nest too deeply",
      "a histogram's buckets do not fit its bounds or its count",
      "an exponential histogram's scale is below -4",
      "more than 500 attributes, or 16384 buckets or quantiles",
      "a series is larger than a request",
      "the request becomes too large as remote write",
  };
  return kTexts[static_cast<size_t>(fault)];
}

// A label for metrics: "delta", "too_large". Static storage.
constexpr std::string_view ReasonOf(RemoteWriteOutFault fault) noexcept {
  constexpr std::string_view kReasons[kRemoteWriteOutFaults] = {
      "",          "delta",   "no_temporality", "no_name",  "unknown_data", "no_time", "no_value",
      "malformed", "buckets", "scale",          "too_many", "too_large",    "too_much"};
  return kReasons[static_cast<size_t>(fault)];
}

}  // namespace gpulens
