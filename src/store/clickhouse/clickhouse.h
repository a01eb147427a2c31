// Client of ClickHouse's HTTP interface: a statement, an answer, and errors as Status. Answers are untrusted
// and limited; an error is one short line without the password.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "net/blocking/blocking_post.h"

namespace gpulens::clickhouse {

// clickhouse://USER:PASSWORD@HOST:PORT/DATABASE?table=NAME, clickhouses:// for TLS; all but HOST may be left
// out.
bool IsUrl(std::string_view text) noexcept;

struct Address {
  HttpUrl url;  // its target is not used
  std::string database, table;
};
// User and password that the URL does not have are those of $CLICKHOUSE_USER and $CLICKHOUSE_PASSWORD.
// kInvalidArgument: it is no such URL.
Result<Address> ParseUrl(std::string_view url);

// SQL: 'text' with what is special in it, and `name`.
std::string Quoted(std::string_view text);
std::string NameQuoted(std::string_view name);

// One server; a connection for each request. Used by one thread at a time. After a fork the child makes its
// own.
class Server {
 public:
  // Sends nothing yet. kUnavailable: https, and no TLS is linked (net/blocking/blocking_post.h).
  static Result<std::unique_ptr<Server>> Open(const std::string& url);

  // kInvalidArgument: the server refuses the data (a constraint, a value that a view cannot take).
  // kPermissionDenied: it does not let us in, or not do this. kUnavailable, kTimeout, kDataLoss: there was no
  // whole answer, and what it did is not known. kIo: the rest.
  Status Run(const std::string& sql, Duration timeout = kUsual) const;
  // `data` in the format that the INSERT names. Two with the same token are one, where the table remembers
  // tokens.
  Status Insert(const std::string& sql, std::string_view data, const std::string& token) const;
  // The whole answer, kMostAnswer at most.
  Result<std::string> Query(const std::string& sql, Duration timeout = kUsual) const;
  // As it comes; what `on_piece` returns ends it unless it is ok. `quiet`: how long nothing may come.
  Status Read(const std::string& sql, const std::function<Status(std::string_view piece)>& on_piece,
              Duration quiet = kLong) const;

  const Address& address() const noexcept { return address_; }

  static constexpr Duration kUsual = std::chrono::seconds(30);
  // The server may work on an answer for long before the first byte of it comes.
  static constexpr Duration kLong = std::chrono::minutes(5);
  static constexpr size_t kMostAnswer = 1 << 20;

 private:
  explicit Server(Address address, std::string name) : address_(std::move(address)), name_(std::move(name)) {}
  struct Sent {
    std::string parameters;  // of the URL, behind the database
    std::string_view body;
    Duration timeout = kUsual;
    std::function<bool(std::string_view piece)> on_body;
  };
  Status Post(Sent sent) const;
  Status Refusal(const BlockingReply& reply) const;

  const Address address_;
  const std::string name_;
  mutable BlockingPost plain_;
};

}  // namespace gpulens::clickhouse
