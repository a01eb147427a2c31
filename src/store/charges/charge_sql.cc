#include "store/charges/charge_sql.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "store/clickhouse/clickhouse.h"
#include "store/sqlite/sqlite.h"

namespace gpulens {
namespace {

constexpr std::array<std::string_view, kChargeDimensions> kChargeDimensionNames = {
    "tenant",    "key",     "provider",   "model",    "tier", "profile", "region",
    "operation", "outcome", "counted_by", "currency", "day",  "budgets"};

}  // namespace

std::string_view Name(ChargeDimension dimension) noexcept {
  return kChargeDimensionNames[static_cast<size_t>(dimension)];
}

bool Parse(std::string_view text, ChargeDimension& out) noexcept {
  const auto found = std::ranges::find(kChargeDimensionNames, text);
  if (found == kChargeDimensionNames.end()) return false;
  out = static_cast<ChargeDimension>(found - kChargeDimensionNames.begin());
  return true;
}

}  // namespace gpulens

namespace gpulens::charge_sql {
namespace {

constexpr int64_t kDayNs = 86'400'000'000'000;

// Rounds toward zero, in all engines.
std::string Divided(std::string_view what, int64_t by, Engine engine) {
  if (engine == Engine::kClickhouse) return "intDiv(" + std::string(what) + "," + std::to_string(by) + ")";
  return std::string(what) + "/" + std::to_string(by);
}

std::string SumOf(std::string_view what) { return ",coalesce(sum(" + std::string(what) + "),0)"; }

// Two columns, since a sum of pico overflows at 9.2 million.
std::string MoneySum(std::string_view what, Engine engine) {
  return SumOf(Divided(what, 1'000'000, engine)) + SumOf(std::string(what) + "%1000000");
}

std::string ColumnOf(ChargeDimension dimension, Engine engine) {
  switch (dimension) {
    case ChargeDimension::kKey: return "key_id";
    case ChargeDimension::kModel:
      return "(CASE WHEN model_answered<>'' THEN model_answered ELSE model_requested END)";
    case ChargeDimension::kDay: return Divided("settled_unix_ns", kDayNs, engine);
    default: return std::string(Name(dimension));
  }
}

// ClickHouse has several rows of an id until it merges them.
std::string From(std::string_view table, Engine engine) {
  return " FROM " + std::string(table) + (engine == Engine::kClickhouse ? " FINAL" : "");
}

std::string Number(int64_t value) {
  // -9223372036854775808 is read as the minus of a number that is none.
  return value == INT64_MIN ? "-9223372036854775807" : std::to_string(value);
}

Result<std::string> WhereSql(const ChargeQuery& query, Engine engine) {
  std::string sql = " WHERE settled_unix_ns>=" + Number(query.since_unix_ns) + " AND settled_unix_ns<" +
                    Number(query.until_unix_ns);
  for (const auto& [dimension, text] : query.where) {
    sql += " AND " + ColumnOf(dimension, engine) + "=";
    if (dimension != ChargeDimension::kDay) {
      sql += Quoted(text, engine);
      continue;
    }
    const auto day = ParseDay(text);
    if (!day) return Status{Code::kInvalidArgument, "not a day such as 2026-11-26: " + Printable(text)};
    sql += std::to_string(*day);
  }
  return sql;
}

}  // namespace

const std::vector<Column>& Columns() {
  static const std::vector<Column> columns = [] {
    std::vector<Column> found;
    Scratch scratch;
    struct Add {
      std::vector<Column>& found;
      void operator()(const char* name, std::string_view) const { found.push_back({name, Type::kText}); }
      void operator()(const char* name, int64_t) const { found.push_back({name, Type::kInt}); }
      void operator()(const char* name, std::optional<int64_t>) const {
        found.push_back({name, Type::kMaybeInt});
      }
    };
    ForEachValue(ChargeRecord(), scratch, Add{found});
    return found;
  }();
  return columns;
}

const std::string& ColumnList() {
  static const std::string list = [] {
    std::string text;
    for (const Column& column : Columns()) (text += text.empty() ? "" : ",") += column.name;
    return text;
  }();
  return list;
}

std::string DayText(int64_t day) {
  const std::chrono::year_month_day date{std::chrono::sys_days(std::chrono::days(day))};
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return text;
}

std::optional<int64_t> ParseDay(std::string_view text) noexcept {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = ParseInt<int>(text.substr(0, 4));
  const auto month = ParseInt<unsigned>(text.substr(5, 2)), day = ParseInt<unsigned>(text.substr(8, 2));
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

std::string Quoted(std::string_view text, Engine engine) {
  if (engine == Engine::kClickhouse) return clickhouse::Quoted(text);
  if (engine == Engine::kSqlite) return sqlite::Quoted(text, '\'');
  // Holds whatever standard_conforming_strings is.
  std::string quoted = " E'";
  for (char c : text) {
    if (c == '\0') continue;  // no text of PostgreSQL has one
    if (c == '\'' || c == '\\') quoted += c;
    quoted += c;
  }
  return quoted + "'";
}

Result<std::string> SumSql(const ChargeQuery& query, std::string_view table, Engine engine) {
  std::string keys;
  for (ChargeDimension by : query.by) (keys += keys.empty() ? "" : ",") += ColumnOf(by, engine);
  std::string sql = "SELECT " + keys + (keys.empty() ? "" : ",") + "count(*)";
  sql += MoneySum("list_pico", engine) + MoneySum("charged_pico", engine);
  sql += MoneySum("(CASE WHEN outcome='unsettled' THEN reserved_pico ELSE 0 END)", engine);
  for (size_t i = 0; i < kLlmClasses; ++i)
    sql += SumOf("units_" + std::string(LlmClassName(static_cast<LlmClass>(i))));
  ASSIGN_OR_RETURN(const std::string where, WhereSql(query, engine));
  sql += From(table, engine) + where;
  if (!keys.empty()) {
    sql += " GROUP BY " + keys + " LIMIT " + std::to_string(ChargeStore::kMostRows + 1);
  }
  return sql;
}

Result<std::vector<ChargeSumRow>> FinishSums(std::vector<ChargeSumRow> rows, const ChargeQuery& query) {
  if (rows.size() > ChargeStore::kMostRows)
    return Status{Code::kExhausted, "more than " + std::to_string(ChargeStore::kMostRows) +
                                        " rows: use a shorter time, or group by less"};
  if (rows.empty() && query.by.empty()) rows.emplace_back();
  std::ranges::sort(rows, {}, &ChargeSumRow::key);
  return rows;
}

std::string SpentSql(int64_t since_unix_ns, std::string_view table, Engine engine) {
  return "SELECT budgets" + MoneySum("charged_pico", engine) + From(table, engine) +
         " WHERE settled_unix_ns>=" + Number(since_unix_ns) + " AND budgets<>'' GROUP BY budgets";
}

Result<std::string> ListSql(const ChargePlace& after, size_t limit, const ChargeQuery& which,
                            std::string_view table, Engine engine) {
  ASSIGN_OR_RETURN(const std::string where, WhereSql(which, engine));
  const std::string time = Number(after.settled_unix_ns);
  return "SELECT " + ColumnList() + From(table, engine) + where + " AND settled_unix_ns>=" + time +
         " AND (settled_unix_ns>" + time + " OR request_id>" + Quoted(RequestIdText(after.id), engine) +
         ") ORDER BY settled_unix_ns,request_id LIMIT " +
         std::to_string(std::min(limit, ChargeStore::kMostBatch));
}

std::string AttemptsSql(std::span<const ChargeRecord> records, std::string_view table, Engine engine) {
  std::string sql = "SELECT request_id,number,provider,result,begin_unix_ns,duration_ns,uncertain_list_pico" +
                    From(table, engine) + " WHERE request_id IN(";
  for (const ChargeRecord& record : records)
    (sql += &record == records.data() ? "" : ",") += Quoted(RequestIdText(record.id), engine);
  return sql + ") ORDER BY request_id,number";
}

std::string IdempotentSql(std::string_view which, int64_t since_unix_ns, std::string_view table,
                          Engine engine) {
  return "SELECT key_id,idempotency,request_id,settled_unix_ns,status" + From(table, engine) +
         " WHERE idempotency<>'' AND settled_unix_ns>=" + Number(since_unix_ns) + std::string(which) +
         " ORDER BY settled_unix_ns,request_id";
}

std::string WhichIdempotent(std::string_view key, const IdempotencyHash& hash, Engine engine) {
  std::string hex;
  AppendHex(hex, {reinterpret_cast<const char*>(hash.data()), hash.size()});
  return " AND key_id=" + Quoted(key, engine) + " AND idempotency=" + Quoted(hex, engine);
}

}  // namespace gpulens::charge_sql
