// HTTP requests and answers as handlers see them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/message/address.h"

namespace gpulens {

// Immutable bytes with whatever keeps them alive; copying shares them. Thread-safe to copy and read.
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

// One parsed request. Names compare without case, values have no blanks around them. Valid only during
// HttpHandler::Handle; a handler that answers later copies what it needs.
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
  // The body without a copy, for a handler that answers later; once, then it is empty.
  std::string TakeBody() const noexcept { return std::move(body_); }
  int version_minor() const noexcept { return minor_; }  // HTTP/1.0 or 1.1
  const Endpoint& remote() const noexcept { return remote_; }
  bool tls() const noexcept { return tls_; }
  // The process at the other end of a Unix socket and its user, as the kernel says; 0 and -1: not known.
  int32_t peer_pid() const noexcept { return peer_pid_; }
  int64_t peer_uid() const noexcept { return peer_uid_; }

  size_t field_count() const noexcept { return fields_.size(); }
  Field field(size_t i) const noexcept { return {Piece(fields_[i].name), Piece(fields_[i].value)}; }
  // The first such field's value; empty when there is none.
  std::string_view Header(std::string_view name) const noexcept;
  bool HasHeader(std::string_view name) const noexcept;
  size_t CountHeader(std::string_view name) const noexcept;
  // All such fields as one list, as RFC 9110 §5.3 joins them: "a, b".
  std::string JoinedHeader(std::string_view name) const;
  // True when the comma-separated values of `name` hold `token`, without case.
  bool HeaderHasToken(std::string_view name, std::string_view token) const;
  // A decoded parameter of the query: "a=1&b=x%20y". The first one; nothing when it is not there.
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

// One answer. The server adds Date, Content-Length, Connection and the web config's headers.
struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";  // empty: none
  std::string headers;                                     // whole lines; see AddHeader
  SharedBytes body;
  bool close = false;  // ends the connection after this answer

  // Control bytes in `value` become blanks, so text from outside cannot add lines.
  void AddHeader(std::string_view name, std::string_view value);

  // An answer of one sentence; a newline is added.
  static HttpResponse Text(int status, std::string sentence);
};

// The head of an answer, with its blank line. `more` and `connection` are whole header lines.
std::string HttpHead(const HttpResponse& response, std::string_view more, std::string_view connection);
// False for answers that never have a body, nor a Content-Length.
bool HttpHasBody(int status) noexcept;
// "Not Found"; "Unknown" for numbers without a name.
std::string_view HttpReason(int status) noexcept;
// Now as a Date header wants it: "Sun, 06 Nov 1994 08:49:37 GMT". Made once a second per thread.
std::string_view HttpDate();
// Whether an Accept-Encoding (fields joined by ", ") takes gzip: q-values and "*" count.
bool AcceptsGzip(std::string_view accept_encoding) noexcept;
// %XX and '+' undone; a broken escape stays as it is.
std::string DecodePercent(std::string_view text);

}  // namespace gpulens
