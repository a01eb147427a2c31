// Client of unary gRPC calls over HTTP/2: TLS, plain (h2c with prior knowledge) or a Unix socket. The channel
// of a target keeps one connection for several calls at once. Messages are bytes. No streaming, no service
// configuration, no proxies.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/ref.h"
#include "net/client/http_client.h"
#include "net/grpc/grpc_wire.h"
#include "net/io_loop.h"
#include "net/tls.h"

namespace gpulens {

// A server, and limits of its responses.
struct GrpcTarget {
  HttpUrl url;                             // http or https, host and port; its path is ignored
  std::string unix_socket;                 // when set, connects there instead of to the URL's host
  size_t answer_bytes = size_t{4} << 20;   // of one response; a larger one is kResourceExhausted
  size_t header_bytes = size_t{16} << 10;  // of the header fields of one response
};

// One call.
struct GrpcCall {
  std::string_view path;                       // "/v1.PodResourcesLister/List"; copied
  std::string_view headers;                    // metadata as whole lines, each ending "\r\n"; copied
  std::shared_ptr<const std::string> message;  // not copied, released before `done`; null: empty
  bool gzip = false;                           // the message is compressed already
  std::shared_ptr<const TlsContext> tls;       // required for https; another one ends the kept connection
  Duration timeout{};                          // of look-up, connect, handshake and response
};

// The outcome of a call. A plain value.
struct GrpcReply {
  GrpcCode code = GrpcCode::kUnknown;
  std::string message;  // of a failure; printable
  std::string details;  // grpc-status-details-bin, decoded; see ReadGrpcRetryInfo
  std::string answer;   // the message of a successful call
  // kNone: the server sent `code`. Otherwise why it did not, and `code` is what gRPC specifies (kUnavailable
  // without a connection, kDeadlineExceeded after the timeout).
  HttpFailure failure = HttpFailure::kNone;
  int http_status = 0;  // 0: no response
};

// The connection to one target. Used on the loop's thread; created and destroyed on any. Destruction ends the
// connection and drops calls under way without calling their `done`.
class GrpcChannel {
 public:
  // Maximum number of concurrent calls; a further one fails with kResourceExhausted.
  static constexpr size_t kMaxCalls = 64;
  // `done` may start the next call or destroy the channel.
  using Done = std::function<void(GrpcReply& reply)>;

  ~GrpcChannel();
  GrpcChannel(const GrpcChannel&) = delete;
  GrpcChannel& operator=(const GrpcChannel&) = delete;

  // Calls `done` exactly once, never from inside, at the latest after the timeout. A call that the server did
  // not process (refused stream, GOAWAY), or on a kept connection that ended before any byte of a response,
  // is sent again once. So a call may reach the server twice, and a failed one may have reached it.
  void Call(GrpcCall call, Done done);

 private:
  friend class GrpcClient;
  class Core;
  explicit GrpcChannel(Ref<Core> core) noexcept;
  Ref<Core> core_;
};

// Creates channels. Thread-safe. Outlives them, as the loop does.
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
