// How an OTLP request is written over HTTP: its encoding and packing, the routes that say which, and what an
// answer in either encoding says.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "export/part_rule.h"
#include "export/received_parts.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/config.h"
#include "wire/otlp/otlp_layout.h"
#include "wire/otlp/otlp_schema.h"
#include "wire/packing.h"

namespace gpulens {

inline constexpr std::array<OtlpMessage, kOtlpSignals> kOtlpMessages = {
    OtlpMessage::kMetrics, OtlpMessage::kLogs, OtlpMessage::kTraces};
// Every way to write a request, by NumberOf its encoding.
std::vector<SendRoute> OtlpRoutes();
// Makes requests of records. Of one thread.
class OtlpRequests {
 public:
  // Of signals that are not `wanted` there are none.
  OtlpRequests(const Config& config, const SendPlan& plan, const std::array<bool, kOtlpSignals>& wanted);
  // As SendPlan::prepare: what is kept in protobuf goes out as the sink's protocol and compression say.
  Status Make(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out);

 private:
  const std::array<bool, kOtlpSignals> wanted_;
  const bool json_;
  const size_t packing_;
  const PartRule rule_;
  ReceivedParts read_;
  OtlpPacker packer_;
  std::string text_;
};

// What `compression` says, as an index of kOtlpPackings.
size_t OtlpPackingOf(const Config& config);

// As SendPlan::judge.
SendOutcome ValidateOtlp(const HttpReply& reply);

inline constexpr std::array<std::string_view, 3> kOtlpTemporalities = {"cumulative", "delta", "lowmemory"};
inline constexpr std::array<std::string_view, 2> kOtlpHistograms = {"explicit", "exponential"};
inline constexpr std::array<OptionSpec, 2> kOtlpStyleOptions = {{
    {.key = "temporality",
     .fallback = "cumulative",
     .help = "cumulative: counters and histograms since their start; delta: since the last export; "
             "lowmemory: only histograms as delta.",
     .allowed = kOtlpTemporalities},
    {.key = "histograms",
     .fallback = "explicit",
     .help = "Keep the bounds of the source, or export exponential histograms.",
     .allowed = kOtlpHistograms},
}};
OtlpStyle OtlpStyleOf(const Config& config);

}  // namespace gpulens
