// Client of PostgreSQL: connections, results, and errors as Status. A connection is used by one thread at a
// time, and only by the process that made it: after a fork the child neither uses nor destroys it. Waits at
// most ten seconds for a silent network.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens::postgres {

// PostgreSQL's client library as a table of the few functions that are needed, found by dlopen. The
// declarations are ours, after libpq's documentation; none of its headers is used.
struct LibConnection;  // libpq's own
struct LibResult;
struct LibOption;

using NoticeProcessor = void (*)(void* own, const char* message);

// X(member, symbol, result, parameters)
#define GPULENS_LIBPQ_CALLS(X)                                                                               \
  X(parse, "PQconninfoParse", LibOption*, (const char* url, char** error))                                   \
  X(parse_free, "PQconninfoFree", void, (LibOption*))                                                        \
  X(memory_free, "PQfreemem", void, (void*))                                                                 \
  X(connect, "PQconnectdbParams", LibConnection*, (const char* const* keys, const char* const* values, int)) \
  X(finish, "PQfinish", void, (LibConnection*))                                                              \
  X(status, "PQstatus", int, (const LibConnection*))                                                         \
  X(error, "PQerrorMessage", const char*, (const LibConnection*))                                            \
  X(on_notice, "PQsetNoticeProcessor", NoticeProcessor, (LibConnection*, NoticeProcessor, void*))            \
  X(run, "PQexecParams", LibResult*,                                                                         \
    (LibConnection*, const char* sql, int count, const unsigned* types, const char* const* values,           \
     const int* lengths, const int* formats, int result_format))                                             \
  X(result_status, "PQresultStatus", int, (const LibResult*))                                                \
  X(result_field, "PQresultErrorField", const char*, (const LibResult*, int field))                          \
  X(rows, "PQntuples", int, (const LibResult*))                                                              \
  X(columns, "PQnfields", int, (const LibResult*))                                                           \
  X(column_name, "PQfname", const char*, (const LibResult*, int column))                                     \
  X(is_null, "PQgetisnull", int, (const LibResult*, int row, int column))                                    \
  X(value, "PQgetvalue", const char*, (const LibResult*, int row, int column))                               \
  X(length, "PQgetlength", int, (const LibResult*, int row, int column))                                     \
  X(changes, "PQcmdTuples", const char*, (LibResult*))                                                       \
  X(clear, "PQclear", void, (LibResult*))

struct Libpq {
#define GPULENS_LIBPQ_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  GPULENS_LIBPQ_CALLS(GPULENS_LIBPQ_MEMBER)
#undef GPULENS_LIBPQ_MEMBER
};

// Loads libpq.so.5 once. kUnavailable: it is missing, or lacks a function, which is named. Thread-safe.
Result<const Libpq*> Load();

bool IsUrl(std::string_view text) noexcept;

// Rows of a result, read one by one.
class ResultRows {
 public:
  ResultRows(const Libpq& libpq, LibResult* result) noexcept : libpq_(&libpq), result_(result, {&libpq}) {}

  // Moves to the first row, then to the next. False: there is none.
  bool Step() noexcept { return ++at_ < size(); }
  int size() const noexcept { return libpq_->rows(result_.get()); }
  uint64_t changes() const noexcept;  // rows that were written or deleted

  int columns() const noexcept { return libpq_->columns(result_.get()); }
  std::string_view ColumnName(int column) const noexcept {
    return libpq_->column_name(result_.get(), column);
  }
  bool IsNull(int column) const noexcept { return libpq_->is_null(result_.get(), at_, column) != 0; }
  int64_t Int(int column) const noexcept { return MaybeInt(column).value_or(0); }
  double Real(int column) const noexcept;            // NaN for NULL
  std::string_view Text(int column) const noexcept;  // while this object lives
  std::optional<int64_t> MaybeInt(int column) const noexcept;

 private:
  struct Clear {
    const Libpq* libpq;
    void operator()(LibResult* result) const noexcept { libpq->clear(result); }
  };
  const Libpq* libpq_;
  std::unique_ptr<LibResult, Clear> result_;
  int at_ = -1;
};

class Connection {
 public:
  // kInvalidArgument: malformed URL. kUnavailable: there is no client library, or no server that accepts the
  // login.
  static Result<Connection> Open(const std::string& url);

  // Runs one statement with its parameters $1, $2, …; nullopt: NULL. kInvalidArgument: the server refuses the
  // data (SQLSTATE classes 22 and 23). kUnavailable: the connection is lost. kIo: other errors.
  using Parameters = std::span<const std::optional<std::string>>;
  Result<ResultRows> Query(const std::string& sql, Parameters parameters = {}) const;
  Status Run(const std::string& sql, Parameters parameters = {}) const;
  // First column of the first row; kDataLoss when there is none, or NULL.
  Result<int64_t> Number(const std::string& sql, Parameters parameters = {}) const;

 private:
  struct Finish {
    const Libpq* libpq;
    void operator()(LibConnection* handle) const noexcept { libpq->finish(handle); }
  };
  Connection(const Libpq& libpq, LibConnection* handle) noexcept
      : libpq_(&libpq), handle_(handle, {&libpq}) {}
  const Libpq* libpq_;
  std::unique_ptr<LibConnection, Finish> handle_;
};

}  // namespace gpulens::postgres
