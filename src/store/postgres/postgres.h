// A client of PostgreSQL: connections, results, and errors as Status. Schemas and
// queries belong to the folders beside this one.
//
// A connection is used by one thread at a time, and by the process alone that made it: after a fork the child
// neither uses nor destroys it. What fails waits for ten seconds at most where the network says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "store/postgres/libpq.h"

namespace gpulens::postgres {

bool IsUrl(std::string_view text) noexcept;

// An answer, read row by row.
class Rows {
 public:
  Rows(const Libpq& libpq, LibResult* result) noexcept : libpq_(&libpq), result_(result) {}
  Rows(Rows&& other) noexcept;
  Rows& operator=(Rows&&) = delete;
  ~Rows();

  // To the first row, then to the next; false: there is none.
  bool Step() noexcept { return ++at_ < size(); }
  int size() const noexcept { return libpq_->rows(result_); }
  uint64_t changes() const noexcept;  // rows that were written or deleted

  int columns() const noexcept { return libpq_->columns(result_); }
  std::string_view ColumnName(int column) const noexcept { return libpq_->column_name(result_, column); }
  bool IsNull(int column) const noexcept { return libpq_->is_null(result_, at_, column) != 0; }
  int64_t Int(int column) const noexcept { return MaybeInt(column).value_or(0); }
  double Real(int column) const noexcept;            // NaN for NULL
  std::string_view Text(int column) const noexcept;  // while this object lives
  std::optional<int64_t> MaybeInt(int column) const noexcept;

 private:
  const Libpq* libpq_;
  LibResult* result_;
  int at_ = -1;
};

class Connection {
 public:
  // kInvalidArgument: it is no URL of PostgreSQL. kUnavailable: there is no client library, or no server that
  // lets us in.
  static Result<Connection> Open(const std::string& url);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&&) = delete;
  ~Connection();

  // One statement with its parameters $1, $2, …; nullopt: NULL. kInvalidArgument: the server refuses the data
  // (SQLSTATE classes 22 and 23). kUnavailable: the connection is lost. kIo: the rest.
  using Parameters = std::span<const std::optional<std::string>>;
  Result<Rows> Query(const std::string& sql, Parameters parameters = {}) const;
  Status Run(const std::string& sql, Parameters parameters = {}) const;
  // Of the first row's first column; kDataLoss when there is none, or NULL.
  Result<int64_t> Number(const std::string& sql, Parameters parameters = {}) const;

 private:
  Connection(const Libpq& libpq, LibConnection* handle) noexcept : libpq_(&libpq), handle_(handle) {}
  const Libpq* libpq_;
  LibConnection* handle_;
};

}  // namespace gpulens::postgres
