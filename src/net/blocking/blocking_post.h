// An HTTP client for programs without an I/O loop: one request at a time on the calling thread, without TLS,
// over a connection of its own. Links neither Asio nor OpenSSL.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "net/message/address.h"

namespace gpulens {

// Any HTTP response. A plain value.
struct BlockingReply {
  int status = 0;
  std::string content_type, body;
  std::string retry_after;  // unparsed, see RetryAfter()
};

// Send is called by one thread at a time; Cut and LeaveBehind by any.
class BlockingPost {
 public:
  BlockingPost();
  ~BlockingPost();
  BlockingPost(const BlockingPost&) = delete;
  BlockingPost& operator=(const BlockingPost&) = delete;

  struct Request {
    HttpUrl url;               // http
    std::string unix_socket;   // when set, connects there instead of to the URL's host
    std::string_view headers;  // whole lines, each ending "\r\n"
    std::string_view body;
    size_t most_bytes = 64 << 10;  // of a response's body that is kept
    // When set, receives the body of a 2xx in pieces, of any size, and the reply has none; returning false
    // ends the request with kUnavailable. The timeout is then that between pieces; a truncated response is
    // kDataLoss.
    std::function<bool(std::string_view piece)> on_body = {};
  };
  // kUnavailable: no server; kTimeout; kDataLoss: not HTTP, or too large. The timeout does not limit the
  // system's resolver.
  Result<BlockingReply> Send(const Request& request, Duration timeout);

  // Ends the present Send and each later one with kUnavailable.
  void Cut() noexcept;
  // In the child after a fork: closes its copies of the parent's descriptors.
  void LeaveBehind() noexcept;

 private:
  class Wait;
  Status Connect(const Request& request, const Wait& wait);
  Status Write(std::string_view bytes, const Wait& wait);
  Result<BlockingReply> Read(const Request& request, const Wait& whole, Duration timeout);
  void Close() noexcept;

  UniqueFd cut_;                 // an eventfd, readable once it is cut
  std::atomic<int> socket_{-1};  // of the request under way
};

// A hook for https, so that only programs that set it (LinkSecurePost in net/client/http_client.h) link
// OpenSSL. As BlockingPost::Send, of an https URL; ignores `request.unix_socket`. Thread-safe.
using SecurePost = Result<BlockingReply> (*)(const BlockingPost::Request& request, Duration timeout);

// Null: none is set.
SecurePost LinkedSecurePost() noexcept;
void SetSecurePost(SecurePost post) noexcept;

}  // namespace gpulens
