// Unary gRPC calls to other programs, over HTTP/2: TLS, plain (h2c with prior knowledge) or a Unix socket.
// One channel per target keeps one connection, on which several calls may be under way.
//
// Messages are bytes: whoever calls encodes and decodes them. No streaming, no service configuration, no
// proxies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/ref.h"
#include "net/client/http_client.h"
#include "net/grpc/grpc_status.h"
#include "net/io_loop.h"
#include "net/tls.h"

namespace gpulens {

// Where to call, and what an answer may cost.
struct GrpcTarget {
  HttpUrl url;                             // http or https, host and port; its path is not used
  std::string unix_socket;                 // when set, connects there instead of to the URL's host
  size_t answer_bytes = size_t{4} << 20;   // of one answer message; a larger one is kResourceExhausted
  size_t header_bytes = size_t{16} << 10;  // of the header fields of one answer
};

// One call.
struct GrpcCall {
  std::string_view path;                       // "/v1.PodResourcesLister/List"; copied
  std::string_view headers;                    // metadata as whole lines, each ending "\r\n"; copied
  std::shared_ptr<const std::string> message;  // never copied, let go before `done`; null is empty
  bool gzip = false;                           // the message is packed with gzip already
  std::shared_ptr<const TlsContext> tls;       // needed for https; another one ends the kept connection
  Duration timeout{};                          // for all of it: look-up, connect, handshake, answer
};

// How it went. A plain value.
struct GrpcReply {
  GrpcCode code = GrpcCode::kUnknown;
  std::string message;  // of a failure, for people; printable
  std::string details;  // grpc-status-details-bin, decoded; see ReadGrpcRetryInfo
  std::string answer;   // the message of a call that went well
  // kNone: the server told `code`. Otherwise why there was no such word: `code` is then what gRPC makes of it
  // (kUnavailable for no connection, kDeadlineExceeded for no answer in time).
  HttpFailure failure = HttpFailure::kNone;
  int http_status = 0;  // 0: no answer
};

// The way to one target. Used on the loop's thread; made and destroyed on any. Destruction ends the
// connection; calls under way are then forgotten and their `done` not called.
class GrpcChannel {
 public:
  // So many calls may be under way at once; one more fails at once with kResourceExhausted.
  static constexpr size_t kMaxCalls = 64;
  // `done` may start the next call or destroy the channel.
  using Done = std::function<void(GrpcReply& reply)>;

  ~GrpcChannel();
  GrpcChannel(const GrpcChannel&) = delete;
  GrpcChannel& operator=(const GrpcChannel&) = delete;

  // Calls `done` exactly once, never from inside, at the latest when the timeout has passed. A call that the
  // server has surely not seen (refused stream, GOAWAY) is sent again once, on a new connection where needed;
  // so is one on a kept connection that ended before it brought a byte. So a call may reach the server twice;
  // and whatever the failure, it may have reached it once.
  void Call(GrpcCall call, Done done);

 private:
  friend class GrpcClient;
  class Core;
  explicit GrpcChannel(Ref<Core> core) noexcept;
  Ref<Core> core_;
};

// Makes channels. Thread-safe. Outlives them, as the loop does.
class GrpcClient {
 public:
  explicit GrpcClient(IoLoop& loop) noexcept : loop_(loop) {}
  GrpcClient(const GrpcClient&) = delete;
  GrpcClient& operator=(const GrpcClient&) = delete;

  // Opens no connection yet.
  std::unique_ptr<GrpcChannel> Open(GrpcTarget target);

 private:
  IoLoop& loop_;
};

}  // namespace gpulens
