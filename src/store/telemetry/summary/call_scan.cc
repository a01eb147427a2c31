#include "store/telemetry/summary/call_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/result.h"

namespace gpulens::telemetry {
namespace {

// Whole spans within [from, to), and narrower ones at both ends.
void Cover(std::vector<Plan::Rollups>& out, size_t level, int64_t widest, int64_t from, int64_t to) {
  if (level == kSpans.size() || from >= to) return;
  const int64_t span = kSpans[level];
  const int64_t first = (from + span - 1) / span * span, end = to / span * span;
  if (span > widest || first >= end) return Cover(out, level + 1, widest, from, to);
  Cover(out, level + 1, widest, from, first);
  out.push_back({span, first, end});
  Cover(out, level + 1, widest, end, to);
}

using Names = std::set<std::string, std::less<>>;

Result<Names> ColumnsOf(const sqlite::Database& database) {
  ASSIGN_OR_RETURN(sqlite::Statement none, database.Prepare("SELECT * FROM telemetry LIMIT 0"));
  Names columns;
  for (int i = 0; i < none.columns(); ++i) columns.emplace(none.ColumnName(i));
  return columns;
}

std::string Selected(const Names& there, std::span<const std::string_view> wanted) {
  if (wanted.empty()) return "*";
  std::string list;
  for (std::string_view name : wanted) {
    if (there.contains(name)) list += (list.empty() ? "" : ",") + sqlite::Quoted(name);
  }
  return list;
}

// The conditions of a query, with their values in the order of the parameters.
struct Where {
  std::string sql = " WHERE 1";
  std::vector<std::variant<double, int64_t, std::string_view>> values;

  template <class T>
  void And(const char* condition, T value) {
    sql += std::string(" AND ") + condition;
    values.emplace_back(value);
  }
};

Where Conditions(const Plan::Rows& part, const Query& query, const Names& there) {
  Where where;
  if (part.above > 0) where.And("id>?", part.above);
  if (!part.any_time) {
    // By id where that is known: few rows are new. A plus keeps the other index away.
    const std::string time = part.above > 0 ? "+timestamp" : "timestamp";
    if (std::isfinite(part.since)) where.And((time + ">=?").c_str(), part.since);
    if (std::isfinite(part.until)) where.And((time + (part.last ? "<=?" : "<?")).c_str(), part.until);
  }
  const auto text = [&](const char* column, const std::string& wanted) {
    if (wanted.empty()) return;
    // A column that is not there is empty in all rows.
    if (there.contains(column)) where.And((sqlite::Quoted(column) + "=?").c_str(), std::string_view(wanted));
    else where.sql += " AND 0";
  };
  text("model_id", query.model);
  text("engine", query.engine);
  text("agent", query.agent);
  text("batch_id", query.batch_id);
  if (query.by == GroupBy::kBatch) where.sql += there.contains("batch_id") ? " AND batch_id!=''" : " AND 0";
  if (!query.warmup && there.contains("is_warmup")) where.sql += " AND ifnull(is_warmup,0)=0";
  if (query.token_counting_version) {
    if (there.contains("token_counting_version"))
      where.And("token_counting_version=?", *query.token_counting_version);
    else where.sql += " AND 0";
  }
  return where;
}

}  // namespace

Plan MakePlan(const TimeRange& range, const RollupState& state, int64_t widest) {
  Plan plan;
  const bool open = std::isinf(range.since) && std::isinf(range.until);
  const bool use = state.there && !state.stale && widest > 0;
  const double since = std::clamp(std::max(range.since, state.floor), 0.0, kLastTime);
  const double until = std::clamp(range.until, 0.0, kLastTime);
  // Rolled-up rows have a time. Rounded outwards where nothing lies beyond.
  const auto from = static_cast<int64_t>(std::ceil(since / kMinute)) * kMinute;
  const auto to = std::isinf(range.until) ? static_cast<int64_t>(kLastTime)
                                          : static_cast<int64_t>(std::floor(until / kMinute)) * kMinute;
  if (!use || from >= to) {
    plan.rows.push_back({.since = range.since, .until = range.until, .last = true, .any_time = open});
    return plan;
  }
  Cover(plan.rollups, 0, widest, from, to);
  const auto begin = static_cast<double>(from), end = static_cast<double>(to);
  if (range.since < begin && begin > 0) plan.rows.push_back({.since = range.since, .until = begin});
  if (range.until >= end && end < kLastTime)
    plan.rows.push_back({.since = end, .until = range.until, .last = true});
  plan.rows.push_back({.since = begin, .until = end, .above = state.covered, .any_time = open && begin <= 0});
  return plan;
}

TimeRange RangeOf(const Query& query) noexcept {
  constexpr double kOpen = std::numeric_limits<double>::infinity();
  return {.since = query.since ? SecondsOf(*query.since) : -kOpen,
          .until = query.until ? SecondsOf(*query.until) : kOpen};
}

Result<sqlite::Statement> SelectRows(const sqlite::Database& database, const Query& query,
                                     const Selection& selection) {
  ASSIGN_OR_RETURN(const Names there, ColumnsOf(database));
  const Where where = Conditions(selection.part, query, there);
  ASSIGN_OR_RETURN(sqlite::Statement rows, database.Prepare("SELECT " + Selected(there, selection.columns) +
                                                            " FROM telemetry" + where.sql + selection.order));
  for (size_t i = 0; i < where.values.size(); ++i)
    std::visit([&](const auto& value) { rows.Bind(static_cast<int>(i) + 1, value); }, where.values[i]);
  return rows;
}

Result<sqlite::Statement> SelectAsTheyAre(const sqlite::Database& database, const Query& query) {
  std::string order = query.newest_first ? " ORDER BY timestamp DESC, id DESC" : " ORDER BY timestamp, id";
  if (query.limit > 0) order += " LIMIT " + std::to_string(query.limit);
  const Plan plan = MakePlan(RangeOf(query), {}, 0);
  return SelectRows(database, query, {.part = plan.rows.front(), .order = std::move(order)});
}

Status ScanRows(const sqlite::Database& database, const Query& query, const Selection& selection,
                const std::function<bool(const Row&)>& on_row) {
  ASSIGN_OR_RETURN(sqlite::Statement rows, SelectRows(database, query, selection));
  const RowReader reader(rows);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more || !on_row(reader.Read())) return Ok();
  }
}

}  // namespace gpulens::telemetry
