#include "ingest/ingest_receiver.h"

#include "base/files.h"
#include "base/parse.h"
#include "net/io_loop.h"

namespace gpulens {
namespace {

// Bodies take longer than the heads of other servers' requests.
constexpr Duration kRequestTimeout = std::chrono::seconds(30);

std::string HostId(const std::string& root) {
  const auto text = ReadFile(root + "/etc/machine-id", 256);
  return text ? std::string(Trim(*text)) : "";
}

// Limits of requests that arrive at once, and that wait: each a quarter of the memory kept free for bursts,
// since a text that grows may hold twice its size. One request always may.
size_t Room(uint64_t memory_limit, double spike, size_t max_request) {
  const size_t most = 2 * max_request;
  if (memory_limit == 0) return most;
  const auto quarter = static_cast<size_t>(static_cast<double>(memory_limit) * spike / 4);
  return std::clamp(quarter, max_request, most);
}

size_t Room(const Config& config, const ReceiverContext& context) {
  return Room(context.memory_limit, config.Group("memory_limiter").Double("spike"),
              config.Size("max_request"));
}

}  // namespace

ReceiverHttp::ReceiverHttp(const Options& options, Env& env, HttpHandler& handler) {
  HttpServer::Options server;
  server.authenticator = env.authenticator;
  server.limits.connections = options.connections;
  server.limits.body_bytes = options.max_request;
  server.limits.arriving_bytes = options.max_arriving;
  server.limits.request_timeout = kRequestTimeout;
  server_ = std::make_unique<HttpServer>(*env.io, handler, server);
}

Result<std::unique_ptr<ReceiverHttp>> ReceiverHttp::Open(const Options& options, Env& env,
                                                         HttpHandler& handler) {
  std::unique_ptr<ReceiverHttp> made(new ReceiverHttp(options, env, handler));
  ASSIGN_OR_RETURN(made->sockets_, ListenForPlugin(options.at, env, [&](UniqueFd socket) {
                     return made->server_->Listen(std::move(socket));
                   }));
  return made;
}

void ReceiverHttp::Close(Duration timeout) {
  // First, so that no client connects to a socket that accepts no more.
  sockets_.clear();
  server_->Shutdown(timeout, [closed = closed_] { closed->Report(); });
}

void AddRetryAfter(HttpResponse& response, Duration after) {
  if (after.count() <= 0) return;
  response.AddHeader("Retry-After", std::to_string(std::chrono::ceil<std::chrono::seconds>(after).count()));
}

OtlpIngest::Options ReadIngestOptions(const Config& config, const ReceiverContext& context,
                                      std::vector<std::string_view> transports) {
  const Config& batch = config.Group("batch");
  const Config& memory = config.Group("memory_limiter");
  OtlpIngest::Options options;
  options.transports = std::move(transports);
  options.unwanted = config.Texts("drop");
  options.max_request = config.Size("max_request");
  options.max_waiting = Room(config, context);
  options.batch.items = static_cast<uint32_t>(batch.Int("items"));
  options.batch_wait = batch.Time("wait");
  const std::string_view receiver =
      options.transports.front().substr(0, options.transports.front().find('/'));
  options.source = receiver == RecordSourceName(RecordSource::kRemoteWrite) ? RecordSource::kRemoteWrite
                                                                            : RecordSource::kOtlp;
  options.identity = {context.stated, context.host_name, HostId(context.env.root),
                      AttributeSet({{"gpulens.receiver", receiver}})};
  options.memory = {context.memory_limit, memory.Double("limit"), memory.Double("spike")};
  return options;
}

ReceiverHttp::Options ReadHttpOptions(std::string_view receiver, const Config& config,
                                      const ReceiverContext& context) {
  ReceiverHttp::Options options;
  options.at = {receiver, config.Group("http").Texts("listen"), config.Bool("insecure")};
  options.max_request = config.Size("max_request");
  options.max_arriving = Room(config, context);
  options.connections = static_cast<size_t>(config.Int("max_connections"));
  return options;
}

}  // namespace gpulens
