#include "store/sqlite/sqlite.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/ref.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::sqlite {
namespace {

// Whether the write-ahead log has content: readers leave an empty one behind.
bool HasLog(const std::string& path) noexcept {
  struct stat log = {};
  return ::stat((path + "-wal").c_str(), &log) == 0 && log.st_size > 0;
}

Code CodeOf(int code) noexcept {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT: return Code::kDataLoss;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
    case SQLITE_NOMEM: return Code::kExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_INTERRUPT: return Code::kTimeout;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return Code::kPermissionDenied;
    case SQLITE_ERROR:
    case SQLITE_RANGE:
    case SQLITE_MISMATCH:
    case SQLITE_MISUSE: return Code::kInvalidArgument;
    default: return Code::kIo;
  }
}

// A path as the name of a file: URI, so that parameters may follow it.
std::string FileUri(const std::string& path) { return "file:" + PercentEncoded(path, "/"); }

// Changing the journal mode needs the whole file, and fails at once while another connection is open, without
// the usual wait for locks.
Status SetJournal(const Database& database, const OpenOptions& options) {
  const std::string pragma =
      OnNetworkFileSystem(options.path) ? "PRAGMA journal_mode=DELETE" : "PRAGMA journal_mode=WAL";
  for (int waited_ms = 0;; ++waited_ms) {
    Status status = database.Run(pragma);
    if (status || status.code != Code::kTimeout || waited_ms >= options.busy_ms) return status;
    ::usleep(1000);
  }
}

}  // namespace

Status StatusOf(sqlite3* database, int code, std::string_view path) {
  std::string detail(path);
  detail += ": ";
  detail += database ? ::sqlite3_errmsg(database) : ::sqlite3_errstr(code);
  return {CodeOf(code), std::move(detail)};
}

bool OnNetworkFileSystem(const std::string& path) noexcept {
  struct statfs info{};
  if (::statfs(path.c_str(), &info) != 0) return false;
  // NFS, SMB, CIFS, SMB2, Ceph, Lustre, GPFS, BeeGFS, AFS, 9P, FUSE (sshfs, GlusterFS, s3fs …).
  constexpr unsigned kShared[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x00c36400, 0x0bd00bd0,
                                  0x47504653, 0x19830326, 0x5346414f, 0x01021997, 0x65735546};
  for (unsigned type : kShared) {
    if (static_cast<unsigned>(info.f_type) == type) return true;
  }
  return false;
}

std::string Quoted(std::string_view name, char quote) {
  std::string out(1, quote);
  for (char c : name) {
    if (c == quote) out += quote;
    out += c;
  }
  return out + quote;
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const noexcept {
  ::sqlite3_finalize(statement);
}

Statement& Statement::Bind(int parameter, int64_t value) noexcept {
  ::sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}
Statement& Statement::Bind(int parameter, double value) noexcept {
  ::sqlite3_bind_double(statement_.get(), parameter, value);
  return *this;
}
Statement& Statement::Bind(int parameter, std::string_view text) noexcept {
  // A null pointer would bind NULL.
  ::sqlite3_bind_text64(statement_.get(), parameter, text.data() ? text.data() : "", text.size(),
                        SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}
Statement& Statement::Bind(int parameter, std::optional<int64_t> value) noexcept {
  return value ? Bind(parameter, *value) : Bind(parameter, std::monostate());
}
Statement& Statement::BindBlob(int parameter, std::string_view bytes) noexcept {
  ::sqlite3_bind_blob64(statement_.get(), parameter, bytes.data() ? bytes.data() : "", bytes.size(),
                        SQLITE_STATIC);
  return *this;
}
Statement& Statement::Bind(int parameter, std::monostate /*null*/) noexcept {
  ::sqlite3_bind_null(statement_.get(), parameter);
  return *this;
}

Result<bool> Statement::Step() {
  int code = ::sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    ::sqlite3_reset(statement_.get());
    return false;
  }
  sqlite3* database = ::sqlite3_db_handle(statement_.get());
  const char* path = ::sqlite3_db_filename(database, "main");
  Status status = StatusOf(database, code, path ? path : "");
  ::sqlite3_reset(statement_.get());
  return status;
}

Status Statement::Execute() {
  for (;;) {
    Result<bool> row = Step();
    if (!row) return row.error();
    if (!*row) return Ok();
  }
}

void Statement::Reset() noexcept { ::sqlite3_reset(statement_.get()); }

int Statement::columns() const noexcept { return ::sqlite3_column_count(statement_.get()); }
std::string_view Statement::ColumnName(int column) const noexcept {
  const char* name = ::sqlite3_column_name(statement_.get(), column);
  return name ? name : "";
}
Statement::Type Statement::TypeOf(int column) const noexcept {
  return static_cast<Type>(::sqlite3_column_type(statement_.get(), column));
}
int64_t Statement::Int(int column) const noexcept { return ::sqlite3_column_int64(statement_.get(), column); }
double Statement::Real(int column) const noexcept {
  return IsNull(column) ? kNotMeasured : ::sqlite3_column_double(statement_.get(), column);
}
std::string_view Statement::Text(int column) const noexcept {
  const void* text = ::sqlite3_column_blob(statement_.get(), column);
  int size = ::sqlite3_column_bytes(statement_.get(), column);
  return text ? std::string_view(static_cast<const char*>(text), static_cast<size_t>(size))
              : std::string_view();
}
std::optional<int64_t> Statement::MaybeInt(int column) const noexcept {
  return IsNull(column) ? std::nullopt : std::optional(Int(column));
}

void Database::Close::operator()(sqlite3* database) const noexcept { ::sqlite3_close_v2(database); }

void Database::Restart() const noexcept {
  if (end_ && !read_only_) *end_ = std::chrono::steady_clock::now() + longest_;
}

void Database::Bound(bool memory) {
  using Clock = std::chrono::steady_clock;
  end_ = std::make_unique<Clock::time_point>(Clock::now() + longest_);
  const auto over = [](void* end) {
    return static_cast<int>(Clock::now() >= *static_cast<Clock::time_point*>(end));
  };
  ::sqlite3_progress_handler(handle_.get(), kOpsBetweenChecks, over, end_.get());
  if (read_only_) ::sqlite3_limit(handle_.get(), SQLITE_LIMIT_ATTACHED, 0);  // VACUUM needs one
  if (memory) ::sqlite3_hard_heap_limit64(kMostMemory);
}

// What https://sqlite.org/security.html advises for files that others may have written.
void Database::Defend(bool triggers) noexcept {
  const std::pair<int, int> settings[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                                          {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                                          {SQLITE_DBCONFIG_ENABLE_VIEW, 0},  // temporary ones, ours, remain
                                          {SQLITE_DBCONFIG_ENABLE_TRIGGER, triggers ? 1 : 0},
                                          {SQLITE_DBCONFIG_ENABLE_FKEY, 1}};
  for (auto [which, on] : settings) ::sqlite3_db_config(handle_.get(), which, on, nullptr);
  ::sqlite3_limit(handle_.get(), SQLITE_LIMIT_LENGTH, kMostValueBytes);
  ::sqlite3_limit(handle_.get(), SQLITE_LIMIT_SQL_LENGTH, kMostSqlBytes);
  ::sqlite3_limit(handle_.get(), SQLITE_LIMIT_EXPR_DEPTH, kMostDepth);
}

Result<Database> Database::OpenHandle(const OpenOptions& options, bool immutable) {
  sqlite3* handle = nullptr;
  int flags = (options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX |
              SQLITE_OPEN_URI;
  std::string uri = FileUri(options.path) + (immutable ? "?immutable=1" : "");
  int code = ::sqlite3_open_v2(uri.c_str(), &handle, flags, nullptr);
  Database database(handle, options);
  if (code != SQLITE_OK) return StatusOf(handle, code, options.path);
  ::sqlite3_extended_result_codes(handle, 1);
  ::sqlite3_busy_timeout(handle, options.busy_ms);
  database.Defend(options.triggers);
  if (options.longest.count() > 0) database.Bound(options.bound_memory);
  RETURN_IF_ERROR(database.Run("PRAGMA cache_size=-" + std::to_string(options.cache_kib) +
                               "; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0"));
  if (options.temp_in_memory) RETURN_IF_ERROR(database.Run("PRAGMA temp_store=MEMORY"));
  // The first look at the file: whether it is a database at all.
  if (auto version = database.Number("PRAGMA schema_version"); !version) return version.error();
  if (!options.read_only) {
    RETURN_IF_ERROR(SetJournal(database, options));
    RETURN_IF_ERROR(database.Run(options.durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL"));
  }
  return database;
}

Result<Database> Database::Open(const OpenOptions& options) {
  if (options.read_only || !options.create) {
    if (::access(options.path.c_str(), F_OK) != 0) return ErrnoStatus("open " + options.path, errno);
    if (::access(options.path.c_str(), options.read_only ? R_OK : R_OK | W_OK) != 0)
      return ErrnoStatus("open " + options.path, errno);
  } else {
    RETURN_IF_ERROR(MakeFoldersAbove(options.path));
    // Only a file that is not open anywhere: closing another one would drop the locks that this process has
    // on it.
    UniqueFd made(::open(options.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, options.mode));
    if (!made && (errno != EEXIST || ::access(options.path.c_str(), R_OK | W_OK) != 0))
      return ErrnoStatus("open " + options.path, errno);
  }
  auto opened = OpenHandle(options, false);
  if (opened || !options.read_only || opened.error().code == Code::kDataLoss) return opened;
  // A file in write-ahead mode needs a shared-memory file even for readers. Where it cannot be made and does
  // not exist, there is no writer, and the file can be read as it is.
  return HasLog(options.path) ? std::move(opened) : OpenHandle(options, true);
}

Status Database::Run(const std::string& sql) const {
  int code = ::sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Ok() : StatusOf(handle_.get(), code, path_);
}

Result<int64_t> Database::Number(const std::string& sql) const {
  ASSIGN_OR_RETURN(Statement statement, Prepare(sql));
  ASSIGN_OR_RETURN(bool row, statement.Step());
  if (!row || statement.IsNull(0)) return Status{Code::kDataLoss, path_ + ": no answer to " + sql};
  return statement.Int(0);
}

Result<Statement> Database::Prepare(std::string_view sql) const {
  Restart();
  sqlite3_stmt* statement = nullptr;
  int code = ::sqlite3_prepare_v3(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                  SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return StatusOf(handle_.get(), code, path_);
  if (!statement) return Status{Code::kInvalidArgument, path_ + ": no statement"};
  return Statement(statement);
}

int64_t Database::changes() const noexcept { return ::sqlite3_changes(handle_.get()); }
int64_t Database::last_row_id() const noexcept { return ::sqlite3_last_insert_rowid(handle_.get()); }

Result<Transaction> Transaction::Begin(const Database& database) {
  database.Restart();
  RETURN_IF_ERROR(database.Run("BEGIN IMMEDIATE"));
  return Transaction(database);
}
Status Transaction::Commit() {
  const Database* database = database_.release();
  Status status = database->Run("COMMIT");
  // SQLite may have rolled back already.
  if (!status && ::sqlite3_get_autocommit(database->handle()) == 0)
    static_cast<void>(database->Run("ROLLBACK"));
  return status;
}

Result<int64_t> CheckVersion(const Database& database, const Schema& schema) {
  ASSIGN_OR_RETURN(int64_t version, database.Number("PRAGMA user_version"));
  if (version > schema.count) {
    return Status{Code::kUnavailable, database.path() + " was written by a newer gpulens (version " +
                                          std::to_string(version) + " of its tables)"};
  }
  return version;
}

Status BringUpToDate(const Database& database, const Schema& schema) {
  ASSIGN_OR_RETURN(int64_t version, CheckVersion(database, schema));
  while (version < schema.count) {
    ASSIGN_OR_RETURN(Transaction step, Transaction::Begin(database));
    // Another program may have been quicker.
    ASSIGN_OR_RETURN(version, CheckVersion(database, schema));
    if (version == schema.count) return step.Commit();
    RETURN_IF_ERROR(database.Run(schema.steps[version]));
    ++version;
    if (schema.application_id)
      RETURN_IF_ERROR(database.Run("PRAGMA application_id=" + std::to_string(schema.application_id)));
    RETURN_IF_ERROR(database.Run("PRAGMA user_version=" + std::to_string(version)));
    RETURN_IF_ERROR(step.Commit());
  }
  return Ok();
}

std::atomic<uint32_t> internal::forks = 0;

namespace {

constexpr auto kLongestWait = std::chrono::seconds(10);

// Never destroyed: programs fork in destructors, too.
struct Gate {
  std::shared_timed_mutex inside;
  std::mutex list;  // taken inside of `inside`
  std::vector<Forkable*> holders;
  bool closed = false;  // of the thread that forks
  std::atomic<bool> unsafe = false;

  static Gate& Instance() noexcept {
    static Immortal<Gate> gate;
    return *gate;
  }
  Gate() { CHECK(::pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild) == 0); }

  static void BeforeFork() noexcept {
    Gate& gate = Instance();
    gate.closed = gate.inside.try_lock_for(kLongestWait);
    if (!gate.closed) return;
    for (Forkable* holder : gate.holders) holder->CloseForFork();
  }
  static void AfterForkInParent() noexcept {
    Gate& gate = Instance();
    if (gate.closed) gate.inside.unlock();
  }
  // The lock remembers a thread that has another number now.
  static void AfterForkInChild() noexcept {
    Gate& gate = Instance();
    if (!gate.closed) gate.unsafe = true;
    new (&gate.inside) std::shared_timed_mutex;
    new (&gate.list) std::mutex;
    gate.holders.clear();
    internal::forks.fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace

ForkGuard::ForkGuard() { Gate::Instance().inside.lock_shared(); }
ForkGuard::~ForkGuard() { Gate::Instance().inside.unlock_shared(); }

void AddForkable(Forkable* holder) {
  Gate& gate = Gate::Instance();
  std::lock_guard lock(gate.list);
  gate.holders.push_back(holder);
}

void RemoveForkable(Forkable* holder) noexcept {
  Gate& gate = Gate::Instance();
  std::lock_guard lock(gate.list);
  std::erase(gate.holders, holder);
}

bool UnsafeSinceFork() noexcept { return Gate::Instance().unsafe.load(std::memory_order_relaxed); }

}  // namespace gpulens::sqlite
