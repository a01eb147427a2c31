// How an OTLP request is written over HTTP: its encoding and packing, the routes that say which, and what an
// answer in either encoding says.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "delivery/parcel_sender.h"
#include "pipeline/config.h"
#include "pipeline/outbox/outbox.h"
#include "wire/gzip.h"
#include "wire/otlp/otlp_layout.h"
#include "wire/otlp_json/otlp_schema.h"
#include "wire/zstd.h"

namespace gpulens {

inline constexpr std::array<std::string_view, 3> kOtlpPackings = {"none", "gzip", "zstd"};

// Metrics, logs, traces, in this order.
inline constexpr size_t kOtlpSinkSignals = 3;
// A parcel on disk outlives a change of `compression` and `protocol`, so its route says both. Traces came
// last, and stand behind the others.
constexpr size_t OtlpRouteOf(size_t signal, size_t packing, bool json) noexcept {
  const size_t way = packing + kOtlpPackings.size() * json;
  return signal < 2 ? signal + 2 * way : 4 * kOtlpPackings.size() + way;
}
inline constexpr size_t kOtlpRoutes = 6 * kOtlpPackings.size();
// What OtlpRouteOf has made a number of.
struct OtlpWritten {
  size_t signal, packing;
  bool json;
};
constexpr OtlpWritten OtlpWrittenAs(size_t route) noexcept {
  const size_t packings = kOtlpPackings.size(), first_traces = 4 * packings;
  const size_t way = route < first_traces ? route / 2 : route - first_traces;
  return {route < first_traces ? route % 2 : 2, way % packings, way >= packings};
}
inline constexpr std::array<OtlpMessage, kOtlpSinkSignals> kOtlpMessages = {
    OtlpMessage::kMetrics, OtlpMessage::kLogs, OtlpMessage::kTraces};
// All routes of the signals to these URLs.
std::vector<Outbox::Route> OtlpRoutes(const std::array<HttpUrl, kOtlpSinkSignals>& urls);

// Bodies of requests as the configuration wants them. Not thread-safe; keeps its memory between calls.
class OtlpBody {
 public:
  explicit OtlpBody(const Config& config);
  // Of a request in protobuf. Lives until the next call.
  Result<std::string_view> Make(OtlpMessage message, std::string_view protobuf);
  size_t route(size_t signal) const noexcept { return OtlpRouteOf(signal, packing_, json_); }
  // Of protobuf, so that the request stays below what receivers take by default.
  size_t max_bytes() const noexcept { return json_ ? 2u << 20 : 4u << 20; }

 private:
  const bool json_;
  size_t packing_ = 0;
  GzipCompressor gzip_;
  ZstdCompressor zstd_;
  std::string text_, packed_;
};

// As Outbox::Setup::judge.
SendOutcome JudgeOtlp(const HttpReply& reply);

inline constexpr std::array<std::string_view, 3> kOtlpTemporalities = {"cumulative", "delta", "lowmemory"};
inline constexpr std::array<std::string_view, 2> kOtlpHistograms = {"explicit", "exponential"};
inline constexpr std::array<OptionSpec, 2> kOtlpStyleOptions = {{
    {.key = "temporality",
     .fallback = "cumulative",
     .help = "Whether counters and histograms are told since their start or, delta, since last time; "
             "lowmemory: histograms alone as delta.",
     .allowed = kOtlpTemporalities},
    {.key = "histograms",
     .fallback = "explicit",
     .help = "With the bounds of their sources, or as exponential ones.",
     .allowed = kOtlpHistograms},
}};
OtlpStyle OtlpStyleOf(const Config& config);

}  // namespace gpulens
