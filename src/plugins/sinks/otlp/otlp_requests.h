// OTLP requests over HTTP and gRPC: routes by encoding and compression, URLs, requests of records, and
// answers.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "core/received_otlp.h"
#include "export/part_rule.h"
#include "net/message/address.h"
#include "pipeline/delivery/send_setup.h"
#include "plugins/config.h"
#include "wire/otlp/otlp_layout.h"
#include "wire/otlp/otlp_schema.h"
#include "wire/packing.h"

namespace gpulens {

inline constexpr std::array<OtlpMessage, kOtlpSignals> kOtlpMessages = {
    OtlpMessage::kMetrics, OtlpMessage::kLogs, OtlpMessage::kTraces};
// All encodings of a request, by NumberOf.
std::vector<SendRoute> OtlpRoutes();
// Converts records to requests. Used by one thread.
class OtlpRequests {
 public:
  // Of signals that are not `wanted` there are none.
  OtlpRequests(const Config& config, const SendPlan& plan, const std::array<bool, kOtlpSignals>& sends);
  // As SendPlan::prepare: what is kept in protobuf goes out as the sink's protocol and compression say.
  Status Make(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out);

 private:
  const std::array<bool, kOtlpSignals> sends_;
  const bool json_;
  const size_t packing_;
  const PartRule rule_;
  ReceivedParts read_;
  OtlpPacker packer_;
  std::string text_;
};

// What `compression` says, as an index of kOtlpPackings.
size_t OtlpPackingOf(const Config& config);

// As SendPlan::validate.
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

// Where OTLP requests go: from one endpoint to the URL of each signal. Pure.

// As the OTLP exporter specification has it: `own` (of one signal) as it stands; without it `endpoint` with
// "/v1/metrics" behind its path. A path that has its "/v1" or "/v1/metrics" already does not get it twice.
// `signal`: "metrics", "logs".
Result<HttpUrl> OtlpUrl(std::string_view endpoint, std::string_view own, std::string_view signal);

// Which of metrics, logs and traces are sent: all with an endpoint for all, or where nothing is told; else
// those that have a URL of their own. `own`: of each, empty without one.
std::array<bool, 3> OtlpSignalsSent(std::string_view endpoint,
                                    const std::array<std::string_view, 3>& own) noexcept;

// OTLP over gRPC: which calls stand for which requests, and what their replies mean.

// Turns the routes of OtlpRoutes into calls. What a log still holds in another encoding is rewritten.
void MakeOtlpCalls(SendPlan& plan);

// As SendPlan::classify_call.
SendOutcome ClassifyOtlpReply(const GrpcReply& reply);
// As SendPlan::rework: requests in JSON or packed with Zstandard become plain protobuf.
Status ReworkForOtlpCall(SendPart& part);

}  // namespace gpulens
