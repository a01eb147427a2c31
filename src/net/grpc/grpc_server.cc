#include "net/grpc/grpc_server.h"

#include <utility>

#include "net/grpc/grpc_connection.h"

namespace gpulens {

GrpcResponder::GrpcResponder(IoLoop& loop, Ref<GrpcConnection> connection, int32_t stream,
                             std::shared_ptr<const std::atomic<bool>> gone) noexcept
    : loop_(&loop), connection_(std::move(connection)), stream_(stream), gone_(std::move(gone)) {}
GrpcResponder::GrpcResponder(GrpcResponder&&) noexcept = default;
GrpcResponder& GrpcResponder::operator=(GrpcResponder&& other) noexcept {
  std::swap(loop_, other.loop_);
  std::swap(connection_, other.connection_);
  std::swap(stream_, other.stream_);
  std::swap(gone_, other.gone_);
  return *this;
}

GrpcResponder::~GrpcResponder() {
  if (connection_) Send(GrpcAnswer::Failure(GrpcCode::kInternal, "the call was not answered"));
}

void GrpcResponder::Send(GrpcAnswer answer) {
  Ref<GrpcConnection> connection = std::exchange(connection_, nullptr);
  if (!connection) return;
  if (loop_->InLoop()) return connection->Answer(stream_, std::move(answer));
  loop_->Post([connection = std::move(connection), stream = stream_, answer = std::move(answer)]() mutable {
    connection->Answer(stream, std::move(answer));
  });
}

void GrpcResponder::Push(std::string message) {
  if (!connection_) return;
  if (loop_->InLoop()) return connection_->Push(stream_, message);
  loop_->Post([connection = connection_, stream = stream_, message = std::move(message)] {
    connection->Push(stream, message);
  });
}

bool GrpcResponder::wanted() const noexcept { return connection_ && !gone_->load(std::memory_order_relaxed); }

class GrpcServer::Core final : public Server::Core {
 public:
  Core(IoLoop& loop, std::vector<GrpcRoute> routes, Options options)
      : Server::Core({loop, options.authenticator, options.limits.connections, shared.stats,
                      shared.connections, Stream::Protocol::kHttp2}),
        shared{.loop = loop,
               .routes = std::move(routes),
               .authenticator = options.authenticator,
               .offload = std::move(options.offload),
               .limits = options.limits,
               .stats = {},
               .connections = {loop,
                               {options.limits.request_timeout, options.limits.idle_timeout, Duration(0),
                                options.limits.write_timeout, options.limits.linger, Duration(0)}}} {}

  GrpcShared shared;

 private:
  void Serve(Stream stream, const Endpoint& peer, std::shared_ptr<const WebRules> rules) override {
    MakeRef<GrpcConnection>(shared, std::move(stream), peer, std::move(rules))->Start();
  }
};

GrpcServer::GrpcServer(IoLoop& loop, std::vector<GrpcRoute> routes, Options options)
    : Server(loop, std::make_unique<Core>(loop, std::move(routes), std::move(options))) {}

const GrpcStats& GrpcServer::stats() const noexcept { return static_cast<Core&>(*core_).shared.stats; }

}  // namespace gpulens
