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
#include <variant>

#include <gpulens/status.h>

struct sqlite3;
struct sqlite3_stmt;

namespace gpulens::sqlite {

// A prepared statement. Parameters count from 1, columns from 0.
class Statement {
 public:
  Statement() noexcept = default;

  explicit operator bool() const noexcept { return statement_ != nullptr; }

  // Texts and blobs are not copied: they live until the statement is reset. A NaN becomes NULL, which is what
  // SQLite makes of it; infinities are kept.
  Statement& Bind(int parameter, int64_t value) noexcept;
  Statement& Bind(int parameter, double value) noexcept;
  Statement& Bind(int parameter, std::string_view text) noexcept;
  Statement& Bind(int parameter, std::optional<int64_t> value) noexcept;
  Statement& BindBlob(int parameter, std::string_view bytes) noexcept;
  Statement& Bind(int parameter, std::monostate null) noexcept;
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
  // Steps through all rows and ignores them.
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

  sqlite3_stmt* handle() const noexcept { return statement_.get(); }
  // Takes ownership of a prepared statement.
  static Statement Adopt(sqlite3_stmt* statement) noexcept { return Statement(statement); }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const noexcept;
  };
  explicit Statement(sqlite3_stmt* statement) noexcept : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

struct OpenOptions {
  std::string path;
  bool read_only = false;
  bool create = true;    // creates a missing file, with `mode`, and missing folders above it
  unsigned mode = 0640;  // of a new file; the umask applies. SQLite gives its other files the same
  int busy_ms = 5000;    // timeout of waiting for a lock of others
  int cache_kib = 256;   // of pages
  bool durable = true;   // a commit waits for the disk; else a crash of the machine (not of the program) may
                         // lose the last ones, never the file
  // Whether triggers of the file run when rows are written. False for a file that has none of ours.
  bool triggers = true;
  // For a file that may be damaged or made to harm, whose pages may be each other's children, a table without
  // end: all work of a read-only connection ends this long after it was opened (kTimeout), that of another
  // one this long after the begin of its transaction or the last Prepare. 0: it is trusted.
  std::chrono::nanoseconds longest{0};
  // SQLite can bound only the memory of the whole process, so that is for a program that opens one file and
  // ends. The agent, which has other databases, sets false.
  bool bound_memory = true;  // where `longest` is set
  // Large sorts and statements in memory instead of in files of the temporary folder, where the agent, which
  // is confined, may make none.
  bool temp_in_memory = false;
};
// Limits of all connections: bytes of a value and of a statement, nesting of an expression; and memory of
// SQLite in all.
inline constexpr int kMostValueBytes = 64 << 20, kMostSqlBytes = 1 << 20, kMostDepth = 200;
inline constexpr int64_t kMostMemory = 512 << 20;

// A connection to one file, which may come from others. As SQLite advises for such files: nothing of the
// file's own is executed but what is declared of its tables, with harmless functions alone; its views fail
// (kInvalidArgument, "prohibited"), and no statement can damage it.
class Database {
 public:
  // Opens in write-ahead mode, except on a network file system, where it does not work between machines.
  // Read-only works without write permission on file and folder. kUnavailable: there is no file (read-only,
  // or without `create`). kDataLoss: it is not a database.
  static Result<Database> Open(const OpenOptions& options);
  // Runs one or more statements without parameters.
  Status Run(const std::string& sql) const;
  // The first column of the first row; kDataLoss when there is none, or NULL.
  Result<int64_t> Number(const std::string& sql) const;
  Result<Statement> Prepare(std::string_view sql) const;
  // Runs one statement with values for its parameters.
  template <class... Values>
  Status Execute(std::string_view sql, const Values&... values) const {
    Result<Statement> statement = Prepare(sql);
    return statement ? statement->BindAll(values...).Execute() : statement.error();
  }
  // Number of rows that the last statement wrote; row id of the last insert.
  int64_t changes() const noexcept;
  int64_t last_row_id() const noexcept;

  // OpenOptions::longest begins again, unless the connection is read-only.
  void Restart() const noexcept;

  const std::string& path() const noexcept { return path_; }
  bool read_only() const noexcept { return read_only_; }
  sqlite3* handle() const noexcept { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const noexcept;
  };
  Database(sqlite3* handle, const OpenOptions& options)
      : path_(options.path), read_only_(options.read_only), longest_(options.longest), handle_(handle) {}
  static Result<Database> OpenHandle(const OpenOptions& options, bool immutable);
  void Defend(bool triggers) noexcept;
  void Bound(bool memory);
  std::string path_;
  bool read_only_ = false;
  std::chrono::nanoseconds longest_{0};
  std::unique_ptr<std::chrono::steady_clock::time_point> end_;  // null: never; outlives the handle
  std::unique_ptr<sqlite3, Close> handle_;
};

// Transaction that takes the write lock at its begin (BEGIN IMMEDIATE), so that later statements do not fail
// for it. Rolled back by the destructor unless committed.
class Transaction {
 public:
  static Result<Transaction> Begin(const Database& database);
  // A failed commit is rolled back.
  Status Commit();

 private:
  struct RollBack {
    void operator()(const Database* database) const noexcept { static_cast<void>(database->Run("ROLLBACK")); }
  };
  explicit Transaction(const Database& database) : database_(&database) {}
  std::unique_ptr<const Database, RollBack> database_;
};

// Tables by version: statement i upgrades a file from version i to i + 1, in a transaction of its own.
// Several programs may do so at once. kUnavailable: the file was written by a newer program.
struct Schema {
  int32_t application_id = 0;  // "gpul" is 0x6770756c; 0: none
  const char* const* steps = nullptr;
  int count = 0;
};
Status BringUpToDate(const Database& database, const Schema& schema);
// Returns user_version. kUnavailable when it is newer than the schema. For read-only connections.
Result<int64_t> CheckVersion(const Database& database, const Schema& schema);

// Converts a result code of SQLite to a Status with the path and SQLite's message.
Status StatusOf(sqlite3* database, int code, std::string_view path);
// Whether the file system may be shared with other machines, without its locks and shared memory. False when
// unknown.
bool OnNetworkFileSystem(const std::string& path) noexcept;
// `name` as an identifier of SQL: "my ""odd"" column". With the quote ', a text as a literal.
std::string Quoted(std::string_view name, char quote = '"');
inline constexpr int kOpsBetweenChecks = 10'000;  // of a deadline, in operations of SQLite's virtual machine

// Forks and SQLite: a process must not fork while a thread is inside SQLite (its locks would stay taken in
// the child), nor while a connection is open that the child may open, too (SQLite keeps its file locks per
// process, so the child would believe in its parent's).
//
// A program that may fork therefore uses SQLite within a ForkGuard, and its connections are closed before a
// fork. A fork waits for threads inside a ForkGuard, ten seconds at most.
//
// Prevents forks while it exists. Not nested, and short.
class ForkGuard {
 public:
  ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();
};

// Owner of connections. Added and removed within a ForkGuard.
class Forkable {
 public:
  // Called before a fork by the forking thread, while no thread is inside a ForkGuard.
  virtual void CloseForFork() noexcept = 0;

 protected:
  ~Forkable() = default;
};
void AddForkable(Forkable* holder);
void RemoveForkable(Forkable* holder) noexcept;

// Whether this is a child whose fork met a thread inside SQLite, so that SQLite must not be used.
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
