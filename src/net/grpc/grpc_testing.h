// A loop, a server and a client on it, for tests of both.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"

namespace gpulens::testing {

inline constexpr char kEcho[] = "/test.Echo/Echo", kKeep[] = "/test.Echo/Keep", kBusy[] = "/test.Echo/Busy";

// Echo answers at once, Keep after Take, Busy with a retry delay of 2 s.
class Echo final : public GrpcHandler {
 public:
  void Handle(GrpcRequest request, GrpcResponder responder) override {
    std::lock_guard lock(mutex_);
    paths_.push_back(request.path);
    if (request.path == kKeep) {
      kept_.emplace_back(std::move(request), std::move(responder));
      changed_.notify_all();
    } else if (request.path == kBusy) {
      responder.Send(GrpcAnswer::Failure(GrpcCode::kResourceExhausted, "busy", std::chrono::seconds(2)));
    } else {
      responder.Send(GrpcAnswer::Ok(std::move(request.message)));
    }
  }
  // Waits until a call is kept, and takes it.
  std::pair<GrpcRequest, GrpcResponder> Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !kept_.empty(); });
    auto first = std::move(kept_.front());
    kept_.erase(kept_.begin());
    return first;
  }
  size_t calls() const {
    std::lock_guard lock(mutex_);
    return paths_.size();
  }
  void Clear() {
    std::vector<std::pair<GrpcRequest, GrpcResponder>> kept;
    std::lock_guard lock(mutex_);
    kept.swap(kept_);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> paths_;
  std::vector<std::pair<GrpcRequest, GrpcResponder>> kept_;
};

struct GrpcWorld {
  explicit GrpcWorld(GrpcServer::Options options = {}) {
    loop.Start();
    Serve(std::move(options), *ParseListenAddress("127.0.0.1:0"));
  }
  ~GrpcWorld() {
    channel = nullptr;
    loop.Call([this] { echo.Clear(); });
    server = nullptr;
    loop.Stop();
  }

  void Serve(GrpcServer::Options options, const Endpoint& address) {
    server = std::make_unique<GrpcServer>(
        loop, std::vector<GrpcRoute>{{kEcho, &echo}, {kKeep, &echo}, {kBusy, &echo}}, std::move(options));
    at = *server->Listen(address);
  }
  GrpcTarget Target() const {
    GrpcTarget target;
    target.url = *ParseHttpUrl("http://127.0.0.1");
    target.url.port = at.port;
    return target;
  }
  // Begins a call on `channel`, which is made when there is none.
  std::future<GrpcReply> Begin(const char* path, std::string message,
                               Duration timeout = std::chrono::seconds(20), std::string headers = {}) {
    if (!channel) channel = client.Open(Target());
    auto came = std::make_shared<std::promise<GrpcReply>>();
    GrpcCall call{path, headers, std::make_shared<const std::string>(std::move(message)), gzip, tls, timeout};
    loop.Call([&] {
      channel->Call(std::move(call), [came](GrpcReply& reply) { came->set_value(std::move(reply)); });
    });
    return came->get_future();
  }
  GrpcReply Call(const char* path, std::string message, Duration timeout = std::chrono::seconds(20),
                 std::string headers = {}) {
    return Begin(path, std::move(message), timeout, std::move(headers)).get();
  }

  IoLoop loop;
  Echo echo;
  std::unique_ptr<GrpcServer> server;
  Endpoint at;
  GrpcClient client{loop};
  std::unique_ptr<GrpcChannel> channel;
  std::shared_ptr<const TlsContext> tls;
  bool gzip = false;
};

}  // namespace gpulens::testing
