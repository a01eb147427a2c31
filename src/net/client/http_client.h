// HTTP requests to other programs: scrapes, and what sinks deliver. One channel per target keeps its
// connection alive and its buffers, so that asking the same page again and again costs little.
//
// Redirects are not followed: whoever configured an address with a password did not mean another one.
// Bodies come as they were sent; whoever wants them unpacked has workers for it.
#pragma once

#include <cstdint>
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
#include "net/message/http_fields.h"
#include "net/message/http_parser.h"
#include "net/tls.h"

namespace gpulens {

// How it went. A plain value.
struct HttpReply {
  HttpFailure failure = HttpFailure::kNone;
  std::string detail;  // of a failure, for people: "connection refused"
  int status = 0;      // 0: no answer
  std::string content_type;
  bool gzip = false;        // the body is packed
  std::string body;         // to a Get of a 200 only; to a Post of every answer, see there
  std::string retry_after;  // the field as it came, at most 64 bytes; empty: none. See retry_after.h
  std::string kept;         // fields that HttpTarget::limits asks for, see HttpResponseParser::kept
};

// Where to ask, and what an answer may cost.
struct HttpTarget {
  HttpUrl url;
  std::string unix_socket;  // when set, connects there instead of to the URL's host
  HttpResponseParser::Limits limits;
};

// One request.
struct HttpGet {
  std::string_view headers;               // whole lines, each ending "\r\n"; copied
  std::shared_ptr<const TlsContext> tls;  // needed for https; another one ends the kept connection
  Duration timeout{};                     // for all of it: look-up, connect, handshake, answer
  std::string buffer;                     // whose memory the body may use
  // When set, the body of a 200 is handed over in pieces as it comes, and the reply has none: for answers
  // that go on. The limit of the body then holds for what comes at once, and whoever takes it bounds the
  // rest. Called on the loop; must not destroy the channel.
  std::function<void(std::string_view piece)> on_body = {};
};

// One request with a body. The client writes Content-Length itself.
struct HttpPost {
  std::string_view headers;                 // as in HttpGet; Content-Type is among them
  std::shared_ptr<const std::string> body;  // never copied, let go before `done`; null is empty
  std::shared_ptr<const TlsContext> tls;    // as in HttpGet
  Duration timeout{};                       // for all of it, the sending, too
  std::string buffer;
  std::string_view method = "POST";  // or another one with the same meaning of answers: "PUT"; static storage
  // As in HttpGet, of a 2xx. A refusal's body comes with the reply.
  std::function<void(std::string_view piece)> on_body = {};
};

// The way to one target: at most one request at a time. Used on the loop's thread; made and destroyed on
// any. Destruction ends the connection; a request in flight is then forgotten and its `done` not called.
class HttpChannel {
 public:
  // The reply is the channel's: what is wanted of it is moved out before `done` returns. `done` may
  // start the next request or destroy the channel.
  using Done = std::function<void(HttpReply& reply)>;

  ~HttpChannel();
  HttpChannel(const HttpChannel&) = delete;
  HttpChannel& operator=(const HttpChannel&) = delete;

  // Calls `done` exactly once, never from inside, at the latest when the timeout has passed. A kept
  // connection that the server has closed meanwhile is replaced by a new one without a word.
  void Get(HttpGet get, Done done);

  // The same with a body. A kept connection is replaced as long as no byte of an answer has come, so a
  // request may reach the server twice; and whatever the failure, it may have reached it once.
  //
  // 2xx is success, when the answer can be read to its end within the limits. Any other status is kStatus or
  // kAuth as soon as its head is whole, with as much of the body as comes within limits and timeout: what the
  // server says about it. A server may refuse before it has read all; then the rest is not sent.
  // With TLS, one that hangs up in that same moment can be taken for a broken connection (kProtocol).
  void Post(HttpPost post, Done done);

 private:
  friend class HttpClient;
  class Core;
  explicit HttpChannel(Ref<Core> core) noexcept;
  Ref<Core> core_;
};

// Makes channels. Thread-safe. Outlives them, as the loop does.
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
