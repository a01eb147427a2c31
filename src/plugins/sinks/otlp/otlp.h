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
// Returns all encodings of a request, by NumberOf.
std::vector<SendRoute> OtlpRoutes();
// Converts records to requests. Used by one thread.
class OtlpRequests {
 public:
  // Signals that are not `wanted` have no requests.
  OtlpRequests(bool json, size_t packing, PartRule rule, const std::array<bool, kOtlpSignals>& sends);
  // SendPlan::prepare: converts a stored record to the protocol and compression of the sink.
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

// SendPlan::validate.
SendOutcome ValidateOtlp(const HttpReply& reply);

// URLs of signals. Pure.

// Returns the URL of a signal ("metrics", "logs") by the OTLP exporter specification: `own`, of this signal,
// unchanged; else `endpoint` with "/v1/metrics" appended to its path, unless it ends with "/v1" or
// "/v1/metrics" already.
Result<HttpUrl> OtlpUrl(std::string_view endpoint, std::string_view own, std::string_view signal);

// Returns which of metrics, logs and traces are sent: all with a common endpoint or without any, else those
// with a URL of their own. `own`: URL of each signal; empty: none.
std::array<bool, 3> OtlpSignalsSent(std::string_view endpoint,
                                    const std::array<std::string_view, 3>& own) noexcept;

// OTLP over gRPC.

// Replaces the routes of OtlpRoutes by calls. Stored records of other encodings are rewritten.
void MakeOtlpCalls(SendPlan& plan);

// SendPlan::classify_call.
SendOutcome ClassifyOtlpReply(const GrpcReply& reply);
// SendPlan::rework: converts requests in JSON or compressed with Zstandard to plain protobuf.
Status ReworkForOtlpCall(SendPart& part);

}  // namespace gpulens
