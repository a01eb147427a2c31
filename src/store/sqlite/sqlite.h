// A wrapper of SQLite: connections, statements, transactions, and errors as Status. Schemas and
// queries belong to the folders beside this one.
//
// A connection and what was made from it are used by one thread at a time. Statements and transactions do not
// outlive their connection.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

struct sqlite3;
struct sqlite3_stmt;

namespace gpulens::sqlite {

// A prepared statement. Parameters count from 1, columns from 0.
class Statement {
 public:
  Statement() noexcept = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  explicit operator bool() const noexcept { return statement_ != nullptr; }

  // Texts and blobs are not copied: they live until the statement is reset. A NaN becomes NULL, which is what
  // SQLite makes of it; infinities are kept.
  Statement& Bind(int parameter, int64_t value) noexcept;
  Statement& Bind(int parameter, double value) noexcept;
  Statement& Bind(int parameter, std::string_view text) noexcept;
  Statement& Bind(int parameter, std::optional<int64_t> value) noexcept;
  Statement& BindBlob(int parameter, std::string_view bytes) noexcept;
  Statement& BindNull(int parameter) noexcept;

  // True: there is a row. After false or a failure the statement is reset; bindings are kept until they are
  // overwritten.
  Result<bool> Step();
  // Steps through all rows, whatever they are.
  Status Execute();
  void Reset() noexcept;

  enum class Type : uint8_t { kInteger = 1, kReal = 2, kText = 3, kBlob = 4, kNull = 5 };
  int columns() const noexcept;
  std::string_view ColumnName(int column) const noexcept;
  Type TypeOf(int column) const noexcept;
  bool IsNull(int column) const noexcept { return TypeOf(column) == Type::kNull; }
  int64_t Int(int column) const noexcept;
  double Real(int column) const noexcept;            // NaN for NULL
  std::string_view Text(int column) const noexcept;  // also of a blob; until the next step
  std::optional<int64_t> MaybeInt(int column) const noexcept;

  sqlite3_stmt* handle() const noexcept { return statement_; }
  // Of a statement that was prepared by hand.
  static Statement Adopt(sqlite3_stmt* statement) noexcept { return Statement(statement); }

 private:
  friend class Database;
  explicit Statement(sqlite3_stmt* statement) noexcept : statement_(statement) {}
  sqlite3_stmt* statement_ = nullptr;
};

struct OpenOptions {
  std::string path;
  bool read_only = false;
  bool create = true;    // the file, for `mode`, and missing folders above it; what is there stays as it is
  unsigned mode = 0640;  // of a new file; the umask applies. SQLite gives its other files the same
  int busy_ms = 5000;    // how long a lock of others is waited for
  int cache_kib = 256;   // of pages
  bool durable = true;   // a commit waits for the disk; without, a crash of the machine (not of the program)
                         // may lose the last ones, never the file
  // For a file that may be anybody's, whose views and triggers may never end: all work on the connection ends
  // so long after it was opened (kTimeout), and is bounded in memory and sizes. 0: it is trusted. SQLite
  // bounds the memory of the whole process alone: only for a program that opens one file and ends, never for
  // the agent or the SDK, whose other files would meet the same bound.
  std::chrono::nanoseconds longest{0};
};
// What a value may hold, a statement, the nesting of an expression, and SQLite in all: of files that are not
// trusted, and of what people ask.
inline constexpr int kMostValueBytes = 64 << 20, kMostSqlBytes = 1 << 20, kMostDepth = 200;
inline constexpr int64_t kMostMemory = 512 << 20;

// A connection to one file.
class Database {
 public:
  // Write-ahead mode, but not on a network file system, where it does not work between machines. Read-only
  // works without write permission on file and folder. kUnavailable: there is no file (read-only, or not to
  // be made). kDataLoss: it is no database.
  static Result<Database> Open(const OpenOptions& options);
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  // One or more statements without parameters.
  Status Run(const std::string& sql) const;
  // The first column of the first row; kDataLoss when there is none, or NULL.
  Result<int64_t> Number(const std::string& sql) const;
  Result<Statement> Prepare(std::string_view sql) const;
  // Rows that the last statement wrote; the row id that the last insert made.
  int64_t changes() const noexcept;
  int64_t last_row_id() const noexcept;

  const std::string& path() const noexcept { return path_; }
  bool read_only() const noexcept { return read_only_; }
  sqlite3* handle() const noexcept { return handle_; }

 private:
  Database(sqlite3* handle, const OpenOptions& options)
      : handle_(handle), path_(options.path), read_only_(options.read_only) {}
  static Result<Database> OpenHandle(const OpenOptions& options, bool immutable);
  void Bound(std::chrono::nanoseconds longest);
  sqlite3* handle_ = nullptr;
  std::string path_;
  bool read_only_ = false;
  std::unique_ptr<std::chrono::steady_clock::time_point> end_;  // null: never
};

// Takes the right to write at once (BEGIN IMMEDIATE), so that it fails here or not at all; undone at the end
// unless committed.
class Transaction {
 public:
  static Result<Transaction> Begin(const Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  // A failed commit is undone.
  Status Commit();

 private:
  explicit Transaction(const Database& database) : database_(&database) {}
  const Database* database_;
};

// Tables by version: statement i brings a file from version i to i + 1, each in a transaction of its own with
// the mark. Several programs may do so at once. kUnavailable: the file was written by a newer program.
struct Schema {
  int32_t application_id = 0;  // "gpul" is 0x6770756c; 0: none
  const char* const* steps = nullptr;
  int count = 0;
};
Status BringUpToDate(const Database& database, const Schema& schema);
// user_version, and whether the schema knows it. For read-only connections.
Result<int64_t> CheckVersion(const Database& database, const Schema& schema);

// Of a result code of SQLite, with the path and what SQLite says.
Status StatusOf(sqlite3* database, int code, std::string_view path);
// Whether file locks and shared memory reach only this machine there. False when it cannot be told.
bool OnNetworkFileSystem(const std::string& path) noexcept;
// `name` as an identifier of SQL: "my ""odd"" column".
std::string Quoted(std::string_view name);

}  // namespace gpulens::sqlite
