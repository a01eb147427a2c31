#include "plugins/sinks/otlp/otlp_requests.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/text.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_json.h"

namespace gpulens {
namespace {

constexpr std::string_view kProtobuf = "application/x-protobuf", kJson = "application/json";

// The protobuf of what a receiver said, whichever way it says it; empty: it does not.
std::string Said(const HttpReply& reply, OtlpMessage message) {
  if (reply.content_type.starts_with(kProtobuf)) return reply.body;
  std::string protobuf;
  // Answers are read with a limit already; as protobuf they are not larger.
  if (reply.content_type.starts_with(kJson) &&
      !OtlpFromJson(message, reply.body, 2 * reply.body.size(), protobuf))
    protobuf.clear();
  return protobuf;
}

// What a receiver that took nothing has to say about it.
std::string Refusal(const HttpReply& reply) {
  std::string said = ReadOtlpError(Said(reply, OtlpMessage::kError));
  if (said.empty()) AppendPrintable(said, std::string_view(reply.body).substr(0, 200));
  return said.empty() ? reply.detail : reply.detail + ": " + said;
}

constexpr std::array<std::string_view, kOtlpSignals> kMethods = {
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export"};
constexpr size_t kGzip = 1;

}  // namespace

SendOutcome ValidateOtlp(const HttpReply& reply) {
  if (reply.failure != HttpFailure::kNone)
    return {IsRetryable(reply.status) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, Refusal(reply)};
  SendOutcome outcome;
  // In JSON what is rejected is called differently for each signal.
  for (OtlpMessage message :
       {OtlpMessage::kMetricsAnswer, OtlpMessage::kLogsAnswer, OtlpMessage::kTracesAnswer}) {
    auto answer = ReadOtlpAnswer(Said(reply, message));
    if (!answer) continue;
    outcome.rejected = std::max(outcome.rejected, static_cast<uint64_t>(answer->rejected));
    outcome.detail = std::move(answer->message);
  }
  return outcome;
}

std::vector<SendRoute> OtlpRoutes() {
  std::vector<SendRoute> routes(kOtlpEncodings);
  for (size_t i = 0; i < routes.size(); ++i) {
    const OtlpRecordEncoding encoding = OtlpEncodingOf(i);
    std::string headers = "Content-Type: ";
    headers.append(encoding.json ? kJson : kProtobuf).append("\r\n");
    if (encoding.packing != 0)
      headers.append("Content-Encoding: ").append(kOtlpPackings[encoding.packing]).append("\r\n");
    routes[i] = {encoding.signal, std::move(headers)};
  }
  return routes;
}

size_t OtlpPackingOf(const Config& config) {
  const auto at = std::find(kOtlpPackings.begin(), kOtlpPackings.end(), config.Text("compression"));
  return static_cast<size_t>(at - kOtlpPackings.begin()) % kOtlpPackings.size();
}

OtlpRequests::OtlpRequests(const Config& config, const SendPlan& plan,
                           const std::array<bool, kOtlpSignals>& sends)
    : sends_(sends),
      json_(config.Text("protocol") == "http/json"),
      packing_(OtlpPackingOf(config)),
      rule_(config, plan.urls) {}

Status OtlpRequests::Make(const Envelope& envelope, std::string&& body, uint32_t items, SendParts& out) {
  if (envelope.kind >= kOtlpEncodings) return {Code::kDataLoss, "it has another version"};
  OtlpRecordEncoding encoding = OtlpEncodingOf(envelope.kind);
  if (!sends_[encoding.signal]) {
    out.left_out = items;
    return Ok();
  }
  const auto add = [&](uint64_t key, uint32_t count, std::string headers, std::string&& bytes) {
    out.list.push_back({NumberOf(encoding), std::move(headers),
                        std::make_shared<const std::string>(std::move(bytes)), count, key});
  };
  const SplitRule* rule = rule_.For(static_cast<RecordSource>(envelope.source));
  const bool same = encoding.json == json_ && encoding.packing == packing_;
  // What 0.1.0 kept as JSON goes out as it is.
  if (encoding.json || (!rule && same)) {
    add(envelope.key, items, {}, std::move(body));
    return Ok();
  }
  const OtlpRecordEncoding kept = std::exchange(encoding, {encoding.signal, packing_, json_});
  return read_.Read(
      {kept, body, items}, rule,
      [&](const SplitPart& part) -> Status {
        std::string_view bytes = part.body;
        if (json_) {
          RETURN_IF_ERROR(OtlpToJson(kOtlpMessages[encoding.signal], bytes, text_));
          bytes = text_;
        }
        const bool hashed = rule && rule->hash != SplitHash::kNone;
        add(hashed ? part.hash : envelope.key, part.items, rule ? rule_.HeadersOf(part) : std::string(),
            std::string(packer_.Pack(bytes, packing_)));
        return Ok();
      },
      out.left_out);
}

OtlpStyle OtlpStyleOf(const Config& config) {
  const std::string& temporality = config.Text("temporality");
  return {.delta_counters = temporality == "delta",
          .delta_histograms = temporality != "cumulative",
          .exponential = config.Text("histograms") == "exponential"};
}

Result<HttpUrl> OtlpUrl(std::string_view endpoint, std::string_view own, std::string_view signal) {
  if (!own.empty()) return ParseHttpUrl(own);
  ASSIGN_OR_RETURN(HttpUrl url, ParseHttpUrl(endpoint));
  std::string_view path = url.target;
  if (path.find('?') != path.npos)
    return Status{
        Code::kInvalidArgument,
        "an endpoint with a query cannot be made a signal's: set metrics_endpoint and logs_endpoint"};
  auto cut_slashes = [&] {
    while (path.ends_with('/')) path.remove_suffix(1);
  };
  cut_slashes();
  for (std::string_view known : {"/v1/metrics", "/v1/logs", "/v1/traces", "/v1"}) {
    if (!path.ends_with(known)) continue;
    path.remove_suffix(known.size());
    break;
  }
  cut_slashes();
  url.target = std::string(path) + "/v1/" + std::string(signal);
  url.has_path = true;
  return url;
}

std::array<bool, 3> OtlpSignalsSent(std::string_view endpoint,
                                    const std::array<std::string_view, 3>& own) noexcept {
  const bool all = !endpoint.empty() || std::ranges::all_of(own, &std::string_view::empty);
  std::array<bool, 3> sends{};
  for (size_t i = 0; i < own.size(); ++i) sends[i] = all || !own[i].empty();
  return sends;
}

void MakeOtlpCalls(SendPlan& plan) {
  for (size_t route = 0; route < plan.routes.size(); ++route) {
    plan.routes[route].headers.clear();
    plan.routes[route].grpc_method = kMethods[OtlpEncodingOf(route).signal];
    plan.routes[route].gzip = OtlpEncodingOf(route).packing == kGzip;
  }
  plan.classify_call = [](const GrpcReply& reply, size_t) { return ClassifyOtlpReply(reply); };
  plan.rework = &ReworkForOtlpCall;
}

SendOutcome ClassifyOtlpReply(const GrpcReply& reply) {
  if (reply.code == GrpcCode::kOk) {
    SendOutcome outcome;
    if (auto answer = ReadOtlpAnswer(reply.answer)) {
      outcome.rejected = static_cast<uint64_t>(answer->rejected);
      outcome.detail = std::move(answer->message);
    }
    return outcome;
  }
  std::string detail = reply.message;
  if (reply.failure == HttpFailure::kNone) {
    detail = "answers " + std::string(GrpcCodeName(reply.code));
    if (!reply.message.empty()) detail += ": " + reply.message;
  }
  return {IsRetryable(reply) ? SendOutcome::kAgain : SendOutcome::kRefused, 0, std::move(detail)};
}

Status ReworkForOtlpCall(SendPart& part) {
  const OtlpRecordEncoding written = OtlpEncodingOf(part.route);
  if (!written.json && written.packing <= kGzip) return Ok();
  std::string plain;
  RETURN_IF_ERROR(UnpackOtlp(*part.body, written.packing, kUnpackedBytes, plain));
  if (written.json) {
    const std::string json = std::move(plain);
    RETURN_IF_ERROR(OtlpFromJson(kOtlpMessages[written.signal], json, kUnpackedBytes, plain));
  }
  part.body = std::make_shared<const std::string>(std::move(plain));
  part.route = NumberOf({written.signal, 0, false});
  return Ok();
}

}  // namespace gpulens
