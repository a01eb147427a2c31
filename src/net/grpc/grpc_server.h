// Server of gRPC calls with one request, and one response or several: plain (HTTP/2 with prior knowledge),
// TLS, or a Unix socket. Messages are bytes; gzip is decompressed before a handler is called, responses are
// not compressed. No streams of requests, no reflection. GrpcLimits bounds what clients may cost, each and
// together.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/ref.h"
#include "net/auth/authenticator.h"
#include "net/grpc/grpc_wire.h"
#include "net/http2/http2_session.h"
#include "net/io_loop.h"
#include "net/server/server.h"

namespace gpulens {

struct GrpcLimits {
  size_t connections = 256;
  Http2Limits http2{.streams = 32};
  size_t message_bytes = size_t{4} << 20;    // of one message as sent
  size_t unpacked_bytes = size_t{16} << 20;  // of one message decompressed
  // Of messages and fields of all unanswered calls; further calls are refused with a retry delay.
  size_t held_bytes = size_t{64} << 20;
  // From the accept to the first bytes, and from a call's fields to the end of its message.
  Duration request_timeout = std::chrono::seconds(30);
  Duration idle_timeout = std::chrono::minutes(5);
  // In each such interval a client has to take 64 KiB of its responses, or one of them. A stream of responses
  // is one response.
  Duration write_timeout = std::chrono::seconds(15);
  Duration linger = std::chrono::seconds(1);
};

// One call. The message is the handler's.
struct GrpcRequest {
  std::string path;
  std::string message;
  Http2Fields fields;  // with the metadata
  Endpoint remote;
  bool tls = false;
  std::optional<Duration> time_left;  // until the deadline of the client, if any
};

struct GrpcAnswer {
  GrpcCode code = GrpcCode::kOk;
  std::string text;                                    // of a failure: the reason; of a success: the message
  std::optional<Duration> retry_after = std::nullopt;  // of a failure: sent as RetryInfo

  static GrpcAnswer Ok(std::string message) { return {GrpcCode::kOk, std::move(message)}; }
  static GrpcAnswer Failure(GrpcCode code, std::string why,
                            std::optional<Duration> retry_after = std::nullopt) {
    return {code, std::move(why), retry_after};
  }
};

class GrpcConnection;

// The right to answer one call, once. Move-only. Send and Push from any thread; when destroyed unsent it
// answers kInternal. Destroyed before the IoLoop.
class GrpcResponder {
 public:
  GrpcResponder(IoLoop& loop, Ref<GrpcConnection> connection, int32_t stream,
                std::shared_ptr<const std::atomic<bool>> gone) noexcept;
  GrpcResponder(GrpcResponder&&) noexcept;
  GrpcResponder& operator=(GrpcResponder&&) noexcept;
  ~GrpcResponder();

  void Send(GrpcAnswer answer);
  // Sends one message of several; Send ends the call, and the text of its success is not sent. The unsent
  // messages of a client that reads nothing are kept until the write timeout.
  void Push(std::string message);
  // False once the client has given up or is gone, and work for it can stop. Any thread.
  bool wanted() const noexcept;

 private:
  IoLoop* loop_;
  Ref<GrpcConnection> connection_;
  int32_t stream_;
  std::shared_ptr<const std::atomic<bool>> gone_;
};

class GrpcHandler {
 public:
  virtual ~GrpcHandler() = default;
  // Called on the loop's thread: answers at once, or hands both to a worker and returns.
  virtual void Handle(GrpcRequest request, GrpcResponder responder) = 0;
};

// "/package.Service/Method" and its handler.
struct GrpcRoute {
  std::string path;
  GrpcHandler* handler = nullptr;
};

// Written on the loop, read from any thread. Counters only grow; the gauges are `connections` and
// `held_bytes`.
struct GrpcStats : AdmissionStats {
  std::atomic<uint64_t> answers[kGrpcCodes] = {};
  std::atomic<uint64_t> bytes_received{0}, bytes_sent{0};
  std::atomic<uint64_t> held_bytes{0};

  uint64_t answers_of(GrpcCode code) const noexcept {
    return answers[static_cast<size_t>(code)].load(std::memory_order_relaxed);
  }
};

// Thread-safe. Handlers and the Authenticator outlive it. Shutdown sends GOAWAY and finishes the present
// calls.
class GrpcServer : public Server {
 public:
  struct Options {
    GrpcLimits limits;
    Authenticator* authenticator = nullptr;  // null: neither authentication nor TLS
    // Runs a task on a thread that may block, and never drops one: for decompression. Null: on the loop.
    std::function<void(std::function<void()>)> offload = nullptr;
  };

  GrpcServer(IoLoop& loop, std::vector<GrpcRoute> routes, Options options);

  const GrpcStats& stats() const noexcept;

 private:
  class Core;
};

}  // namespace gpulens
