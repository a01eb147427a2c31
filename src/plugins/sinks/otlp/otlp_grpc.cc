#include "plugins/sinks/otlp/otlp_grpc.h"

#include <array>
#include <string_view>

#include "base/result.h"
#include "plugins/sinks/otlp/otlp_body.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp/otlp_json.h"

namespace gpulens {
namespace {

constexpr std::array<std::string_view, kOtlpSignals> kMethods = {
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export"};
constexpr size_t kGzip = 1;

}  // namespace

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
  const OtlpEncoding written = OtlpEncodingOf(part.route);
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
