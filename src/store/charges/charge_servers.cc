#include "store/charges/charge_servers.h"

#include <algorithm>

#include "base/hash.h"
#include "base/result.h"
#include "base/text.h"
#include "store/charges/charge_sql.h"
#include "store/clickhouse/clickhouse.h"
#include "store/postgres/postgres.h"

namespace gpulens {
namespace {

using charge_sql::Column;
using charge_sql::Engine;
using charge_sql::Type;

constexpr std::string_view kChargeTable = "gpulens_llm_charge", kAttemptTable = "gpulens_llm_attempt";
constexpr int64_t kTablesVersion = 1;

void AppendMember(std::string& out, std::string_view name, std::string_view text) {
  ((out += out.ends_with('{') ? "\"" : ",\"") += name) += "\":";
  AppendJsonString(out, text);
}
void AppendMember(std::string& out, std::string_view name, int64_t value) {
  (((out += out.ends_with('{') ? "\"" : ",\"") += name) += "\":") += std::to_string(value);
}
void AppendMember(std::string& out, std::string_view name, const std::optional<int64_t>& value) {
  if (value) AppendMember(out, name, *value);
}

// Records as objects of JSON, which both servers read.
struct ChargeRows {
  std::string charges, attempts;
};

ChargeRows RowsOf(std::span<const ChargeRecord> records, std::string_view between, bool certainty) {
  ChargeRows rows;
  charge_sql::Scratch scratch;
  for (const ChargeRecord& record : records) {
    if (!rows.charges.empty()) rows.charges += between;
    rows.charges += '{';
    charge_sql::ForEachValue(record, scratch, [&](const char* name, const auto& value) {
      AppendMember(rows.charges, name, value);
    });
    if (certainty)
      AppendMember(rows.charges, "certainty", int64_t{record.outcome != ChargeOutcome::kUnsettled});
    rows.charges += '}';
    int64_t number = 0;
    for (const ChargeAttempt& attempt : record.attempts) {
      if (!rows.attempts.empty()) rows.attempts += between;
      rows.attempts += '{';
      AppendMember(rows.attempts, "request_id", std::string_view(scratch.id));
      AppendMember(rows.attempts, "number", ++number);
      AppendMember(rows.attempts, "provider", std::string_view(attempt.provider));
      AppendMember(rows.attempts, "result", std::string_view(attempt.result));
      AppendMember(rows.attempts, "begin_unix_ns", attempt.begin_unix_ns);
      AppendMember(rows.attempts, "duration_ns", attempt.duration_ns);
      AppendMember(rows.attempts, "uncertain_list_pico", attempt.uncertain_list_pico);
      rows.attempts += '}';
    }
  }
  return rows;
}

// The questions of both servers. `Engine` has Query(sql, on_row).
template <class Server, Engine engine>
class QueriedCharges : public ChargeStore {
 public:
  Result<std::vector<ChargeSumRow>> Sum(const ChargeQuery& query) override {
    ASSIGN_OR_RETURN(const std::string sql, charge_sql::SumSql(query, kChargeTable, engine));
    std::vector<ChargeSumRow> rows;
    RETURN_IF_ERROR(self().Select(sql, [&](const auto& row) {
      rows.push_back(charge_sql::ReadSum(query, row));
      return Ok();
    }));
    return charge_sql::FinishSums(std::move(rows), query);
  }

  Result<std::vector<__int128>> Spent(std::span<const SpentWindow> windows) override {
    return charge_sql::SpentBy(windows, kChargeTable, engine,
                               [&](const std::string& sql, const auto& on_row) {
                                 return self().Select(sql, [&](const auto& row) {
                                   on_row(row);
                                   return Ok();
                                 });
                               });
  }

  Result<std::vector<ChargeRecord>> List(const ChargePlace& after, size_t limit,
                                         const ChargeQuery& which = {}) override {
    ASSIGN_OR_RETURN(const std::string sql, charge_sql::ListSql(after, limit, which, kChargeTable, engine));
    std::vector<ChargeRecord> records;
    const auto add = [&](const auto& row) -> Status {
      ASSIGN_OR_RETURN(ChargeRecord record, charge_sql::ReadRecord(row));
      records.push_back(std::move(record));
      return Ok();
    };
    RETURN_IF_ERROR(self().Select(sql, add));
    if (records.empty()) return records;
    RETURN_IF_ERROR(self().Select(charge_sql::AttemptsSql(records, kAttemptTable, engine),
                                  [&](const auto& row) { return charge_sql::AddAttempt(row, records); }));
    return records;
  }

  Result<std::optional<IdempotentCharge>> FindIdempotent(std::string_view key, const IdempotencyHash& hash,
                                                         int64_t since_unix_ns) override {
    ASSIGN_OR_RETURN(std::vector<IdempotentCharge> found,
                     Idempotent(charge_sql::WhichIdempotent(key, hash, engine), since_unix_ns));
    if (found.empty()) return std::optional<IdempotentCharge>();
    return std::optional(std::move(found.back()));
  }

  Result<std::vector<IdempotentCharge>> ListIdempotent(int64_t since_unix_ns) override {
    return Idempotent("", since_unix_ns);
  }

 private:
  Server& self() noexcept { return static_cast<Server&>(*this); }
  Result<std::vector<IdempotentCharge>> Idempotent(const std::string& which, int64_t since_unix_ns) {
    std::vector<IdempotentCharge> found;
    const auto add = [&](const auto& row) {
      if (IdempotentCharge one; charge_sql::ReadIdempotent(row, one)) found.push_back(std::move(one));
      return Ok();
    };
    RETURN_IF_ERROR(
        self().Select(charge_sql::IdempotentSql(which, since_unix_ns, kChargeTable, engine), add));
    return found;
  }
};

constexpr const char* kNoCharges = "the server has no charges: no proxy has written them there yet";

Status CheckVersion(int64_t version) {
  if (version <= kTablesVersion) return Ok();
  return {Code::kUnavailable,
          "the tables of charges are of a newer program: version " + std::to_string(version)};
}

class PostgresCharges final : public QueriedCharges<PostgresCharges, Engine::kPostgres> {
 public:
  explicit PostgresCharges(postgres::Connection connection) : connection_(std::move(connection)) {}

  Status Prepare() {
    const Status prepared = CreateTables();
    if (!prepared) static_cast<void>(connection_.Run("ROLLBACK"));
    return prepared;
  }

  Status CheckThere() const {
    ASSIGN_OR_RETURN(const int64_t there,
                     connection_.Number("SELECT (to_regclass('gpulens_llm_schema') IS NOT NULL)::int"));
    if (there == 0) return {Code::kUnavailable, kNoCharges};
    ASSIGN_OR_RETURN(const int64_t version,
                     connection_.Number("SELECT coalesce(max(version),0) FROM gpulens_llm_schema"));
    return CheckVersion(version);
  }

  Result<ChargeWriteCounts> Write(std::span<const ChargeRecord> records) override {
    const ChargeRows rows = RowsOf(records, ",", false);
    auto counts = Insert(rows, records.size());
    if (!counts) static_cast<void>(connection_.Run("ROLLBACK"));
    return counts;
  }

  template <class OnRow>
  Status Select(const std::string& sql, OnRow on_row) {
    ASSIGN_OR_RETURN(postgres::ResultRows rows, connection_.Query(sql));
    while (rows.Step()) RETURN_IF_ERROR(on_row(rows));
    return Ok();
  }

 private:
  static std::string TypeName(const Column& column) {
    if (column.name == "request_id") return "UUID";
    return column.type == Type::kText ? "TEXT" : "BIGINT";
  }

  Status CreateTables() {
    RETURN_IF_ERROR(connection_.Run("BEGIN"));
    RETURN_IF_ERROR(connection_.Run("SET LOCAL client_min_messages TO warning"));
    // Two programs that create a table at once would fail ("gpulchg" in ASCII).
    RETURN_IF_ERROR(connection_.Run("SELECT pg_advisory_xact_lock(29114480542836839)"));
    RETURN_IF_ERROR(
        connection_.Run("CREATE TABLE IF NOT EXISTS gpulens_llm_schema(version BIGINT NOT NULL)"));
    ASSIGN_OR_RETURN(const int64_t version,
                     connection_.Number("SELECT coalesce(max(version),0) FROM gpulens_llm_schema"));
    RETURN_IF_ERROR(CheckVersion(version));
    if (version < kTablesVersion) {
      std::string charge = "CREATE TABLE IF NOT EXISTS gpulens_llm_charge(";
      for (const Column& column : charge_sql::Columns()) {
        if (&column != &charge_sql::Columns().front()) charge += ", ";
        charge += column.name + " " + TypeName(column);
        if (column.name == "request_id") charge += " PRIMARY KEY";
        else if (column.type != Type::kMaybeInt) charge += " NOT NULL";
      }
      RETURN_IF_ERROR(connection_.Run(charge + ")"));
      RETURN_IF_ERROR(
          connection_.Run("CREATE INDEX IF NOT EXISTS gpulens_llm_charge_by_settled ON "
                          "gpulens_llm_charge(settled_unix_ns, request_id)"));
      RETURN_IF_ERROR(
          connection_.Run("CREATE INDEX IF NOT EXISTS gpulens_llm_charge_by_idempotency ON "
                          "gpulens_llm_charge(idempotency, key_id) WHERE idempotency<>''"));
      RETURN_IF_ERROR(connection_.Run(
          "CREATE TABLE IF NOT EXISTS gpulens_llm_attempt(request_id UUID NOT NULL, number BIGINT NOT NULL, "
          "provider TEXT NOT NULL, result TEXT NOT NULL, begin_unix_ns BIGINT NOT NULL, "
          "duration_ns BIGINT NOT NULL, uncertain_list_pico BIGINT NOT NULL, PRIMARY KEY(request_id, "
          "number))"));
      RETURN_IF_ERROR(connection_.Run("INSERT INTO gpulens_llm_schema(version) VALUES(" +
                                      std::to_string(kTablesVersion) + ")"));
    }
    return connection_.Run("COMMIT");
  }

  Result<ChargeWriteCounts> Insert(const ChargeRows& rows, size_t count) {
    std::string types;
    for (const Column& column : charge_sql::Columns())
      (types += types.empty() ? "" : ", ") += column.name + " " + TypeName(column);
    const std::optional<std::string> charges[] = {"[" + rows.charges + "]"};
    RETURN_IF_ERROR(connection_.Run("BEGIN"));
    ASSIGN_OR_RETURN(
        const postgres::ResultRows inserted,
        connection_.Query("INSERT INTO gpulens_llm_charge(" + charge_sql::ColumnList() + ") SELECT " +
                              charge_sql::ColumnList() + " FROM json_to_recordset($1::json) AS r(" + types +
                              ") ON CONFLICT(request_id) DO NOTHING",
                          charges));
    if (!rows.attempts.empty()) {
      const std::optional<std::string> attempts[] = {"[" + rows.attempts + "]"};
      RETURN_IF_ERROR(connection_.Run(
          "INSERT INTO gpulens_llm_attempt(request_id, number, provider, result, begin_unix_ns, duration_ns, "
          "uncertain_list_pico) SELECT request_id, number, provider, result, begin_unix_ns, duration_ns, "
          "uncertain_list_pico FROM json_to_recordset($1::json) AS r(request_id uuid, number bigint, "
          "provider text, "
          "result text, begin_unix_ns bigint, duration_ns bigint, uncertain_list_pico bigint) "
          "ON CONFLICT DO NOTHING",
          attempts));
    }
    RETURN_IF_ERROR(connection_.Run("COMMIT"));
    const uint64_t stored = std::min<uint64_t>(inserted.changes(), count);
    return ChargeWriteCounts{.stored = stored, .known = count - stored};
  }

  const postgres::Connection connection_;
};

class ClickCharges final : public QueriedCharges<ClickCharges, Engine::kClickhouse> {
 public:
  explicit ClickCharges(std::unique_ptr<clickhouse::Server> server) : server_(std::move(server)) {}

  Status Prepare() {
    std::string columns;
    std::vector<std::string> declared;
    for (const Column& column : charge_sql::Columns())
      declared.push_back(column.name + " " + TypeName(column));
    declared.emplace_back("certainty UInt8");
    for (const std::string& column : declared) (columns += columns.empty() ? "" : ", ") += column;
    RETURN_IF_ERROR(server_->Run("CREATE TABLE IF NOT EXISTS gpulens_llm_charge(" + columns +
                                 ") ENGINE=ReplacingMergeTree(certainty) ORDER BY request_id" + kRemember));
    RETURN_IF_ERROR(server_->Run(
        std::string("CREATE TABLE IF NOT EXISTS gpulens_llm_attempt(request_id String, number Int64, "
                    "provider LowCardinality(String), result LowCardinality(String), begin_unix_ns Int64, "
                    "duration_ns Int64, uncertain_list_pico Int64) ENGINE=ReplacingMergeTree "
                    "ORDER BY (request_id, number)") +
        kRemember));
    // A table of an older program lacks the last ones.
    std::string add;
    for (const std::string& column : declared)
      (add += add.empty() ? "" : ", ") += "ADD COLUMN IF NOT EXISTS " + column;
    return server_->Run("ALTER TABLE gpulens_llm_charge " + add);
  }

  Status CheckThere() const {
    ASSIGN_OR_RETURN(const std::string there, server_->Query("EXISTS TABLE gpulens_llm_charge"));
    if (Trim(there) == "1") return Ok();
    return {Code::kUnavailable, kNoCharges};
  }

  Result<ChargeWriteCounts> Write(std::span<const ChargeRecord> records) override {
    const ChargeRows rows = RowsOf(records, "\n", true);
    Sha256 sum;
    sum.Add(rows.charges);
    const std::string token = sum.Finish();
    if (!rows.attempts.empty())
      RETURN_IF_ERROR(server_->Insert("INSERT INTO gpulens_llm_attempt FORMAT JSONEachRow", rows.attempts,
                                      token + "-attempts"));
    RETURN_IF_ERROR(
        server_->Insert("INSERT INTO gpulens_llm_charge FORMAT JSONEachRow", rows.charges, token));
    return ChargeWriteCounts{.stored = records.size()};
  }

  template <class OnRow>
  Status Select(const std::string& sql, OnRow on_row) {
    clickhouse::TabRows rows;
    const auto take = [&] { return on_row(rows); };
    const auto feed = [&](std::string_view piece) { return rows.Feed(piece, take); };
    RETURN_IF_ERROR(server_->Read(sql + " FORMAT TabSeparatedWithNames", feed));
    return rows.End();
  }

 private:
  // Number of recent inserts that a table remembers, so that a repeated one is not stored again.
  static constexpr const char* kRemember = " SETTINGS non_replicated_deduplication_window=1000";

  static std::string TypeName(const Column& column) {
    constexpr std::string_view kFew[] = {
        "key_id", "tenant",   "budgets", "profile",    "region",   "api",           "operation",
        "tier",   "provider", "outcome", "counted_by", "currency", "price_version", "model_answered"};
    if (column.type == Type::kInt) return "Int64";
    if (column.type == Type::kMaybeInt) return "Nullable(Int64)";
    return std::ranges::find(kFew, column.name) != std::end(kFew) ? "LowCardinality(String)" : "String";
  }

  const std::unique_ptr<clickhouse::Server> server_;
};

}  // namespace

bool IsChargeServer(std::string_view url) noexcept { return postgres::IsUrl(url) || clickhouse::IsUrl(url); }

Result<std::unique_ptr<ChargeStore>> OpenChargeServer(const std::string& url, ChargeAccess access) {
  const auto opened = [access](auto store) -> Result<std::unique_ptr<ChargeStore>> {
    RETURN_IF_ERROR(access == ChargeAccess::kWrite ? store->Prepare() : store->CheckThere());
    return std::unique_ptr<ChargeStore>(std::move(store));
  };
  if (clickhouse::IsUrl(url)) {
    ASSIGN_OR_RETURN(auto server, clickhouse::Server::Open(url));
    return opened(std::make_unique<ClickCharges>(std::move(server)));
  }
  ASSIGN_OR_RETURN(auto connection, postgres::Connection::Open(url));
  return opened(std::make_unique<PostgresCharges>(std::move(connection)));
}

}  // namespace gpulens
