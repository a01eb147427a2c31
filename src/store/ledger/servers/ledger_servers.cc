#include "store/ledger/servers/ledger_servers.h"

#include <array>
#include <map>
#include <optional>

#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "store/clickhouse/clickhouse.h"
#include "store/postgres/postgres.h"

namespace gpulens::ledger {
namespace {

constexpr std::array<std::string_view, 14> kTextColumns = {
    "gpu",     "slice",     "energy_state", "compute_state", "cause",  "request_class", "method",
    "process", "namespace", "pod",          "job",           "tenant", "engine",        "model"};
constexpr std::array<std::string_view, 10> kAmountColumns = {
    "energy_uj",        "time_ms",   "cost_allocation_pico", "cost_usage_pico", "priced_ms",
    "electricity_pico", "carbon_ng", "carbon_known_uj",      "unmetered_ms",    "tokens"};

std::array<std::string_view, 14> TextsOf(const Account& account) {
  const Owner& owner = account.owner;
  return {account.gpu,
          account.slice,
          Name(account.energy_state),
          Name(account.compute_state),
          Name(account.cause),
          Name(account.request_class),
          Name(account.method),
          owner.process,
          owner.name_space,
          owner.pod,
          owner.job,
          owner.tenant,
          owner.engine,
          owner.model};
}

std::array<int64_t, 10> NumbersOf(const Amounts& amounts) {
  return {amounts.energy_uj,       amounts.time_ms,         amounts.cost_allocation_pico,
          amounts.cost_usage_pico, amounts.priced_ms,       amounts.electricity_pico,
          amounts.carbon_ng,       amounts.carbon_known_uj, amounts.unmetered_ms,
          amounts.tokens};
}

// The same for the same account in every file and version: its texts, each with its length before it.
std::string AccountKey(const Account& account) {
  Sha256 hash;
  for (std::string_view text : TextsOf(account)) {
    hash.Add(std::to_string(text.size()) + ":");
    hash.Add(text);
  }
  return hash.Finish();
}

// "2026-11-26 14:00:00", in UTC.
std::string TimeOfServer(int64_t unix_seconds) {
  std::string text = TimeText(unix_seconds);
  text[10] = ' ';
  text.pop_back();
  return text;
}

// Entries of one hour as objects of JSON, which both servers read.
struct HourRows {
  std::string json;
  uint64_t count = 0;
};

// `common(out)` appends members that all rows have, `between` is put between rows.
template <class Common>
Result<HourRows> RowsOf(LedgerFile& ledger, int64_t hour_unix, std::string_view between, Common common) {
  HourRows rows;
  std::string& out = rows.json;
  const Status status = ledger.ForEach(hour_unix, hour_unix + 3600, [&](const HourEntry& entry) {
    if (rows.count++ > 0) out += between;
    out += "{\"for_hour\":\"" + TimeOfServer(entry.for_hour_unix == 0 ? hour_unix : entry.for_hour_unix) +
           "\",\"account\":\"" + AccountKey(*entry.account) + '"';
    common(out);
    const auto texts = TextsOf(*entry.account);
    for (size_t i = 0; i < texts.size(); ++i) {
      ((out += ",\"") += kTextColumns[i]) += "\":";
      AppendJsonString(out, texts[i]);
    }
    const auto numbers = NumbersOf(entry.amounts);
    for (size_t i = 0; i < numbers.size(); ++i)
      ((out += ",\"") += kAmountColumns[i]) += "\":" + std::to_string(numbers[i]);
    out += '}';
    return Ok();
  });
  if (!status) return status;
  return rows;
}

// What the two servers differ in.
class Destination {
 public:
  virtual ~Destination() = default;
  virtual Status Prepare() = 0;
  virtual Result<std::map<int64_t, int64_t>> Revisions() = 0;  // by hour, that the server has
  virtual Result<uint64_t> Copy(LedgerFile& ledger, LedgerFile::Hour hour) = 0;  // returns the entries
};

class PostgresLedger final : public Destination {
 public:
  PostgresLedger(postgres::Connection connection, LedgerFile& ledger)
      : connection_(std::move(connection)), id_(ledger.id()), host_(ledger.host()) {}

  Status Prepare() override {
    std::string entry =
        "CREATE TABLE IF NOT EXISTS gpulens_ledger_entry(ledger TEXT NOT NULL, host TEXT NOT NULL, "
        "hour TIMESTAMPTZ NOT NULL, for_hour TIMESTAMPTZ NOT NULL, account TEXT NOT NULL";
    for (std::string_view name : kTextColumns) entry += ", " + std::string(name) + " TEXT NOT NULL";
    for (std::string_view name : kAmountColumns) entry += ", " + std::string(name) + " BIGINT NOT NULL";
    RETURN_IF_ERROR(connection_.Run("BEGIN"));
    RETURN_IF_ERROR(connection_.Run("SET LOCAL client_min_messages TO warning"));
    // Two programs that create a table at once would fail ("gpuledg" in ASCII).
    RETURN_IF_ERROR(connection_.Run("SELECT pg_advisory_xact_lock(29114480543098215)"));
    RETURN_IF_ERROR(connection_.Run(entry + ", PRIMARY KEY(ledger, hour, for_hour, account))"));
    RETURN_IF_ERROR(connection_.Run(
        "CREATE TABLE IF NOT EXISTS gpulens_ledger_hour(ledger TEXT NOT NULL, host TEXT NOT NULL, "
        "hour TIMESTAMPTZ NOT NULL, revision BIGINT NOT NULL, entries BIGINT NOT NULL, "
        "PRIMARY KEY(ledger, hour))"));
    RETURN_IF_ERROR(connection_.Run(
        "CREATE INDEX IF NOT EXISTS gpulens_ledger_entry_by_hour ON gpulens_ledger_entry(hour)"));
    return connection_.Run("COMMIT");
  }

  Result<std::map<int64_t, int64_t>> Revisions() override {
    const std::optional<std::string> values[] = {id_};
    ASSIGN_OR_RETURN(postgres::ResultRows rows,
                     connection_.Query("SELECT extract(epoch FROM hour)::bigint, revision FROM "
                                       "gpulens_ledger_hour WHERE ledger=$1",
                                       values));
    std::map<int64_t, int64_t> revisions;
    while (rows.Step()) revisions[rows.Int(0)] = rows.Int(1);
    return revisions;
  }

  Result<uint64_t> Copy(LedgerFile& ledger, LedgerFile::Hour hour) override {
    ASSIGN_OR_RETURN(const HourRows rows, RowsOf(ledger, hour.hour_unix, ",", [](std::string&) {}));
    const Status status = Replace(rows, hour);
    if (!status) static_cast<void>(connection_.Run("ROLLBACK"));
    if (!status) return status;
    return rows.count;
  }

 private:
  Status Replace(const HourRows& rows, LedgerFile::Hour hour) {
    const std::string at = TimeText(hour.hour_unix);
    const std::optional<std::string> key[] = {id_, at};
    const std::optional<std::string> entries[] = {id_, at, host_, "[" + rows.json + "]"};
    const std::optional<std::string> revision[] = {id_, at, host_, std::to_string(hour.revision),
                                                   std::to_string(rows.count)};
    RETURN_IF_ERROR(connection_.Run("BEGIN"));
    RETURN_IF_ERROR(connection_.Run("SET LOCAL timezone TO 'UTC'"));
    RETURN_IF_ERROR(connection_.Run("SELECT pg_advisory_xact_lock(29114480543098215)"));
    RETURN_IF_ERROR(
        connection_.Run("DELETE FROM gpulens_ledger_entry WHERE ledger=$1 AND hour=$2::timestamptz", key));
    std::string columns, types;
    for (std::string_view name : kTextColumns)
      (columns += ", ") += name, (types += ", ") += name, types += " text";
    for (std::string_view name : kAmountColumns)
      (columns += ", ") += name, (types += ", ") += name, types += " bigint";
    RETURN_IF_ERROR(connection_.Run(
        "INSERT INTO gpulens_ledger_entry(ledger, host, hour, for_hour, account" + columns +
            ") SELECT $1, $3, $2::timestamptz, for_hour, account" + columns +
            " FROM json_to_recordset($4::json) AS r(for_hour timestamptz, account text" + types + ")",
        entries));
    RETURN_IF_ERROR(connection_.Run(
        "INSERT INTO gpulens_ledger_hour(ledger, hour, host, revision, entries) "
        "VALUES($1, $2::timestamptz, $3, $4::bigint, $5::bigint) ON CONFLICT(ledger, hour) DO UPDATE SET "
        "host=excluded.host, revision=excluded.revision, entries=excluded.entries",
        revision));
    return connection_.Run("COMMIT");
  }

  const postgres::Connection connection_;
  const std::string id_, host_;
};

class ClickLedger final : public Destination {
 public:
  ClickLedger(std::unique_ptr<clickhouse::Server> server, LedgerFile& ledger)
      : server_(std::move(server)), id_(ledger.id()), host_(ledger.host()) {}

  Status Prepare() override {
    std::string entry =
        "CREATE TABLE IF NOT EXISTS gpulens_ledger_entry(ledger String, host LowCardinality(String), "
        "hour DateTime('UTC'), for_hour DateTime('UTC'), account String, revision UInt64";
    for (std::string_view name : kTextColumns) entry += ", " + std::string(name) + " LowCardinality(String)";
    for (std::string_view name : kAmountColumns) entry += ", " + std::string(name) + " Int64";
    RETURN_IF_ERROR(server_->Run(entry + ") ENGINE=ReplacingMergeTree(revision) PARTITION BY toYYYYMM(hour) "
                                         "ORDER BY (ledger, hour, for_hour, account)"));
    return server_->Run(
        "CREATE TABLE IF NOT EXISTS gpulens_ledger_hour(ledger String, host LowCardinality(String), "
        "hour DateTime('UTC'), revision UInt64, entries UInt64) ENGINE=ReplacingMergeTree(revision) "
        "ORDER BY (ledger, hour)");
  }

  Result<std::map<int64_t, int64_t>> Revisions() override {
    std::map<int64_t, int64_t> revisions;
    clickhouse::TabRows rows;
    const auto take = [&]() -> Status {
      revisions[rows.Int(0)] = rows.Int(1);
      return Ok();
    };
    const auto feed = [&](std::string_view piece) { return rows.Feed(piece, take); };
    RETURN_IF_ERROR(
        server_->Read("SELECT toInt64(toUnixTimestamp(hour)), toInt64(max(revision)) FROM "
                      "gpulens_ledger_hour WHERE ledger=" +
                          clickhouse::Quoted(id_) + " GROUP BY hour FORMAT TabSeparatedWithNames",
                      feed));
    RETURN_IF_ERROR(rows.End());
    return revisions;
  }

  // The entries first: after a failure in between they are copied again, and the same.
  Result<uint64_t> Copy(LedgerFile& ledger, LedgerFile::Hour hour) override {
    std::string common = ",\"ledger\":\"" + id_ + "\",\"host\":";
    AppendJsonString(common, host_);
    common +=
        ",\"hour\":\"" + TimeOfServer(hour.hour_unix) + "\",\"revision\":" + std::to_string(hour.revision);
    ASSIGN_OR_RETURN(const HourRows rows,
                     RowsOf(ledger, hour.hour_unix, "\n", [&](std::string& out) { out += common; }));
    const std::string token =
        id_ + "-" + std::to_string(hour.hour_unix) + "-" + std::to_string(hour.revision);
    RETURN_IF_ERROR(server_->Insert("INSERT INTO gpulens_ledger_entry FORMAT JSONEachRow", rows.json,
                                    token + "-entries"));
    std::string row = "{\"entries\":" + std::to_string(rows.count) + common + "}";
    RETURN_IF_ERROR(server_->Insert("INSERT INTO gpulens_ledger_hour FORMAT JSONEachRow", row, token));
    return rows.count;
  }

 private:
  const std::unique_ptr<clickhouse::Server> server_;
  const std::string id_, host_;
};

Result<std::unique_ptr<Destination>> Open(LedgerFile& ledger, const std::string& url) {
  std::unique_ptr<Destination> destination;
  if (clickhouse::IsUrl(url)) {
    ASSIGN_OR_RETURN(auto server, clickhouse::Server::Open(url));
    destination = std::make_unique<ClickLedger>(std::move(server), ledger);
  } else {
    ASSIGN_OR_RETURN(auto connection, postgres::Connection::Open(url));
    destination = std::make_unique<PostgresLedger>(std::move(connection), ledger);
  }
  return destination;
}

}  // namespace

bool IsLedgerServer(std::string_view url) noexcept { return postgres::IsUrl(url) || clickhouse::IsUrl(url); }

Result<PushCounts> PushLedger(LedgerFile& ledger, const std::string& url, int64_t since_unix,
                              int64_t until_unix) {
  ASSIGN_OR_RETURN(const auto hours, ledger.Hours(since_unix, until_unix));
  ASSIGN_OR_RETURN(const auto destination, Open(ledger, url));
  RETURN_IF_ERROR(destination->Prepare());
  ASSIGN_OR_RETURN(const auto revisions, destination->Revisions());
  PushCounts counts;
  for (const LedgerFile::Hour& hour : hours) {
    const auto there = revisions.find(hour.hour_unix);
    if (there != revisions.end() && there->second == hour.revision) {
      ++counts.unchanged;
      continue;
    }
    ASSIGN_OR_RETURN(const uint64_t entries, destination->Copy(ledger, hour));
    ++counts.hours;
    counts.entries += entries;
  }
  return counts;
}

}  // namespace gpulens::ledger
