// HTTP client for scrapes and sinks. The channel of a target keeps its connection and buffers, so that
// repeated requests cost little. Does not follow redirects, which would send passwords elsewhere, nor
// decompress bodies.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/ref.h"
#include "net/blocking/blocking_post.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/message/http_message.h"
#include "net/message/http_parser.h"
#include "net/tls.h"

namespace gpulens {

// The outcome of a request. A plain value.
struct HttpReply {
  HttpFailure failure = HttpFailure::kNone;
  std::string detail;  // of a failure: "connection refused"
  int status = 0;      // 0: no response
  std::string content_type;
  bool gzip = false;        // the body is compressed
  std::string body;         // of a Get: of a 200 only; of a Post: of every response
  std::string retry_after;  // unparsed, at most 64 bytes; see RetryAfter()
  std::string kept;         // see HttpResponseParser::kept
};

// A server, and limits of its responses.
struct HttpTarget {
  HttpUrl url;
  std::string unix_socket;  // when set, connects there instead of to the URL's host
  HttpResponseParser::Limits limits;
};

// One request.
struct HttpGet {
  std::string_view headers;               // whole lines, each ending "\r\n"; copied
  std::shared_ptr<const TlsContext> tls;  // required for https; another one ends the kept connection
  Duration timeout{};                     // of look-up, connect, handshake and response
  std::string buffer;                     // memory for the body
  // When set, receives the body of a 200 in pieces, and the reply has none: for endless responses. The limit
  // of the body then is that of one piece. Called on the loop; must not destroy the channel.
  std::function<void(std::string_view piece)> on_body = {};
};

// One request with a body. The client writes Content-Length itself.
struct HttpPost {
  std::string_view headers;                 // as in HttpGet; Content-Type is among them
  std::shared_ptr<const std::string> body;  // not copied, released before `done`; null: empty
  std::shared_ptr<const TlsContext> tls;    // as in HttpGet
  Duration timeout{};                       // of all of it
  std::string buffer;
  std::string_view method = "POST";  // or "PUT"; static storage
  // As in HttpGet, of a 2xx. The reply has the body of a refusal.
  std::function<void(std::string_view piece)> on_body = {};
};

// The connection to one target: at most one request at a time. Used on the loop's thread; created and
// destroyed on any. Destruction ends the connection and drops the request under way without calling its
// `done`.
class HttpChannel {
 public:
  // The reply belongs to the channel; `done` may move from it, start the next request or destroy the channel.
  using Done = std::function<void(HttpReply& reply)>;

  ~HttpChannel();
  HttpChannel(const HttpChannel&) = delete;
  HttpChannel& operator=(const HttpChannel&) = delete;

  // Calls `done` exactly once, never from inside, at the latest after the timeout. Silently replaces a kept
  // connection that the server has closed.
  void Get(HttpGet get, Done done);

  // The same with a body. A kept connection is replaced as long as no byte of a response was received, so a
  // request may reach the server twice, and a failed one may have reached it.
  //
  // 2xx is success, if the response is complete within the limits. Any other status is kStatus or kAuth once
  // its head is complete, with as much of the body as arrives within limits and timeout. When the server
  // refuses before it has read all, the rest is not sent; with TLS, one that closes right then may look like
  // a broken connection (kProtocol).
  void Post(HttpPost post, Done done);

 private:
  friend class HttpClient;
  class Core;
  explicit HttpChannel(Ref<Core> core) noexcept;
  Ref<Core> core_;
};

// Creates channels. Thread-safe. Outlives them, as the loop does.
class HttpClient {
 public:
  explicit HttpClient(IoLoop& loop) noexcept : loop_(loop) {}
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Opens no connection yet.
  std::unique_ptr<HttpChannel> Open(HttpTarget target);

 private:
  IoLoop& loop_;
};

// A SecurePost: runs a loop of its own on the calling thread and checks certificates against the machine's CA
// files (net/tls.h). The timeout is that of the whole request; with `request.on_body` it is twelve times
// that, and a response that announces more than 64 MiB at once is refused.
Result<BlockingReply> PostOverTls(const BlockingPost::Request& request, Duration timeout);
// Sets PostOverTls as the SecurePost.
void LinkSecurePost() noexcept;

}  // namespace gpulens
