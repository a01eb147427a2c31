#include "plugins/receivers/otlp/otlp_http.h"

#include <optional>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens {
namespace {

// gRPC's codes, which google.rpc.Status has.
constexpr uint32_t kInvalidArgument = 3, kDeadlineExceeded = 4, kResourceExhausted = 8, kUnimplemented = 12,
                   kInternal = 13, kUnavailable = 14, kUnauthenticated = 16;

struct Spoken {
  int status;
  uint32_t code;
};
Spoken SpokenAs(OtlpAnswer::Kind kind) noexcept {
  switch (kind) {
    case OtlpAnswer::kAccepted: return {200, 0};
    case OtlpAnswer::kMalformed: return {400, kInvalidArgument};
    case OtlpAnswer::kTooLarge: return {413, kInvalidArgument};
    case OtlpAnswer::kOverloaded: return {429, kResourceExhausted};
    case OtlpAnswer::kUnavailable: break;
  }
  return {503, kUnavailable};
}

HttpResponse Speak(OtlpSignal signal, OtlpEncoding encoding, const OtlpAnswer& answer) {
  const Spoken spoken = SpokenAs(answer.kind);
  HttpResponse response;
  response.status = spoken.status;
  response.content_type = OtlpContentType(encoding);
  response.body = answer.kind == OtlpAnswer::kAccepted
                      ? OtlpSuccess(signal, encoding, answer.rejected, answer.message)
                      : OtlpFailure(encoding, spoken.code, answer.message);
  AddRetryAfter(response, answer.retry_after);
  return response;
}

std::optional<OtlpEncoding> EncodingOf(const HttpRequest& request) {
  std::string_view type = request.Header("Content-Type");
  type = Trim(TakeUntil(type, ';'));
  if (EqualsIgnoringCase(type, "application/x-protobuf")) return OtlpEncoding::kProtobuf;
  if (EqualsIgnoringCase(type, "application/json")) return OtlpEncoding::kJson;
  return std::nullopt;
}

std::optional<OtlpPacking> PackingOf(const HttpRequest& request) {
  const std::string packing = request.JoinedHeader("Content-Encoding");
  if (packing.empty() || EqualsIgnoringCase(packing, "identity")) return OtlpPacking::kPlain;
  if (EqualsIgnoringCase(packing, "gzip")) return OtlpPacking::kGzip;
  if (EqualsIgnoringCase(packing, "zstd")) return OtlpPacking::kZstd;
  return std::nullopt;
}

// What a sender has to know of a status that the server chose.
uint32_t CodeOf(int status) noexcept {
  switch (status) {
    case 401: return kUnauthenticated;
    case 404:
    case 405: return kUnimplemented;
    case 408: return kDeadlineExceeded;
    case 429: return kResourceExhausted;
    case 500: return kInternal;
    case 503: return kUnavailable;
    default: return kInvalidArgument;
  }
}

// A refusal that is a sentence, as google.rpc.Status.
void SpeakRefusal(const HttpRequest& request, HttpResponse& refusal) {
  const OtlpEncoding encoding = EncodingOf(request).value_or(OtlpEncoding::kProtobuf);
  refusal.body = OtlpFailure(encoding, CodeOf(refusal.status), Trim(refusal.body.bytes));
  refusal.content_type = OtlpContentType(encoding);
}

}  // namespace

OtlpHttp::OtlpHttp(size_t way, OtlpIntake& intake) : way_(way), intake_(intake) {
  for (OtlpSignal signal : {OtlpSignal::kMetrics, OtlpSignal::kLogs, OtlpSignal::kTraces}) {
    router_.Add(
        "/v1/" + std::string(OtlpSignalName(signal)), "POST",
        [this, signal](const HttpRequest& request, HttpResponder responder) {
          Handle(signal, request, std::move(responder));
        },
        &SpeakRefusal);
  }
}

Result<std::unique_ptr<OtlpHttp>> OtlpHttp::Open(const Options& options, Env& env, OtlpIntake& intake) {
  std::unique_ptr<OtlpHttp> made(new OtlpHttp(options.way, intake));
  ASSIGN_OR_RETURN(made->http_, ReceiverHttp::Open(options, env, made->router_));
  return made;
}

void OtlpHttp::Handle(OtlpSignal signal, const HttpRequest& request, HttpResponder responder) {
  const auto encoding = EncodingOf(request);
  const auto packing = PackingOf(request);
  if (!encoding || !packing) {
    HttpResponse response =
        Speak(signal, encoding.value_or(OtlpEncoding::kProtobuf),
              {OtlpAnswer::kMalformed,
               encoding ? "Content-Encoding must be gzip, zstd or identity"
                        : "Content-Type must be application/x-protobuf or application/json"});
    response.status = 415;
    if (!packing) response.AddHeader("Accept-Encoding", "gzip, zstd, identity");
    intake_.flight()->CountAnswer(way_, signal, "415");
    return responder.Send(std::move(response));
  }
  OtlpCall call;
  call.signal = signal;
  call.decoder = &decoder_;
  call.format = OtlpDecoder::Format(*encoding, *packing);
  call.way = way_;
  call.peer = request.remote();
  call.body = request.TakeBody();
  auto waiting = std::make_shared<HttpResponder>(std::move(responder));
  // May be called after this object's end.
  call.answer = [flight = intake_.flight(), way = way_, signal, encoding = *encoding,
                 waiting](const OtlpAnswer& answer) {
    HttpResponse response = Speak(signal, encoding, answer);
    flight->CountAnswer(way, signal, std::to_string(response.status));
    waiting->Send(std::move(response));
  };
  intake_.Take(std::move(call));
}

}  // namespace gpulens
