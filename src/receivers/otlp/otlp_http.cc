#include "receivers/otlp/otlp_http.h"

#include <optional>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens {
namespace {

// Bodies take longer than the heads that other servers of ours get.
constexpr Duration kRequestTimeout = std::chrono::seconds(30);
// gRPC's codes, which google.rpc.Status has.
constexpr uint32_t kInvalidArgument = 3, kResourceExhausted = 8, kUnavailable = 14;

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
  if (answer.retry_after.count() > 0) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(answer.retry_after).count();
    response.AddHeader("Retry-After", std::to_string(seconds));
  }
  return response;
}

std::optional<OtlpEncoding> EncodingOf(const HttpRequest& request) {
  std::string_view type = request.Header("Content-Type");
  type = Trim(TakeUntil(type, ';'));
  if (EqualsIgnoringCase(type, "application/x-protobuf")) return OtlpEncoding::kProtobuf;
  if (EqualsIgnoringCase(type, "application/json")) return OtlpEncoding::kJson;
  return std::nullopt;
}

std::optional<OtlpCall::Packing> PackingOf(const HttpRequest& request) {
  const std::string packing = request.JoinedHeader("Content-Encoding");
  if (packing.empty() || EqualsIgnoringCase(packing, "identity")) return OtlpCall::kPlain;
  if (EqualsIgnoringCase(packing, "gzip")) return OtlpCall::kGzip;
  if (EqualsIgnoringCase(packing, "zstd")) return OtlpCall::kZstd;
  return std::nullopt;
}

HttpServer::Options ServerOptions(const OtlpHttp::Options& options, Authenticator* authenticator) {
  HttpServer::Options server;
  server.authenticator = authenticator;
  server.limits.connections = options.connections;
  server.limits.body_bytes = options.max_request;
  server.limits.arriving_bytes = options.max_arriving;
  server.limits.request_timeout = kRequestTimeout;
  return server;
}

}  // namespace

OtlpHttp::OtlpHttp(const Options& options, Env& env, OtlpIntake& intake)
    : options_(options), intake_(intake) {
  for (OtlpSignal signal : {OtlpSignal::kMetrics, OtlpSignal::kLogs, OtlpSignal::kTraces}) {
    router_.Add("/v1/" + std::string(OtlpSignalName(signal)), "POST",
                [this, signal](const HttpRequest& request, HttpResponder responder) {
                  Handle(signal, request, std::move(responder));
                });
  }
  server_ = std::make_unique<HttpServer>(*env.io, router_, ServerOptions(options, env.authenticator));
}

OtlpHttp::~OtlpHttp() = default;

Result<std::unique_ptr<OtlpHttp>> OtlpHttp::Open(const Options& options, Env& env, OtlpIntake& intake) {
  std::unique_ptr<OtlpHttp> made(new OtlpHttp(options, env, intake));
  ASSIGN_OR_RETURN(made->sockets_, ListenForOtlp(options.listen, options.insecure, env, [&](UniqueFd socket) {
                     return made->server_->Listen(std::move(socket)).status();
                   }));
  return made;
}

void OtlpHttp::Handle(OtlpSignal signal, const HttpRequest& request, HttpResponder responder) {
  const auto encoding = EncodingOf(request);
  const auto packing = PackingOf(request);
  if (!encoding || !packing) {
    HttpResponse response =
        Speak(signal, encoding.value_or(OtlpEncoding::kProtobuf),
              {OtlpAnswer::kMalformed,
               encoding ? "Content-Encoding may be gzip, zstd or identity"
                        : "Content-Type may be application/x-protobuf or application/json",
               0,
               {}});
    response.status = 415;
    if (!packing) response.AddHeader("Accept-Encoding", "gzip, zstd, identity");
    intake_.flight()->CountAnswer(options_.way, signal, "415");
    return responder.Send(std::move(response));
  }
  OtlpCall call;
  call.signal = signal;
  call.encoding = *encoding;
  call.packing = *packing;
  call.way = options_.way;
  call.peer = request.remote();
  call.body = request.TakeBody();
  auto waiting = std::make_shared<HttpResponder>(std::move(responder));
  // May be called after this object's end.
  call.answer = [flight = intake_.flight(), way = options_.way, signal, encoding = *encoding,
                 waiting](const OtlpAnswer& answer) {
    HttpResponse response = Speak(signal, encoding, answer);
    flight->CountAnswer(way, signal, std::to_string(response.status));
    waiting->Send(std::move(response));
  };
  intake_.Take(std::move(call));
}

void OtlpHttp::Close(Duration timeout) {
  // So that nobody comes to a socket that is not accepted from any more.
  sockets_.clear();
  server_->Shutdown(timeout, [closed = closed_] { closed->Tell(); });
}

}  // namespace gpulens
