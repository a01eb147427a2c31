#include "store/incident_store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"

namespace gpulens {
namespace {

// "gpul", so that file(1) and we know whose it is.
constexpr int kApplicationId = 0x6770756c;
constexpr int kSchemaVersion = 1;
// How long a reader or writer waits for another one.
constexpr int kBusyMs = 2000;
// Rows that go at once when room is needed.
constexpr int64_t kRowsPerCleaning = 64;

constexpr const char* kSchema =
    "CREATE TABLE incidents("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,"
    "  unix_ns INTEGER NOT NULL, name TEXT NOT NULL, severity INTEGER NOT NULL,"
    "  gpu_index INTEGER, gpu_uuid TEXT, body TEXT NOT NULL,"
    "  attributes TEXT NOT NULL, readings TEXT);"
    "CREATE INDEX incidents_by_time ON incidents(unix_ns);";

Code CodeOfSqlite(int code) noexcept {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT: return Code::kDataLoss;
    case SQLITE_FULL: return Code::kExhausted;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return Code::kTimeout;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return Code::kPermissionDenied;
    default: return Code::kIo;
  }
}

Status Failure(sqlite3* database, int code, const std::string& path) {
  std::string detail = path + ": " + (database ? ::sqlite3_errmsg(database) : ::sqlite3_errstr(code));
  return {CodeOfSqlite(code), detail};
}

bool Exists(const std::string& path) noexcept { return ::access(path.c_str(), F_OK) == 0; }

std::string_view ColumnText(sqlite3_stmt* row, int column) noexcept {
  const void* text = ::sqlite3_column_blob(row, column);
  int size = ::sqlite3_column_bytes(row, column);
  return text ? std::string_view(static_cast<const char*>(text), static_cast<size_t>(size))
              : std::string_view();
}

}  // namespace

struct IncidentStore::Database {
  ~Database() {
    for (sqlite3_stmt* statement : {insert, remove}) ::sqlite3_finalize(statement);
    ::sqlite3_close(handle);
  }
  Status Run(const char* sql, const std::string& path) const {
    int code = ::sqlite3_exec(handle, sql, nullptr, nullptr, nullptr);
    return code == SQLITE_OK ? Ok() : Failure(handle, code, path);
  }
  // The number that a pragma answers; nothing on a failure.
  std::optional<int64_t> Number(const char* sql) const {
    sqlite3_stmt* statement = nullptr;
    std::optional<int64_t> number;
    if (::sqlite3_prepare_v2(handle, sql, -1, &statement, nullptr) == SQLITE_OK &&
        ::sqlite3_step(statement) == SQLITE_ROW) {
      number = ::sqlite3_column_int64(statement, 0);
    }
    ::sqlite3_finalize(statement);
    return number;
  }

  sqlite3* handle = nullptr;
  bool empty = false;  // no table was made in it yet
  sqlite3_stmt *insert = nullptr, *remove = nullptr;
};

IncidentStore::IncidentStore(std::unique_ptr<Database> database, const Options& options)
    : options_(options), database_(std::move(database)) {}
IncidentStore::~IncidentStore() = default;

Result<std::unique_ptr<IncidentStore>> IncidentStore::OpenOnce(const Options& options) {
  const std::string& path = options.path;
  auto database = std::make_unique<Database>();
  int flags = (options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
              SQLITE_OPEN_NOMUTEX;
  int code = ::sqlite3_open_v2(path.c_str(), &database->handle, flags, nullptr);
  if (code != SQLITE_OK) {
    if (::access(path.c_str(), R_OK) != 0 && errno == EACCES) return ErrnoStatus("open " + path, EACCES);
    return Failure(database->handle, code, path);
  }
  ::sqlite3_busy_timeout(database->handle, kBusyMs);
  // The page cache of a table that is hardly ever read: 256 KiB.
  RETURN_IF_ERROR(database->Run("PRAGMA cache_size=-256; PRAGMA trusted_schema=OFF;", path));
  auto version = database->Number("PRAGMA user_version");
  if (!version) return Failure(database->handle, ::sqlite3_errcode(database->handle), path);
  if (*version > kSchemaVersion) {
    return Status{Code::kUnavailable, path + " was written by a newer gpulens (version " +
                                          std::to_string(*version) + " of its tables)"};
  }
  // The agent that made the file is about to make its table.
  database->empty = *version == 0;
  if (!options.read_only) {
    database->empty = false;
    RETURN_IF_ERROR(database->Run("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;", path));
    if (*version == 0) {
      std::string make = "BEGIN IMMEDIATE; " + std::string(kSchema) +
                         "PRAGMA application_id=" + std::to_string(kApplicationId) +
                         "; PRAGMA user_version=" + std::to_string(kSchemaVersion) + "; COMMIT;";
      RETURN_IF_ERROR(database->Run(make.c_str(), path));
    }
    constexpr const char* kInsert =
        "INSERT INTO incidents(unix_ns,name,severity,gpu_index,gpu_uuid,body,attributes,readings)"
        " VALUES(?,?,?,?,?,?,?,?)";
    constexpr const char* kRemove =
        "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents ORDER BY id LIMIT ?)";
    code = ::sqlite3_prepare_v2(database->handle, kInsert, -1, &database->insert, nullptr);
    if (code == SQLITE_OK)
      code = ::sqlite3_prepare_v2(database->handle, kRemove, -1, &database->remove, nullptr);
    if (code != SQLITE_OK) return Failure(database->handle, code, path);
  }
  return std::unique_ptr<IncidentStore>(new IncidentStore(std::move(database), options));
}

Result<std::unique_ptr<IncidentStore>> IncidentStore::Open(const Options& options) {
  if (options.read_only) {
    if (!Exists(options.path)) return ErrnoStatus("open " + options.path, errno);
    return OpenOnce(options);
  }
  RETURN_IF_ERROR(MakeFoldersAbove(options.path));
  // The kernel log may be read by root alone on many machines; what comes from it is not for everybody
  // either. SQLite gives its other files the mode of this one.
  UniqueFd made(::open(options.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!made) return ErrnoStatus("open " + options.path, errno);
  made.reset();
  auto opened = OpenOnce(options);
  if (opened || opened.error().code != Code::kDataLoss) return opened;
  // What cannot be read is kept for people to look at, and does not stop us from keeping what comes.
  std::string aside = options.path + ".broken";
  if (std::rename(options.path.c_str(), aside.c_str()) != 0) return opened;
  for (const char* suffix : {"-wal", "-shm"}) ::unlink((options.path + suffix).c_str());
  Log(LogLevel::kWarn, "store", "store_broken",
      opened.error().detail + "; moved to " + aside + ", a new one is created.");
  return OpenOnce(options);
}

// Deletes the oldest rows while the file is full. Pages that become free are used again, so the file stays as
// large as it is.
Status IncidentStore::MakeRoom() {
  for (int round = 0; round < 1024; ++round) {
    auto pages = database_->Number("PRAGMA page_count"), unused = database_->Number("PRAGMA freelist_count");
    auto size = database_->Number("PRAGMA page_size");
    if (!pages || !unused || !size) return Failure(database_->handle, SQLITE_ERROR, options_.path);
    if (static_cast<uint64_t>((*pages - *unused) * *size) < options_.max_bytes) return Ok();
    ::sqlite3_bind_int64(database_->remove, 1, kRowsPerCleaning);
    int code = ::sqlite3_step(database_->remove);
    int removed = ::sqlite3_changes(database_->handle);
    ::sqlite3_reset(database_->remove);
    if (code != SQLITE_DONE) return Failure(database_->handle, code, options_.path);
    if (removed == 0) return Ok();
  }
  return Ok();
}

Status IncidentStore::Add(const Incident& incident) {
  RETURN_IF_ERROR(MakeRoom());
  sqlite3_stmt* row = database_->insert;
  auto text = [&](int column, std::string_view value) {
    ::sqlite3_bind_text(row, column, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
  };
  ::sqlite3_bind_int64(row, 1, incident.unix_ns);
  text(2, incident.name);
  ::sqlite3_bind_int64(row, 3, static_cast<int64_t>(incident.severity));
  if (incident.gpu_index) ::sqlite3_bind_int64(row, 4, *incident.gpu_index);
  else ::sqlite3_bind_null(row, 4);
  text(5, incident.gpu_uuid);
  text(6, incident.body);
  text(7, incident.attributes);
  if (incident.readings.empty()) ::sqlite3_bind_null(row, 8);
  else text(8, incident.readings);
  int code = ::sqlite3_step(row);
  Status status = code == SQLITE_DONE ? Ok() : Failure(database_->handle, code, options_.path);
  ::sqlite3_reset(row);
  ::sqlite3_clear_bindings(row);
  return status;
}

Result<std::vector<Incident>> IncidentStore::Find(const Filter& filter) {
  if (database_->empty) return std::vector<Incident>();
  // An index or a prefix that is not asked for matches everything.
  std::string sql = "SELECT id,unix_ns,name,severity,gpu_index,gpu_uuid,body,attributes,";
  sql += filter.readings ? "readings" : "NULL";
  sql +=
      " FROM incidents WHERE unix_ns>=?1 AND (?2='' OR name=?2) AND (?3 IS NULL OR gpu_index=?3)"
      " AND (?4='' OR substr(gpu_uuid,1,length(?4))=?4) ORDER BY unix_ns DESC, id DESC LIMIT ?5";
  sqlite3_stmt* rows = nullptr;
  int code = ::sqlite3_prepare_v2(database_->handle, sql.c_str(), -1, &rows, nullptr);
  if (code != SQLITE_OK) return Failure(database_->handle, code, options_.path);
  ::sqlite3_bind_int64(rows, 1, filter.since_unix_ns);
  ::sqlite3_bind_text(rows, 2, filter.name.c_str(), -1, SQLITE_STATIC);
  if (filter.gpu_index) ::sqlite3_bind_int64(rows, 3, *filter.gpu_index);
  ::sqlite3_bind_text(rows, 4, filter.gpu_uuid.c_str(), -1, SQLITE_STATIC);
  ::sqlite3_bind_int64(rows, 5, static_cast<int64_t>(filter.limit));
  std::vector<Incident> found;
  while ((code = ::sqlite3_step(rows)) == SQLITE_ROW) {
    Incident row;
    row.id = ::sqlite3_column_int64(rows, 0);
    row.unix_ns = ::sqlite3_column_int64(rows, 1);
    row.name = ColumnText(rows, 2);
    int64_t severity = ::sqlite3_column_int64(rows, 3);
    bool known = severity >= 0 && severity <= static_cast<int64_t>(EventSeverity::kFatal);
    row.severity = known ? static_cast<EventSeverity>(severity) : EventSeverity::kUnset;
    if (::sqlite3_column_type(rows, 4) != SQLITE_NULL) row.gpu_index = ::sqlite3_column_int64(rows, 4);
    row.gpu_uuid = ColumnText(rows, 5);
    row.body = ColumnText(rows, 6);
    row.attributes = ColumnText(rows, 7);
    row.readings = ColumnText(rows, 8);
    found.push_back(std::move(row));
  }
  Status status = code == SQLITE_DONE ? Ok() : Failure(database_->handle, code, options_.path);
  ::sqlite3_finalize(rows);
  if (!status) return status;
  return std::vector<Incident>(std::make_move_iterator(found.rbegin()),
                               std::make_move_iterator(found.rend()));
}

uint64_t IncidentStore::bytes() {
  struct stat file{};
  return ::stat(options_.path.c_str(), &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
}

}  // namespace gpulens
