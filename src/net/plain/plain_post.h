// One HTTP request at a time, for programs that have no I/O loop: over a connection of its own, in the clear,
// waiting on the calling thread. Its parts are small, and it links neither Asio nor OpenSSL.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "net/client/http_url.h"

namespace gpulens {

// What came back: any answer of HTTP at all. A plain value.
struct PlainReply {
  int status = 0;
  std::string content_type, body;
  std::string retry_after;  // the field as it came; see net/client/retry_after.h
};

// Send is called by one thread at a time; Cut and LeaveBehind by any.
class PlainPost {
 public:
  PlainPost();
  ~PlainPost();
  PlainPost(const PlainPost&) = delete;
  PlainPost& operator=(const PlainPost&) = delete;

  struct Request {
    HttpUrl url;               // http
    std::string unix_socket;   // when set, connects there instead of to the URL's host
    std::string_view headers;  // whole lines, each ending "\r\n"
    std::string_view body;
    size_t most_bytes = 64 << 10;  // of an answer's body that is kept
    // When set, the body of a 2xx is handed over in pieces as it comes, whatever its size, and the reply has
    // none; false ends it: kUnavailable. The timeout then is how long nothing may come, and an answer that is
    // cut is kDataLoss.
    std::function<bool(std::string_view piece)> on_body = {};
  };
  // kUnavailable: nobody is there; kTimeout; kDataLoss: what came is no HTTP, or too much of it. Looking up a
  // host name takes as long as the system's resolver takes, whatever the timeout.
  Result<PlainReply> Send(const Request& request, Duration timeout);

  // Ends a Send that waits, and each later one, with kUnavailable.
  void Cut() noexcept;
  // In the child after a fork: closes what it has of the parent's connection.
  void LeaveBehind() noexcept;

 private:
  class Wait;
  Status Connect(const Request& request, const Wait& wait);
  Status Write(std::string_view bytes, const Wait& wait);
  Result<PlainReply> Read(const Request& request, const Wait& whole, Duration timeout);
  void Close() noexcept;

  UniqueFd cut_;                 // an eventfd, readable once it is cut
  std::atomic<int> socket_{-1};  // of the request under way
};

}  // namespace gpulens
