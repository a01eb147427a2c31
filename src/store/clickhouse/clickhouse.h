// Client of ClickHouse's HTTP interface: a statement, an answer, and errors as Status. Answers are untrusted
// and limited; an error is one short line without the password.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "net/blocking/blocking_post.h"

namespace gpulens::clickhouse {

// Whether the text is a URL clickhouse://USER:PASSWORD@HOST:PORT/DATABASE?table=NAME, or clickhouses:// for
// TLS. Only HOST is required.
bool IsUrl(std::string_view text) noexcept;

struct ServerAddress {
  HttpUrl url;  // its target is not used
  std::string database, table;
};
// Parses a URL. Missing user and password are $CLICKHOUSE_USER and $CLICKHOUSE_PASSWORD. kInvalidArgument for
// other texts.
Result<ServerAddress> ParseUrl(std::string_view url);

// SQL literals of a text ('text') and of a name (`name`), with escapes.
std::string Quoted(std::string_view text);
std::string NameQuoted(std::string_view name);

// Client of one server, with a connection for each request. Used by one thread at a time. After a fork the
// child makes its own.
class Server {
 public:
  // Does not connect yet. kUnavailable: https, and no TLS is linked (net/blocking/blocking_post.h).
  static Result<std::unique_ptr<Server>> Open(const std::string& url);

  // kInvalidArgument: the server refuses the data (a constraint, a value that a view cannot take).
  // kPermissionDenied: it refuses the login or the statement. kUnavailable, kTimeout, kDataLoss: the answer
  // is incomplete, and the outcome unknown. kIo: other errors.
  Status Run(const std::string& sql, Duration timeout = kUsual) const;
  // Inserts `data` in the format of the INSERT. Two inserts with the same token count as one, where the table
  // remembers tokens.
  Status Insert(const std::string& sql, std::string_view data, const std::string& token) const;
  // Returns the whole answer, at most kMostAnswer bytes.
  Result<std::string> Query(const std::string& sql, Duration timeout = kUsual) const;
  // Calls `on_piece` with pieces of the answer until it returns an error, which is returned. `quiet`: timeout
  // of a silent server.
  Status Read(const std::string& sql, const std::function<Status(std::string_view piece)>& on_piece,
              Duration quiet = kLong) const;

  const ServerAddress& address() const noexcept { return address_; }

  static constexpr Duration kUsual = std::chrono::seconds(30);
  // The server may compute for a long time before the first byte of an answer.
  static constexpr Duration kLong = std::chrono::minutes(5);
  static constexpr size_t kMostAnswer = 1 << 20;

 private:
  explicit Server(ServerAddress address, std::string name)
      : address_(std::move(address)), name_(std::move(name)) {}
  struct Sent {
    std::string parameters;  // of the URL, after the database
    std::string_view body;
    Duration timeout = kUsual;
    std::function<bool(std::string_view piece)> on_body;
  };
  Status Post(Sent sent) const;
  Status Refusal(const BlockingReply& reply) const;

  const ServerAddress address_;
  const std::string name_;
  mutable BlockingPost plain_;
};

// Reads rows of an answer in the format TabSeparatedWithNames piece by piece: bounded, and strict. Not
// thread-safe. Column accessors are valid within `on_row`.
class TabRows {
 public:
  static constexpr size_t kMostColumns = 1024;
  static constexpr size_t kMostLine = 1 << 20;

  // Called for each complete row; an error ends Feed.
  using OnRow = std::function<Status()>;
  // kDataLoss: malformed. kExhausted: larger than the limits. Not called again after an error.
  Status Feed(std::string_view bytes, const OnRow& on_row);
  // Ends the answer. kDataLoss: it was truncated, or had no names.
  Status End() const;

  int columns() const noexcept { return static_cast<int>(names_.size()); }
  std::string_view ColumnName(int column) const noexcept { return names_[static_cast<size_t>(column)]; }
  bool IsNull(int column) const noexcept { return At(column).null; }
  int64_t Int(int column) const noexcept { return MaybeInt(column).value_or(0); }
  double Real(int column) const noexcept;  // NaN for NULL
  std::string_view Text(int column) const noexcept;
  std::optional<int64_t> MaybeInt(int column) const noexcept;

 private:
  struct Field {
    size_t from = 0, size = 0;  // within text_
    bool null = false;
  };
  const Field& At(int column) const noexcept { return fields_[static_cast<size_t>(column)]; }
  Status OnLine(std::string_view line, const OnRow& on_row);
  Status Split(std::string_view line);

  std::vector<std::string> names_;
  std::vector<Field> fields_;
  std::string text_;  // of the line's fields, unescaped
  std::string line_;  // an incomplete line
};

}  // namespace gpulens::clickhouse
