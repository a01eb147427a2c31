// A server of unary gRPC calls: plain (HTTP/2 with prior knowledge), TLS, or a Unix socket.
//
// Messages are bytes; packed ones (gzip) are unpacked before a handler sees them. Answers go out as they are.
// No streaming, no reflection. What clients may cost is bounded for each and for all together; see
// GrpcLimits.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"
#include "base/ref.h"
#include "net/accept/connection_set.h"
#include "net/auth/authenticator.h"
#include "net/grpc/grpc_status.h"
#include "net/http2/http2_session.h"
#include "net/io_loop.h"

namespace gpulens {

struct GrpcLimits {
  size_t connections = 256;
  Http2Limits http2{.streams = 32};
  size_t message_bytes = size_t{4} << 20;    // of one message as it is sent; known before it is kept
  size_t unpacked_bytes = size_t{16} << 20;  // of one that is packed
  // Of all calls that are not answered yet, messages and fields; further ones are told to come back.
  size_t held_bytes = size_t{64} << 20;
  // From the accept to the first words, and from a call's fields to the end of its message.
  Duration request_timeout = std::chrono::seconds(30);
  Duration idle_timeout = std::chrono::minutes(5);
  // Within each such span a client has to take 64 KiB of its answers, or one of them.
  Duration write_timeout = std::chrono::seconds(15);
  Duration linger = std::chrono::seconds(1);
};

// One call. The message is the handler's.
struct GrpcRequest {
  std::string path;
  std::string message;
  Http2Fields fields;  // all of them, the metadata too
  Endpoint remote;
  bool tls = false;
  std::optional<Duration> time_left;  // until the client gives up, when it said so
};

struct GrpcAnswer {
  GrpcCode code = GrpcCode::kOk;
  std::string text;  // of a failure: what went wrong; of a success: the message
  std::optional<Duration> retry_after = std::nullopt;  // of a failure: told as RetryInfo

  static GrpcAnswer Ok(std::string message) { return {GrpcCode::kOk, std::move(message)}; }
  static GrpcAnswer Failure(GrpcCode code, std::string why,
                            std::optional<Duration> retry_after = std::nullopt) {
    return {code, std::move(why), retry_after};
  }
};

class GrpcConnection;

// The right to answer one call, once. Move-only. Send from any thread; destroyed unsent it answers kInternal.
// Must be gone before the IoLoop is.
class GrpcResponder {
 public:
  GrpcResponder(IoLoop& loop, Ref<GrpcConnection> connection, int32_t stream,
                std::shared_ptr<const std::atomic<bool>> gone) noexcept;
  GrpcResponder(GrpcResponder&&) noexcept;
  GrpcResponder& operator=(GrpcResponder&&) noexcept;
  ~GrpcResponder();

  void Send(GrpcAnswer answer);
  // False once the client has given up or is gone: work for it can stop. Any thread.
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

// "/package.Service/Method" and who answers it.
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

// Thread-safe except where said. Handlers and the Authenticator outlive it, and the loop outlives all.
class GrpcServer {
 public:
  struct Options {
    GrpcLimits limits;
    Authenticator* authenticator = nullptr;  // null: plain, everybody
    // Runs a task on a thread that may take its time, and never drops one: for unpacking. Null: on the loop.
    std::function<void(std::function<void()>)> offload = nullptr;
  };

  GrpcServer(IoLoop& loop, std::vector<GrpcRoute> routes, Options options);
  ~GrpcServer();  // closes everything at once

  // As of HttpServer.
  Result<Endpoint> Listen(const Endpoint& at);
  Result<Endpoint> Listen(UniqueFd listening);
  void StopListening(const Endpoint& at);
  std::vector<Endpoint> addresses() const;

  // Accepts no more, tells every client GOAWAY, finishes the calls that have begun, closes the rest after
  // `deadline`, then calls `done` on the loop. Call once.
  void Shutdown(Duration deadline, std::function<void()> done);

  const GrpcStats& stats() const noexcept;

 private:
  class Core;
  IoLoop& loop_;
  std::unique_ptr<Core> core_;
};

}  // namespace gpulens
