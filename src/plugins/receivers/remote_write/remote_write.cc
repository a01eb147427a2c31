// Receiver of Prometheus remote write, forwarded to the sinks as OTLP.

#include "plugins/receivers/remote_write/remote_write.h"

#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "wire/remote_write/remote_write_request.h"

namespace gpulens {
namespace {

// A larger buffer is not kept for the next request.
constexpr size_t kKept = size_t{1} << 20;
constexpr std::string_view kWritten = "X-Prometheus-Remote-Write-";

// Senders older than 2.0 may have no Content-Type.
std::optional<RemoteWriteVersion> VersionOf(const HttpRequest& request) {
  std::string_view rest = request.Header("Content-Type");
  const std::string_view type = Trim(TakeUntil(rest, ';'));
  if (type.empty()) return RemoteWriteVersion::k1;
  if (!EqualsIgnoringCase(type, "application/x-protobuf")) return std::nullopt;
  while (!rest.empty()) {
    std::string_view parameter = Trim(TakeUntil(rest, ';'));
    if (!EqualsIgnoringCase(Trim(TakeUntil(parameter, '=')), "proto")) continue;
    parameter = Trim(parameter);
    if (parameter.size() >= 2 && parameter.front() == '"' && parameter.back() == '"')
      parameter = parameter.substr(1, parameter.size() - 2);
    if (parameter == "prometheus.WriteRequest") return RemoteWriteVersion::k1;
    if (parameter == "io.prometheus.write.v2.Request") return RemoteWriteVersion::k2;
    return std::nullopt;
  }
  return RemoteWriteVersion::k1;
}

bool IsSnappy(const HttpRequest& request) {
  const std::string packing = request.JoinedHeader("Content-Encoding");
  return packing.empty() || EqualsIgnoringCase(packing, "snappy");
}

int StatusOf(const OtlpAnswer& answer, int busy_status) noexcept {
  switch (answer.kind) {
    // Partly written: neither a success nor retried.
    case OtlpAnswer::kAccepted: return answer.rejected == 0 ? 204 : 400;
    case OtlpAnswer::kMalformed: return 400;
    case OtlpAnswer::kTooLarge: return 413;
    case OtlpAnswer::kOverloaded: return busy_status;
    case OtlpAnswer::kUnavailable: break;
  }
  return 503;
}

HttpResponse ResponseOf(const OtlpAnswer& answer, int busy_status) {
  const int status = StatusOf(answer, busy_status);
  HttpResponse response = HttpResponse::Text(status, answer.message);
  if (status == 204) {
    response.body = {};
    response.content_type.clear();
  }
  // Nothing is written of a request that is not accepted.
  const DecodedParts written = answer.kind == OtlpAnswer::kAccepted ? answer.parts : DecodedParts();
  const std::pair<std::string_view, uint64_t> counts[] = {{"Samples-Written", written.samples},
                                                          {"Histograms-Written", written.histograms},
                                                          {"Exemplars-Written", written.exemplars}};
  for (const auto& [name, count] : counts)
    response.AddHeader(std::string(kWritten) + std::string(name), std::to_string(count));
  AddRetryAfter(response, answer.retry_after);
  return response;
}

}  // namespace

Status RemoteWriteDecoder::Decode(const OtlpCall& call, size_t most, Decoded& out) {
  if (!SnappyUnpack(call.body, most, unpacked_)) {
    // The block begins with its length.
    if (SnappyLength(call.body) > most)
      return {Code::kExhausted, "the request has more than " + std::to_string(most) + " bytes"};
    return {Code::kInvalidArgument, "the body is not a Snappy block"};
  }
  if (request_.capacity() > kKept) std::string().swap(request_);
  RemoteWriteOutcome outcome;
  convert_.CarryHistograms(forward_.carries_histograms());
  Status made = convert_.Convert(unpacked_, static_cast<RemoteWriteVersion>(call.format), request_, outcome);
  if (unpacked_.capacity() > kKept) std::string().swap(unpacked_);
  if (!made.ok()) return made;
  out.request = request_;
  out.rejected = outcome.refused;
  out.why = outcome.Text();
  out.parts = {outcome.samples, outcome.histograms, outcome.exemplars};
  return Ok();
}

RemoteWriteHttp::RemoteWriteHttp(const Options& options, OtlpIngest& ingest)
    : options_(options), ingest_(ingest), decoder_(options.http.max_request, ingest.forward()) {
  router_.Add(
      options_.path, "POST",
      [this](const HttpRequest& request, HttpResponder responder) { Handle(request, std::move(responder)); },
      [this](const HttpRequest&, HttpResponse& refusal) {
        if (refusal.status == 429) refusal.status = options_.busy_status;
      });
}

Result<std::unique_ptr<RemoteWriteHttp>> RemoteWriteHttp::Open(const Options& options, Env& env,
                                                               OtlpIngest& ingest) {
  std::unique_ptr<RemoteWriteHttp> made(new RemoteWriteHttp(options, ingest));
  ASSIGN_OR_RETURN(made->http_, ReceiverHttp::Open(options.http, env, made->router_));
  return made;
}

void RemoteWriteHttp::Handle(const HttpRequest& request, HttpResponder responder) {
  const size_t transport = options_.http.transport;
  const auto version = VersionOf(request);
  const bool snappy = IsSnappy(request);
  if (!version || !snappy) {
    HttpResponse response = HttpResponse::Text(
        415, version ? "Content-Encoding must be snappy"
                     : "Content-Type must be application/x-protobuf, with ;proto=prometheus.WriteRequest or "
                       ";proto=io.prometheus.write.v2.Request");
    if (!snappy) response.AddHeader("Accept-Encoding", "snappy");
    ingest_.in_flight()->CountAnswer(transport, OtlpSignal::kMetrics, "415");
    return responder.Send(std::move(response));
  }
  OtlpCall call;
  call.decoder = &decoder_;
  call.format = static_cast<uint32_t>(*version);
  call.relayed = true;
  call.transport = transport;
  call.peer = request.remote();
  call.body = request.TakeBody();
  auto waiting = std::make_shared<HttpResponder>(std::move(responder));
  // May be called after this object is destroyed.
  call.answer = [in_flight = ingest_.in_flight(), transport, busy = options_.busy_status,
                 waiting](const OtlpAnswer& answer) {
    HttpResponse response = ResponseOf(answer, busy);
    in_flight->CountAnswer(transport, OtlpSignal::kMetrics, std::to_string(response.status));
    waiting->Send(std::move(response));
  };
  ingest_.Take(std::move(call));
}

namespace {

constexpr OptionSpec kHttp[] = {
    TextsOption("listen", R"(["127.0.0.1:9095", "[::1]:9095"])",
                "Where remote write is received: HOST:PORT, :PORT for all interfaces."),
    TextOption("path", "/api/v1/write", "The path of the URL for senders."),
};
constexpr std::array<OptionSpec, 2> kOwn = {{
    GroupOption("http", "Where it listens.", kHttp),
    IntOption("busy_status", "503",
              "The status when the queue is full, 503 or 429. Prometheus gives up after a 429 unless its "
              "queue_config sets retry_on_http_429.",
              429, 503),
}};
constexpr auto kOptions = JoinOptions(kOwn, kIngestOptions);
using Options = OptionsOf<kOptions>;
using HttpOptions = OptionsOf<kHttp>;

using RemoteWriteReceiver = IngestReceiver<RemoteWriteHttp>;

void Check(const Config& config, ConfigFaults& faults) {
  const Options options(config);
  const HttpOptions http = options.Group("http");
  const std::string& path = http.Text("path");
  if (!path.starts_with('/') || path.find_first_of("?# ") != std::string::npos)
    http.Refuse("path", faults, "http.path: \"" + path + "\" is not a path; write /api/v1/write");
  if (options.Int("busy_status") != 429 && options.Int("busy_status") != 503)
    options.Refuse("busy_status", faults, "busy_status must be 503 or 429");
}

Result<std::unique_ptr<Receiver>> Create(const Config& config, const ReceiverContext& context) {
  if (!context.env.io) return Status{Code::kUnavailable, "there is no network here"};
  const Options options(config);
  RemoteWriteHttp::Options server;
  server.http = ReadHttpOptions("remote_write", config, context);
  server.http.at.protocol = "remote write";
  server.path = HttpOptions(options.Group("http")).Text("path");
  server.busy_status = static_cast<int>(options.Int("busy_status"));
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  auto receiver =
      std::make_unique<RemoteWriteReceiver>(ReadIngestOptions(config, context, {"remote_write"}), context);
  RETURN_IF_ERROR(receiver->Open<RemoteWriteHttp>(server, context.env));
  return std::unique_ptr<Receiver>(std::move(receiver));
}

}  // namespace

extern const ReceiverSpec remote_write_receiver;
const ReceiverSpec remote_write_receiver{
    .name = "remote_write",
    .help = "Metrics by Prometheus remote write 1.0 and 2.0, for the sinks that send OTLP.",
    .options = kOptions,
    .create = &Create,
    .check = &Check};

}  // namespace gpulens
