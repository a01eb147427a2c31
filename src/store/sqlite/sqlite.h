// Wrapper of SQLite: connections, statements, transactions, and errors as Status. A connection and its
// statements are used by one thread at a time. Statements and transactions do not outlive their connection.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

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
  // Parameters 1, 2, … in this order.
  template <class... Values>
  Statement& BindAll(const Values&... values) noexcept {
    int parameter = 0;
    (Bind(++parameter, values), ...);
    return *this;
  }

  // True: there is a row. After false or a failure the statement is reset; bindings are kept until they are
  // overwritten.
  Result<bool> Step();
  // Steps through all rows, whatever they are.
  Status Execute();
  // Calls `on_row`, which may return a Status, for each row.
  template <class F>
  Status Each(F on_row) {
    for (;;) {
      Result<bool> row = Step();
      if (!row) return row.error();
      if (!*row) return {};
      if constexpr (std::is_void_v<decltype(on_row())>) on_row();
      else if (Status status = on_row(); !status) return status;
    }
  }
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
  // Takes ownership of a prepared statement.
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
// Limits for untrusted files and queries of people: bytes of a value and of a statement, nesting of an
// expression, and memory of SQLite in all.
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
  // One statement with values for its parameters.
  template <class... Values>
  Status Execute(std::string_view sql, const Values&... values) const {
    Result<Statement> statement = Prepare(sql);
    return statement ? statement->BindAll(values...).Execute() : statement.error();
  }
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

// Status of a result code of SQLite: the path and SQLite's message.
Status StatusOf(sqlite3* database, int code, std::string_view path);
// Whether file locks and shared memory may not reach other machines. False when unknown.
bool OnNetworkFileSystem(const std::string& path) noexcept;
// `name` as an identifier of SQL: "my ""odd"" column".
std::string Quoted(std::string_view name);

}  // namespace gpulens::sqlite

namespace gpulens::sqlite {

// Forks and SQLite: a process must not fork while a thread is inside SQLite (its locks would stay taken in
// the child), nor while a connection is open that the child may open, too (SQLite keeps its file locks per
// process, so the child would believe in its parent's).
//
// A program that may fork therefore uses SQLite within a Use, and its connections are closed before a fork. A
// fork waits for threads inside a Use, ten seconds at most.
//
// Prevents forks while it exists. Not nested, and short.
class Use {
 public:
  Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use();
};

// Has connections. Registered and taken out within a Use.
class Forkable {
 public:
  // Called before a fork by the forking thread, while no thread is inside a Use.
  virtual void CloseForFork() noexcept = 0;

 protected:
  ~Forkable() = default;
};
void AddForkable(Forkable* holder);
void RemoveForkable(Forkable* holder) noexcept;

// In a child: a thread was inside SQLite for too long during the fork, so SQLite must not be used.
bool UnsafeSinceFork() noexcept;

namespace internal {
extern std::atomic<uint32_t> forks;
}
// Number of forks between the first process that used SQLite and this one. Costs a load.
inline uint32_t Forks() noexcept { return internal::forks.load(std::memory_order_relaxed); }

// Owns an object of this process, with a thread or open files. In the child of a fork the parent's object is
// abandoned, since its locks may be held, and another one is made at first use. Thread-safe.
template <class T>
class ForkLocal {
 public:
  ForkLocal() = default;
  ForkLocal(const ForkLocal&) = delete;
  ForkLocal& operator=(const ForkLocal&) = delete;
  ~ForkLocal() {
    if (!in_child()) delete object_.load();
  }

  // Once, after this process has used SQLite.
  void Set(std::unique_ptr<T> object) noexcept {
    object_ = object.release();
    forks_ = Forks();
    set_ = true;
  }
  bool in_child() const noexcept { return set_ && forks_.load(std::memory_order_relaxed) != Forks(); }
  // Null: there is none. `make` returns a Result of a unique_ptr, and is called once in each child.
  template <class Make>
  T* Get(const Make& make) noexcept {
    if (!in_child()) [[likely]]
      return object_.load(std::memory_order_acquire);
    uint32_t before = forks_.load(std::memory_order_relaxed);
    if (before == kMaking || !forks_.compare_exchange_strong(before, kMaking)) return nullptr;
    const uint32_t now = Forks();
    T* made = nullptr;
    try {
      if (auto object = make()) made = object->release();
    } catch (...) {
      made = nullptr;  // no memory
    }
    object_.store(made, std::memory_order_release);
    forks_.store(now, std::memory_order_release);
    return made;
  }

 private:
  static constexpr uint32_t kMaking = UINT32_MAX;
  std::atomic<T*> object_ = nullptr;
  std::atomic<uint32_t> forks_ = 0;
  bool set_ = false;
};

}  // namespace gpulens::sqlite
