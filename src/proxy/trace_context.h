// The field `traceparent` of W3C Trace Context, by which programs tie their spans together.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "wire/otlp/otlp_spans.h"

namespace gpulens::proxy {

// A plain value.
struct TraceContext {
  static constexpr uint8_t kSampled = 1, kRandom = 2;

  TraceId trace_id{};
  SpanId span_id{};
  uint8_t flags = 0;  // kSampled, kRandom; others are not defined yet and are not kept
  bool sampled() const noexcept { return (flags & kSampled) != 0; }
  bool operator==(const TraceContext&) const = default;
};

// Nothing where the specification calls the text invalid: capitals, zeros as an id, version ff, a length that
// the version does not have. Later versions are read as far as version 00 goes.
std::optional<TraceContext> ParseTraceparent(std::string_view text) noexcept;
// Appends it as version 00.
void AppendTraceparent(std::string& out, const TraceContext& context);

}  // namespace gpulens::proxy
