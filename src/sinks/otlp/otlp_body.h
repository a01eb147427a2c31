// How an OTLP request is written over HTTP: its encoding and packing, the routes that say which, and what an
// answer in either encoding says.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/otlp/otlp_encoding.h"
#include "pipeline/config.h"
#include "pipeline/delivery/send_setup.h"
#include "wire/gzip.h"
#include "wire/otlp/otlp_layout.h"
#include "wire/otlp_json/otlp_schema.h"
#include "wire/zstd.h"

namespace gpulens {

// Of a request that was unpacked: far above what we ever put into one.
inline constexpr size_t kUnpackedBytes = size_t{64} << 20;
inline constexpr std::array<OtlpMessage, kOtlpSignals> kOtlpMessages = {
    OtlpMessage::kMetrics, OtlpMessage::kLogs, OtlpMessage::kTraces};
// Every way to write a request, by NumberOf its encoding.
std::vector<SendRoute> OtlpRoutes();
// As SendPlan::prepare: what is kept in protobuf goes out as JSON where `json`, and packed as `packing` says
// where it is packed otherwise.
Status PrepareOtlp(const Envelope& envelope, std::string&& body, uint32_t items, bool json, size_t packing,
                   std::vector<SendPart>& parts);

// Packs requests. Not thread-safe; keeps its memory between calls.
class OtlpPacker {
 public:
  // An index of kOtlpPackings. What it returns lives until the next call.
  std::string_view Pack(std::string_view bytes, size_t packing);

 private:
  GzipCompressor gzip_;
  ZstdCompressor zstd_;
  std::string packed_;
};
// What `compression` says, as an index of kOtlpPackings.
size_t OtlpPackingOf(const Config& config);

// As SendPlan::judge.
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
