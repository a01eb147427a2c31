#include "plugins/sinks/keda/keda.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/text.h"
#include "net/io_loop.h"
#include "wire/external_scaler/external_scaler.h"

namespace gpulens {
namespace keda {
namespace {

// KEDA opens a connection for each scaler address and keeps it.
constexpr size_t kConnections = 64;
constexpr size_t kMostStreams = 1024;

GrpcAnswer Failure(const Status& status) {
  GrpcCode code = GrpcCode::kUnavailable;
  if (status.code == Code::kInvalidArgument || status.code == Code::kDataLoss)
    code = GrpcCode::kInvalidArgument;
  else if (status.code == Code::kExhausted) code = GrpcCode::kResourceExhausted;
  return GrpcAnswer::Failure(code, Printable(status.detail));
}

// An operator must see what KEDA was refused, once for each object and reason.
void LogFailure(const ScaledObjectRef& object, const Status& status) {
  const std::string name = Printable(object.name_space) + "/" + Printable(object.name);
  Log(LogLevel::kWarn, "keda", status.code == Code::kUnavailable ? "unknown" : "refused",
      name + ": " + Printable(status.detail), name);
}

}  // namespace

class ScalerServer::Methods final : public GrpcHandler {
 public:
  explicit Methods(const Clock& clock) : clock_(clock) {}

  std::vector<GrpcRoute> routes() {
    std::vector<GrpcRoute> routes;
    for (std::string_view path :
         {kScalerIsActive, kScalerStreamIsActive, kScalerGetMetricSpec, kScalerGetMetrics})
      routes.push_back({std::string(path), this});
    return routes;
  }

  void Handle(GrpcRequest request, GrpcResponder responder) override {
    if (request.path == kScalerGetMetrics) return responder.Send(GetMetrics(request.message));
    auto object = ReadScaledObjectRef(request.message);
    if (!object) return responder.Send(Failure(object.error()));
    auto query = ParseScalerQuery(*object);
    if (!query) {
      LogFailure(*object, query.error());
      return responder.Send(Failure(query.error()));
    }
    if (request.path == kScalerGetMetricSpec)
      return responder.Send(GrpcAnswer::Ok(WriteMetricSpec(query->MetricName(), query->target)));
    if (request.path == kScalerStreamIsActive)
      return Stream({*std::move(object), *std::move(query), std::move(responder), {}});
    const auto active = state_.IsActive(*query, clock_.Now());
    if (!active) LogFailure(*object, active.error());
    responder.Send(active ? GrpcAnswer::Ok(WriteIsActive(*active)) : Failure(active.error()));
  }

  void Update(const Snapshot& snapshot) {
    state_.Update(snapshot);
    std::lock_guard lock(mutex_);
    for (auto stream = streams_.begin(); stream != streams_.end();)
      stream = stream->responder.wanted() ? (Push(*stream), std::next(stream)) : streams_.erase(stream);
  }

  // The present streams end, and no other begins.
  void EndStreams() {
    std::lock_guard lock(mutex_);
    ended_ = true;
    for (OpenStream& stream : streams_)
      stream.responder.Send(GrpcAnswer::Failure(GrpcCode::kUnavailable, "the scaler ends or is reloaded"));
    streams_.clear();
  }

 private:
  struct OpenStream {
    ScaledObjectRef object;
    ScalerQuery query;
    GrpcResponder responder;
    std::optional<bool> pushed;
  };

  GrpcAnswer GetMetrics(std::string_view message) {
    auto request = ReadScalerMetricsRequest(message);
    if (!request) return Failure(request.error());
    auto answer = [&]() -> Result<std::string> {
      ASSIGN_OR_RETURN(const ScalerQuery query, ParseScalerQuery(request->object));
      const std::string name = query.MetricName();
      if (!request->metric.empty() && request->metric != name)
        return Status{Code::kInvalidArgument, "the trigger has the metric " + name + ", not " +
                                                  Printable(request->metric.substr(0, 80))};
      ASSIGN_OR_RETURN(const ScalerReading reading, state_.Evaluate(query, clock_.Now()));
      return WriteMetricValue(name, reading.value);
    }();
    if (answer) return GrpcAnswer::Ok(*std::move(answer));
    LogFailure(request->object, answer.error());
    return Failure(answer.error());
  }

  void Stream(OpenStream stream) {
    std::lock_guard lock(mutex_);
    if (ended_) return stream.responder.Send(GrpcAnswer::Failure(GrpcCode::kUnavailable, "the scaler ends"));
    if (streams_.size() >= kMostStreams)
      return stream.responder.Send(GrpcAnswer::Failure(GrpcCode::kResourceExhausted, "too many streams"));
    streams_.push_back(std::move(stream));
    Push(streams_.back());
  }

  // Pushes a change; while it is unknown, the last one stays.
  void Push(OpenStream& stream) {
    const auto active = state_.IsActive(stream.query, clock_.Now());
    if (!active) return LogFailure(stream.object, active.error());
    if (stream.pushed == *active) return;
    stream.pushed = *active;
    stream.responder.Push(WriteIsActive(*active));
  }

  const Clock& clock_;
  ScalerState state_;
  std::mutex mutex_;  // guards what follows
  std::list<OpenStream> streams_;
  bool ended_ = false;
};

ScalerServer::ScalerServer(Env& env) : io_(*env.io), methods_(std::make_unique<Methods>(*env.clock)) {
  GrpcServer::Options options;
  options.limits.connections = kConnections;
  options.limits.http2.streams = 256;
  options.limits.message_bytes = kScalerRequestBytes;
  options.limits.unpacked_bytes = kScalerRequestBytes;
  options.authenticator = env.authenticator;
  options.offload = OffloadTo(env.workers);
  server_ = std::make_unique<GrpcServer>(io_, methods_->routes(), std::move(options));
}

ScalerServer::~ScalerServer() {
  io_.Call([&] {
    methods_->EndStreams();
    server_ = nullptr;
  });
}

Result<std::unique_ptr<ScalerServer>> ScalerServer::Open(const PluginListen& at, Env& env) {
  std::unique_ptr<ScalerServer> made(new ScalerServer(env));
  ASSIGN_OR_RETURN(made->sockets_, ListenForPlugin(at, env, [&](UniqueFd socket) {
                     return made->server_->Listen(std::move(socket));
                   }));
  return made;
}

void ScalerServer::Update(const Snapshot& snapshot) { methods_->Update(snapshot); }

void ScalerServer::Close(Duration timeout) {
  // Refuse connections, as none is accepted any more.
  sockets_.clear();
  io_.Call([&] { methods_->EndStreams(); });
  server_->Shutdown(timeout, [closed = closed_] { closed->Report(); });
  if (!io_.InLoop()) closed_->Await(timeout);
}

}  // namespace keda

namespace {

constexpr OptionSpec kOptions[] = {
    TextsOption("listen", R"(["127.0.0.1:9099", "[::1]:9099"])",
                "Where KEDA's external scaler is served: HOST:PORT, :PORT for all interfaces."),
    BoolOption("insecure", false,
               "Accept other machines without TLS and client certificates; for closed networks."),
};
using Options = OptionsOf<kOptions>;

class KedaSink final : public Sink {
 public:
  KedaSink(std::unique_ptr<keda::ScalerServer> server, const Clock& clock)
      : server_(std::move(server)), clock_(clock) {}
  Status Write(const Snapshot& snapshot) override {
    server_->Update(snapshot);
    return Ok();
  }
  Status Flush(Instant deadline) override {
    constexpr Duration kLongest = std::chrono::seconds(1);
    server_->Close(std::clamp<Duration>(deadline - clock_.Now(), Duration(0), kLongest));
    return Ok();
  }

 private:
  const std::unique_ptr<keda::ScalerServer> server_;
  const Clock& clock_;
};

Result<std::unique_ptr<Sink>> Create(const Config& config, Env& env) {
  if (!env.io) return Status{Code::kUnavailable, "there is no network here"};
  const Options options(config);
  ASSIGN_OR_RETURN(auto server, keda::ScalerServer::Open({.plugin = "keda",
                                                          .listen = options.Texts("listen"),
                                                          .insecure = options.Bool("insecure"),
                                                          .protocol = "KEDA's external scaler",
                                                          .group = "sinks"},
                                                         env));
  return std::unique_ptr<Sink>(std::make_unique<KedaSink>(std::move(server), *env.clock));
}

}  // namespace

extern const SinkSpec keda_sink;
const SinkSpec keda_sink{
    .name = "keda",
    .help = "An external scaler of KEDA: replicas by queues, KV caches and latencies of LLM engines.",
    .threaded = true,
    .options = kOptions,
    .create = &Create};

}  // namespace gpulens
