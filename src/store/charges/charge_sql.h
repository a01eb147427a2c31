// Rows and statements of the stores of charges, which SQLite, PostgreSQL and ClickHouse read alike. Internal
// to this folder.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "store/charges/charge_store.h"

namespace gpulens::charge_sql {

enum class Engine : uint8_t { kSqlite, kPostgres, kClickhouse };

// Calls visit(name, value) for each column of a record: a string_view, an int64_t or an optional of it. Texts
// live until the next call with the same scratch.
struct Scratch {
  std::string id, budgets, idempotency;
  std::string unit_names[kLlmClasses];
};
template <class Visit>
void ForEachValue(const ChargeRecord& record, Scratch& scratch, Visit&& visit) {
  struct Flat {
    Scratch& scratch;
    Visit& visit;

    void operator()(const char* name, const RequestId& id) const {
      visit(name, std::string_view(scratch.id = RequestIdText(id)));
    }
    void operator()(const char* name, int64_t value) const { visit(name, value); }
    void operator()(const char* name, const std::optional<int64_t>& value) const { visit(name, value); }
    void operator()(const char* name, const std::string& text) const { visit(name, std::string_view(text)); }
    void operator()(const char* name, const std::vector<std::string>& budgets) const {
      visit(name, std::string_view(scratch.budgets = BudgetsText(budgets)));
    }
    void operator()(const char* name, ChargeOutcome outcome) const { visit(name, Name(outcome)); }
    void operator()(const char* name, CountedBy by) const { visit(name, Name(by)); }
    void operator()(const char*, const LlmUsage& usage) const {
      for (size_t i = 0; i < kLlmClasses; ++i) {
        std::string& name = scratch.unit_names[i];
        if (name.empty()) (name = "units_") += LlmClassName(static_cast<LlmClass>(i));
        visit(name.c_str(), usage.units[i]);
      }
      visit("usage_known", UsageBits(usage));
    }
    void operator()(const char* name, const std::optional<IdempotencyHash>& hash) const {
      scratch.idempotency.clear();
      if (hash) AppendHex(scratch.idempotency, {reinterpret_cast<const char*>(hash->data()), hash->size()});
      visit(name, std::string_view(scratch.idempotency));
    }
  };
  ForEachChargeField(record, Flat{scratch, visit});
}

inline bool ParseHash(std::string_view hex, IdempotencyHash& out) noexcept {
  return FromHex(hex, reinterpret_cast<char*>(out.data()), out.size());
}

// Reads the columns of ForEachValue, in that order from column 0. kDataLoss: no row of ours.
template <class Rows>
Result<ChargeRecord> ReadRecord(const Rows& row) {
  struct Fill {
    const Rows& row;
    int at = 0;
    bool good = true;

    void operator()(const char*, RequestId& id) { good &= ParseRequestId(row.Text(at++), id); }
    void operator()(const char*, int64_t& value) { value = row.Int(at++); }
    void operator()(const char*, std::optional<int64_t>& value) { value = row.MaybeInt(at++); }
    void operator()(const char*, std::string& text) { text = row.Text(at++); }
    void operator()(const char*, std::vector<std::string>& budgets) {
      budgets = ParseBudgets(row.Text(at++));
    }
    void operator()(const char*, ChargeOutcome& outcome) { good &= Parse(row.Text(at++), outcome); }
    void operator()(const char*, CountedBy& by) { good &= Parse(row.Text(at++), by); }
    void operator()(const char*, LlmUsage& usage) {
      for (int64_t& units : usage.units) units = row.Int(at++);
      SetUsageBits(usage, row.Int(at++));
    }
    void operator()(const char*, std::optional<IdempotencyHash>& hash) {
      IdempotencyHash found;
      if (ParseHash(row.Text(at++), found)) hash = found;
      else hash.reset();
    }
  };
  ChargeRecord record;
  Fill fill{row};
  ForEachChargeField(record, fill);
  if (!fill.good) return Status{Code::kDataLoss, "a charge has an id, an outcome or a mark of no charge"};
  return record;
}

enum class Type : uint8_t { kText, kInt, kMaybeInt };
struct Column {
  std::string name;
  Type type;
};
const std::vector<Column>& Columns();
// "request_id,dispatch_unix_ns,…".
const std::string& ColumnList();
// "2026-11-26" of days since 1970, and back.
std::string DayText(int64_t day);
std::optional<int64_t> ParseDay(std::string_view text) noexcept;

std::string Quoted(std::string_view text, Engine engine);

// Columns: `by`, then those that AddSums reads. kInvalidArgument: a day that is none.
Result<std::string> SumSql(const ChargeQuery& query, std::string_view table, Engine engine);
template <class Rows>
ChargeSumRow ReadSum(const ChargeQuery& query, const Rows& row) {
  ChargeSumRow out;
  int at = 0;
  for (ChargeDimension by : query.by) {
    if (by == ChargeDimension::kDay) out.key.push_back(DayText(row.Int(at++)));
    else out.key.emplace_back(row.Text(at++));
  }
  const auto money = [&] {
    const __int128 micros = row.Int(at++);
    return micros * 1'000'000 + row.Int(at++);
  };
  out.sums.requests = row.Int(at++);
  out.sums.list_pico = money();
  out.sums.charged_pico = money();
  out.sums.reserved_unsettled_pico = money();
  for (int64_t& units : out.sums.units) units = row.Int(at++);
  return out;
}
// Sorts by key; one row of zeros where nothing is grouped and none came. kExhausted above kMostRows.
Result<std::vector<ChargeSumRow>> FinishSums(std::vector<ChargeSumRow> rows, const ChargeQuery& query);

// Columns: budgets, micros, pico.
std::string SpentSql(int64_t since_unix_ns, std::string_view table, Engine engine);
// Calls query(sql, on_row) once for each time; on_row gets a row of the columns above.
template <class RunQuery>
Result<std::vector<__int128>> SpentBy(std::span<const SpentWindow> windows, std::string_view table,
                                      Engine engine, RunQuery run) {
  std::vector<__int128> spent(windows.size());
  std::vector<bool> done(windows.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    if (done[i]) continue;
    const int64_t since = windows[i].since_unix_ns;
    for (size_t j = i; j < windows.size(); ++j) done[j] = done[j] || windows[j].since_unix_ns == since;
    RETURN_IF_ERROR(run(SpentSql(since, table, engine), [&](const auto& row) {
      const __int128 pico = static_cast<__int128>(row.Int(1)) * 1'000'000 + row.Int(2);
      std::string_view rest = row.Text(0);
      while (!rest.empty()) {
        const std::string_view name = TakeUntil(rest, '\n');
        for (size_t j = i; j < windows.size(); ++j)
          if (windows[j].since_unix_ns == since && windows[j].budget == name) spent[j] += pico;
      }
    }));
  }
  return spent;
}

// kInvalidArgument: a day that is none.
Result<std::string> ListSql(const ChargePlace& after, size_t limit, const ChargeQuery& which,
                            std::string_view table, Engine engine);
// Columns: request_id, number, provider, result, begin_unix_ns, duration_ns, uncertain_list_pico. `records`
// are not empty.
std::string AttemptsSql(std::span<const ChargeRecord> records, std::string_view table, Engine engine);
// Adds an attempt to its record. Rows come by id and number.
template <class Rows>
Status AddAttempt(const Rows& row, std::span<ChargeRecord> records) {
  RequestId id;
  if (!ParseRequestId(row.Text(0), id)) return {Code::kDataLoss, "an attempt has an id of no request"};
  for (ChargeRecord& record : records) {
    if (record.id != id || record.attempts.size() >= kMostAttempts) continue;
    record.attempts.push_back(
        {std::string(row.Text(2)), std::string(row.Text(3)), row.Int(4), row.Int(5), row.Int(6)});
  }
  return Ok();
}

// Columns: key_id, idempotency, request_id, settled_unix_ns, status; the oldest first. An empty `which` lists
// all.
std::string IdempotentSql(std::string_view which, int64_t since_unix_ns, std::string_view table,
                          Engine engine);
std::string WhichIdempotent(std::string_view key, const IdempotencyHash& hash, Engine engine);
template <class Rows>
bool ReadIdempotent(const Rows& row, IdempotentCharge& out) {
  out.key = row.Text(0);
  out.settled_unix_ns = row.Int(3);
  out.status = row.Int(4);
  return ParseHash(row.Text(1), out.hash) && ParseRequestId(row.Text(2), out.id);
}

}  // namespace gpulens::charge_sql
