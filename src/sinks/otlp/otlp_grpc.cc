#include "sinks/otlp/otlp_grpc.h"

#include <array>
#include <string_view>

#include "base/result.h"
#include "sinks/otlp/otlp_body.h"
#include "wire/gzip.h"
#include "wire/otlp/otlp_answer.h"
#include "wire/otlp_json/otlp_json.h"
#include "wire/zstd.h"

namespace gpulens {
namespace {

constexpr std::array<std::string_view, kOtlpSinkSignals> kMethods = {
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export"};
constexpr size_t kGzip = 1;
// Far above what we ever put into one request.
constexpr size_t kUnpackedBytes = size_t{64} << 20;

}  // namespace

void MakeOtlpCalls(Outbox::Setup& setup) {
  for (size_t route = 0; route < setup.routes.size(); ++route) {
    setup.routes[route].headers.clear();
    setup.routes[route].grpc_method = kMethods[OtlpWrittenAs(route).signal];
    setup.routes[route].gzip = OtlpWrittenAs(route).packing == kGzip;
  }
  setup.judge_call = &JudgeOtlpCall;
  setup.rework = &ReworkForOtlpCall;
}

SendOutcome JudgeOtlpCall(const GrpcReply& reply) {
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

Status ReworkForOtlpCall(size_t& route, std::shared_ptr<const std::string>& body) {
  const OtlpWritten written = OtlpWrittenAs(route);
  if (!written.json && written.packing <= kGzip) return Ok();
  std::string plain = *body;
  if (written.packing == kGzip) {
    RETURN_IF_ERROR(Gunzip(*body, kUnpackedBytes, plain));
  } else if (written.packing != 0) {
    RETURN_IF_ERROR(Unzstd(*body, kUnpackedBytes, plain));
  }
  if (written.json) {
    const std::string json = std::move(plain);
    RETURN_IF_ERROR(OtlpFromJson(kOtlpMessages[written.signal], json, kUnpackedBytes, plain));
  }
  body = std::make_shared<const std::string>(std::move(plain));
  route = OtlpRouteOf(written.signal, 0, false);
  return Ok();
}

}  // namespace gpulens
