#include "store/charges/charge_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "base/files.h"
#include "base/result.h"
#include "store/charges/charge_sql.h"

namespace gpulens {
namespace {

using charge_sql::Engine;

constexpr int32_t kChargeApplicationId = 0x67706c63;  // "gplc"
constexpr unsigned kChargeMode = 0600;
constexpr int64_t kForgetNs = 3'600'000'000'000;  // rows of an hour go with one Write: bounds the transaction

// A column that is added to ForEachChargeField, and a class that is added to LlmClass, needs a step here.
static_assert(kLlmClasses == 21);
constexpr const char* kChargeSteps[] = {
    "CREATE TABLE llm_charge("
    "request_id TEXT NOT NULL UNIQUE, dispatch_unix_ns INTEGER NOT NULL, "
    "settled_unix_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL, ttft_ns INTEGER, "
    "itl_sum_ns INTEGER NOT NULL, itl_count INTEGER NOT NULL, key_id TEXT NOT NULL, "
    "tenant TEXT NOT NULL, budgets TEXT NOT NULL, profile TEXT NOT NULL, "
    "region TEXT NOT NULL, provider TEXT NOT NULL, model_requested TEXT NOT NULL, "
    "model_answered TEXT NOT NULL, api TEXT NOT NULL, operation TEXT NOT NULL, "
    "tier TEXT NOT NULL, status INTEGER NOT NULL, outcome TEXT NOT NULL, "
    "counted_by TEXT NOT NULL, units_input INTEGER NOT NULL, "
    "units_input_cached INTEGER NOT NULL, units_input_write_5m INTEGER NOT NULL, "
    "units_input_write_long INTEGER NOT NULL, units_input_audio INTEGER NOT NULL, "
    "units_input_audio_cached INTEGER NOT NULL, units_input_image INTEGER NOT NULL, "
    "units_input_video INTEGER NOT NULL, units_input_tool INTEGER NOT NULL, "
    "units_output INTEGER NOT NULL, units_output_reasoning INTEGER NOT NULL, "
    "units_output_audio INTEGER NOT NULL, units_output_image INTEGER NOT NULL, "
    "units_web_searches INTEGER NOT NULL, units_web_fetches INTEGER NOT NULL, "
    "units_pages INTEGER NOT NULL, units_milliseconds INTEGER NOT NULL, "
    "units_characters INTEGER NOT NULL, units_images INTEGER NOT NULL, "
    "units_queries INTEGER NOT NULL, units_requests INTEGER NOT NULL, "
    "usage_known INTEGER NOT NULL, list_pico INTEGER NOT NULL, "
    "charged_pico INTEGER NOT NULL, reserved_pico INTEGER NOT NULL, currency TEXT NOT NULL, "
    "price_version TEXT NOT NULL, price_row INTEGER NOT NULL, idempotency TEXT NOT NULL, "
    "upstream_request_id TEXT NOT NULL, retries INTEGER NOT NULL, events INTEGER NOT NULL, "
    "answer_bytes INTEGER NOT NULL);"
    "CREATE INDEX llm_charge_by_settled ON llm_charge(settled_unix_ns, budgets, charged_pico);"
    "CREATE INDEX llm_charge_by_idempotency ON llm_charge(idempotency, key_id) WHERE idempotency<>'';"
    "CREATE TABLE llm_attempt(request_id TEXT NOT NULL, number INTEGER NOT NULL, provider TEXT NOT NULL,"
    "  result TEXT NOT NULL, begin_unix_ns INTEGER NOT NULL, duration_ns INTEGER NOT NULL,"
    "  uncertain_list_pico INTEGER NOT NULL, PRIMARY KEY(request_id, number)) WITHOUT ROWID;"};
constexpr sqlite::Schema kChargeSchema{
    .application_id = kChargeApplicationId, .steps = kChargeSteps, .count = std::size(kChargeSteps)};

Status CheckIsChargeFile(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(const int64_t tables, database.Number("SELECT count(*) FROM sqlite_master"));
  ASSIGN_OR_RETURN(const int64_t application, database.Number("PRAGMA application_id"));
  if (tables == 0 || application == kChargeApplicationId) return Ok();
  return {Code::kDataLoss, database.path() + " is not a file of charges"};
}

std::string InsertSql() {
  std::string sql = "INSERT OR IGNORE INTO llm_charge(" + charge_sql::ColumnList() + ") VALUES(";
  for (size_t i = 0; i < charge_sql::Columns().size(); ++i) sql += i == 0 ? "?" : ",?";
  return sql + ")";
}

// With the path in front.
Status OfFile(const std::string& path, Status status) {
  if (!status && status.detail.find(path) == std::string::npos) status.detail = path + ": " + status.detail;
  return status;
}

}  // namespace

Result<std::unique_ptr<ChargeFile>> ChargeFile::Open(const Options& options) {
  UniqueFd lock;
  if (!options.read_only) {
    if (options.create) RETURN_IF_ERROR(MakeFoldersAbove(options.path));
    const std::string lock_path = options.path + ".lock";
    lock.reset(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kChargeMode));
    if (!lock) return ErrnoStatus("open " + lock_path, errno);
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus("lock " + lock_path, errno);
      return Status{Code::kUnavailable, "another program writes " + options.path};
    }
  }
  ASSIGN_OR_RETURN(sqlite::Database database, sqlite::Database::Open({.path = options.path,
                                                                      .read_only = options.read_only,
                                                                      .create = options.create,
                                                                      .mode = kChargeMode,
                                                                      .cache_kib = 2048,
                                                                      .durable = options.durable,
                                                                      .triggers = false,
                                                                      .longest = options.longest,
                                                                      .bound_memory = options.read_only}));
  std::unique_ptr<ChargeFile> file(new ChargeFile(std::move(database), options));
  const sqlite::Database& opened = file->database_;
  RETURN_IF_ERROR(CheckIsChargeFile(opened));
  if (!options.read_only) RETURN_IF_ERROR(OfFile(options.path, sqlite::BringUpToDate(opened, kChargeSchema)));
  ASSIGN_OR_RETURN(const int64_t version, sqlite::CheckVersion(opened, kChargeSchema));
  if (version < kChargeSchema.count)
    return Status{Code::kUnavailable,
                  options.path + " is empty or of an older program: nothing was written yet"};
  if (!options.read_only) {
    ASSIGN_OR_RETURN(file->insert_, opened.Prepare(InsertSql()));
    ASSIGN_OR_RETURN(file->insert_attempt_,
                     opened.Prepare("INSERT OR IGNORE INTO llm_attempt VALUES(?,?,?,?,?,?,?)"));
  }
  file->lock_ = std::move(lock);
  return file;
}

Result<ChargeWriteCounts> ChargeFile::Write(std::span<const ChargeRecord> records) {
  ChargeWriteCounts counts;
  database_.Restart();
  ASSIGN_OR_RETURN(sqlite::Transaction change, sqlite::Transaction::Begin(database_));
  charge_sql::Scratch scratch;
  for (const ChargeRecord& record : records) {
    int parameter = 0;
    charge_sql::ForEachValue(record, scratch,
                             [&](const char*, const auto& value) { insert_.Bind(++parameter, value); });
    RETURN_IF_ERROR(insert_.Execute());
    if (database_.changes() == 0) {
      ++counts.known;
      continue;
    }
    ++counts.stored;
    int64_t number = 0;
    for (const ChargeAttempt& attempt : record.attempts) {
      RETURN_IF_ERROR(insert_attempt_
                          .BindAll(std::string_view(scratch.id), ++number, std::string_view(attempt.provider),
                                   std::string_view(attempt.result), attempt.begin_unix_ns,
                                   attempt.duration_ns, attempt.uncertain_list_pico)
                          .Execute());
    }
  }
  RETURN_IF_ERROR(Forget());
  RETURN_IF_ERROR(change.Commit());
  return counts;
}

Status ChargeFile::Forget() {
  if (options_.retention.count() <= 0) return Ok();
  const int64_t before = options_.clock->Now().unix_ns - options_.retention.count();
  ASSIGN_OR_RETURN(
      const int64_t oldest,
      database_.Number("SELECT coalesce(min(settled_unix_ns),9223372036854775807) FROM llm_charge"));
  if (oldest >= before) return Ok();
  const int64_t end = std::min(before, oldest + kForgetNs);
  RETURN_IF_ERROR(
      database_.Execute("DELETE FROM llm_attempt WHERE request_id IN(SELECT request_id FROM llm_charge "
                        "WHERE settled_unix_ns<?)",
                        end));
  return database_.Execute("DELETE FROM llm_charge WHERE settled_unix_ns<?", end);
}

Result<std::vector<ChargeSumRow>> ChargeFile::Sum(const ChargeQuery& query) {
  ASSIGN_OR_RETURN(const std::string sql, charge_sql::SumSql(query, "llm_charge", Engine::kSqlite));
  ASSIGN_OR_RETURN(sqlite::Statement row, database_.Prepare(sql));
  std::vector<ChargeSumRow> rows;
  RETURN_IF_ERROR(row.Each([&] { rows.push_back(charge_sql::ReadSum(query, row)); }));
  return charge_sql::FinishSums(std::move(rows), query);
}

Result<std::vector<__int128>> ChargeFile::Spent(std::span<const SpentWindow> windows) {
  return charge_sql::SpentBy(windows, "llm_charge", Engine::kSqlite,
                             [&](const std::string& sql, const auto& on_row) -> Status {
                               ASSIGN_OR_RETURN(sqlite::Statement row, database_.Prepare(sql));
                               return row.Each([&] { on_row(row); });
                             });
}

Result<std::vector<ChargeRecord>> ChargeFile::List(const ChargePlace& after, size_t limit,
                                                   const ChargeQuery& which) {
  ASSIGN_OR_RETURN(const std::string sql,
                   charge_sql::ListSql(after, limit, which, "llm_charge", Engine::kSqlite));
  ASSIGN_OR_RETURN(sqlite::Statement row, database_.Prepare(sql));
  std::vector<ChargeRecord> records;
  RETURN_IF_ERROR(row.Each([&]() -> Status {
    auto record = charge_sql::ReadRecord(row);
    if (!record) return OfFile(options_.path, record.error());
    records.push_back(*std::move(record));
    return Ok();
  }));
  if (records.empty()) return records;
  ASSIGN_OR_RETURN(sqlite::Statement attempt,
                   database_.Prepare(charge_sql::AttemptsSql(records, "llm_attempt", Engine::kSqlite)));
  RETURN_IF_ERROR(attempt.Each([&] { return charge_sql::AddAttempt(attempt, records); }));
  return records;
}

Result<std::optional<IdempotentCharge>> ChargeFile::FindIdempotent(std::string_view key,
                                                                   const IdempotencyHash& hash,
                                                                   int64_t since_unix_ns) {
  ASSIGN_OR_RETURN(sqlite::Statement row, database_.Prepare(charge_sql::IdempotentSql(
                                              charge_sql::WhichIdempotent(key, hash, Engine::kSqlite),
                                              since_unix_ns, "llm_charge", Engine::kSqlite)));
  std::optional<IdempotentCharge> found;
  RETURN_IF_ERROR(row.Each([&] {
    if (IdempotentCharge one; charge_sql::ReadIdempotent(row, one)) found = std::move(one);
  }));
  return found;
}

Result<std::vector<IdempotentCharge>> ChargeFile::ListIdempotent(int64_t since_unix_ns) {
  ASSIGN_OR_RETURN(sqlite::Statement row, database_.Prepare(charge_sql::IdempotentSql(
                                              "", since_unix_ns, "llm_charge", Engine::kSqlite)));
  std::vector<IdempotentCharge> found;
  RETURN_IF_ERROR(row.Each([&] {
    if (IdempotentCharge one; charge_sql::ReadIdempotent(row, one)) found.push_back(std::move(one));
  }));
  return found;
}

}  // namespace gpulens
