// HTTP requests and responses of servers; header fields; failures of requests as codes and texts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "net/message/address.h"

namespace gpulens {

// Immutable bytes with their owner; copies share them. Thread-safe to copy and read.
struct SharedBytes {
  std::shared_ptr<const void> owner;  // null for text that lives as long as the program
  std::string_view bytes;

  SharedBytes() = default;
  SharedBytes(std::string text);  // takes the text over
  template <size_t N>
  SharedBytes(const char (&literal)[N]) : bytes(literal) {}  // for string literals alone
  SharedBytes(std::shared_ptr<const std::string> text) : owner(text), bytes(*text) {}
  SharedBytes(std::shared_ptr<const void> keep, std::string_view view)
      : owner(std::move(keep)), bytes(view) {}
};

// A parsed request. Names compare without case; values have no blanks around them. Valid only during
// HttpHandler::Handle: a handler that answers later copies what it needs.
class HttpRequest {
 public:
  struct Field {
    std::string_view name, value;
  };

  std::string_view method() const noexcept { return Piece(method_); }
  std::string_view target() const noexcept { return Piece(target_); }
  std::string_view path() const noexcept;   // as sent, not decoded; begins with '/' (or is "*")
  std::string_view query() const noexcept;  // without '?'
  std::string_view body() const noexcept { return body_; }
  // Moves the body out, for a handler that answers later.
  std::string TakeBody() const noexcept { return std::move(body_); }
  int version_minor() const noexcept { return minor_; }  // HTTP/1.0 or 1.1
  const Endpoint& remote() const noexcept { return remote_; }
  bool tls() const noexcept { return tls_; }
  // The process at the other end of a Unix socket and its user; 0 and -1: unknown.
  int32_t peer_pid() const noexcept { return peer_pid_; }
  int64_t peer_uid() const noexcept { return peer_uid_; }

  size_t field_count() const noexcept { return fields_.size(); }
  Field field(size_t i) const noexcept { return {Piece(fields_[i].name), Piece(fields_[i].value)}; }
  // The value of the first such field, or empty.
  std::string_view Header(std::string_view name) const noexcept;
  bool HasHeader(std::string_view name) const noexcept;
  size_t CountHeader(std::string_view name) const noexcept;
  // All such fields joined by RFC 9110 §5.3: "a, b".
  std::string JoinedHeader(std::string_view name) const;
  // Whether the comma-separated values of `name` have `token`, without case.
  bool HeaderHasToken(std::string_view name, std::string_view token) const;
  // The first such parameter of the query ("a=1&b=x%20y"), decoded.
  std::optional<std::string> Parameter(std::string_view name) const;

 private:
  friend class HttpParser;
  friend class HttpConnection;
  friend class WebSocketConnection;
  struct Range {
    uint32_t at = 0, size = 0;
  };
  struct FieldRange {
    Range name, value;
  };
  std::string_view Piece(Range r) const noexcept { return std::string_view(text_).substr(r.at, r.size); }

  std::string text_;  // method, target, names and values, one after the other
  Range method_, target_;
  std::vector<FieldRange> fields_;
  mutable std::string body_;
  int minor_ = 1;
  bool tls_ = false;
  int32_t peer_pid_ = 0;
  int64_t peer_uid_ = -1;
  Endpoint remote_;
};

// A response. The server adds Date, Content-Length, Connection and the headers of the web config.
struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";  // empty: none
  std::string headers;                                     // whole lines; see AddHeader
  SharedBytes body;
  bool close = false;  // ends the connection after this response

  // Control bytes in `value` become blanks, so that untrusted text cannot add lines.
  void AddHeader(std::string_view name, std::string_view value);

  // A response of one sentence; adds a newline.
  static HttpResponse Text(int status, std::string sentence);
};

// The head of a response, with its blank line. `more` and `connection` are whole header lines.
std::string HttpHead(const HttpResponse& response, std::string_view more, std::string_view connection);
// False for responses without body and Content-Length.
bool HttpHasBody(int status) noexcept;
// "Not Found"; "Unknown" for numbers without a name.
std::string_view HttpReason(int status) noexcept;
// The present value of a Date field: "Sun, 06 Nov 1994 08:49:37 GMT". Cached for a second per thread.
std::string_view HttpDate();
// Whether an Accept-Encoding (fields joined by ", ") accepts gzip, with q-values and "*".
bool AcceptsGzip(std::string_view accept_encoding) noexcept;
// Decodes %XX and '+'; keeps broken escapes.
std::string DecodePercent(std::string_view text);

enum class HttpFailure : uint8_t {
  kNone,
  kConnect,   // no such host, refused, unreachable
  kTls,       // handshake, certificates
  kTimeout,   // no complete response in time
  kAuth,      // 401, 403
  kStatus,    // any response but 200, to a Post but 2xx
  kTooLarge,  // head or body above its limit
  kProtocol,  // not HTTP, damaged or truncated
};
inline constexpr size_t kHttpFailures = 8;
// "connect": the value of an attribute.
std::string_view HttpFailureName(HttpFailure failure) noexcept;
Code HttpFailureCode(HttpFailure failure) noexcept;

// Whether a text is a token of RFC 9110, such as the name of a field.
bool IsHttpToken(std::string_view text) noexcept;

// Appends "Name: value\r\n". kInvalidArgument when `name` is not a field name or one that clients set
// themselves (Connection, Content-Length, Host, …), or `value` has a control byte.
Status AddRequestField(std::string& headers, std::string_view name, std::string_view value);
// Appends an Authorization field of user and password.
void AddBasicAuth(std::string& headers, std::string_view user, std::string_view password);

// Parses a Retry-After field (RFC 9110, 10.2.3): the time to wait from `now` on, from 0 to a day. Seconds, or
// a date in any of HTTP's three forms, compared with the wall clock; its day of the week is not checked.
std::optional<Duration> RetryAfter(std::string_view field, Instant now) noexcept;

// "answers 503 Service Unavailable"; a redirect names its target without what may be secret: the query, the
// path at another host and, with `secret_path`, any path.
std::string DescribeStatus(int status, std::string_view location, bool secret_path = false);
// An error without the prefix that names the failed call, begun in lower case.
std::string WithoutPrefix(std::string text, std::string_view prefix);

}  // namespace gpulens
