#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "base/result.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/sums.h"

namespace gpulens::telemetry {
namespace {

// Whole spans within [from, to), and narrower ones at both ends.
void Cover(std::vector<ScanPlan::Rollups>& out, size_t level, int64_t widest, int64_t from, int64_t to) {
  if (level == kSpans.size() || from >= to) return;
  const int64_t span = kSpans[level];
  const int64_t first = (from + span - 1) / span * span, end = to / span * span;
  if (span > widest || first >= end) return Cover(out, level + 1, widest, from, to);
  Cover(out, level + 1, widest, from, first);
  out.push_back({span, first, end});
  Cover(out, level + 1, widest, end, to);
}

std::string Selected(const ColumnNames& there, std::span<const std::string_view> wanted) {
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

Where Conditions(const ScanPlan::Rows& part, const Query& query, const ColumnNames& there) {
  Where where;
  if (part.above > 0) where.And("id>?", part.above);
  if (!part.any_time) {
    // By id if it is known, as few rows are new. The plus disables the index of the time.
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

ScanPlan MakePlan(const TimeRange& range, const RollupState& state, int64_t widest) {
  ScanPlan plan;
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
                                     const RowSelection& selection) {
  ASSIGN_OR_RETURN(const ColumnNames there, ColumnsOf(database));
  const Where where = Conditions(selection.part, query, there);
  ASSIGN_OR_RETURN(sqlite::Statement rows, database.Prepare("SELECT " + Selected(there, selection.columns) +
                                                            " FROM telemetry" + where.sql + selection.order));
  for (size_t i = 0; i < where.values.size(); ++i)
    std::visit([&](const auto& value) { rows.Bind(static_cast<int>(i) + 1, value); }, where.values[i]);
  return rows;
}

Result<sqlite::Statement> SelectAllColumns(const sqlite::Database& database, const Query& query) {
  std::string order = query.newest_first ? " ORDER BY timestamp DESC, id DESC" : " ORDER BY timestamp, id";
  if (query.limit > 0) order += " LIMIT " + std::to_string(query.limit);
  const ScanPlan plan = MakePlan(RangeOf(query), {}, 0);
  return SelectRows(database, query, {.part = plan.rows.front(), .order = std::move(order)});
}

Status ScanRows(const sqlite::Database& database, const Query& query, const RowSelection& selection,
                const std::function<bool(const RecordRow&)>& on_row) {
  ASSIGN_OR_RETURN(sqlite::Statement rows, SelectRows(database, query, selection));
  const RowReader reader(rows);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more || !on_row(reader.Read())) return Ok();
  }
}

namespace {

using Groups = std::map<std::string, CallSums, std::less<>>;

int64_t SpanOf(GroupBy by) noexcept {
  switch (by) {
    case GroupBy::kMinute: return 60;
    case GroupBy::kHour: return 3'600;
    case GroupBy::kDay: return 86'400;
    default: return 0;
  }
}

// The widest roll-up that can answer; 0: none can.
int64_t WidestOf(const Query& query) noexcept {
  if (query.by == GroupBy::kAgent || query.by == GroupBy::kBatch || !query.agent.empty() ||
      !query.batch_id.empty() || query.token_counting_version)
    return 0;
  const int64_t span = SpanOf(query.by);
  return span > 0 ? span : kSpans.front();
}

class Grouping {
 public:
  explicit Grouping(GroupBy by) : by_(by) {}

  CallSums& Of(const RecordRow& row) {
    switch (by_) {
      case GroupBy::kAll: return At({});
      case GroupBy::kModel: return At(row.text(TextColumn::kModel));
      case GroupBy::kEngine: return At(row.text(TextColumn::kEngine));
      case GroupBy::kAgent: return At(row.text(TextColumn::kAgent));
      case GroupBy::kBatch: return At(row.text(TextColumn::kBatch));
      default: break;
    }
    // A row without a time is in no minute, yet it is a call.
    const double time = row.numbers.timestamp;
    return IsTime(time) ? AtStart(StartOf(time, SpanOf(by_))) : At({});
  }
  CallSums& Of(const RollupKey& key) {
    switch (by_) {
      case GroupBy::kModel: return At(key.model);
      case GroupBy::kEngine: return At(key.engine);
      case GroupBy::kAll: return At({});
      default: return AtStart(key.start / SpanOf(by_) * SpanOf(by_));
    }
  }

  std::vector<InferenceSummary> Take(size_t limit) const {
    std::vector<InferenceSummary> out;
    for (const auto& [key, sums] : groups_) out.push_back(sums.Summary(key));
    std::ranges::sort(out, [timed = SpanOf(by_) != 0](const InferenceSummary& a, const InferenceSummary& b) {
      // Digits of any number, by number.
      if (timed && a.key.size() != b.key.size()) return a.key.size() < b.key.size();
      if (!timed && a.calls != b.calls) return a.calls > b.calls;
      return a.key < b.key;
    });
    if (limit > 0 && out.size() > limit) out.resize(limit);
    // No calls have a summary, too.
    if (out.empty() && by_ == GroupBy::kAll) out.push_back(CallSums().Summary(""));
    return out;
  }
  bool empty() const noexcept { return groups_.empty(); }

 private:
  CallSums& At(std::string_view key) {
    // Mostly the same as before.
    if (last_ && last_->first == key) return last_->second;
    auto found = groups_.find(key);
    if (found == groups_.end()) found = groups_.emplace(std::string(key), CallSums()).first;
    last_ = &*found;
    return found->second;
  }
  CallSums& AtStart(int64_t start) { return At(std::to_string(start)); }

  GroupBy by_;
  Groups groups_;
  Groups::value_type* last_ = nullptr;
};

Status AddRollups(const sqlite::Database& database, const ScanPlan::Rollups& part, const Query& query,
                  Grouping& groups) {
  std::string sql =
      "SELECT start, model_id, engine, is_warmup, sums FROM telemetry_rollup"
      " WHERE span=? AND start>=? AND start<? AND is_warmup<=?";
  if (!query.model.empty()) sql += " AND model_id=?5";
  if (!query.engine.empty()) sql += " AND engine=?6";
  ASSIGN_OR_RETURN(sqlite::Statement rows, database.Prepare(sql));
  rows.BindAll(part.span, part.from, part.to, int64_t{query.warmup});
  if (!query.model.empty()) rows.Bind(5, std::string_view(query.model));
  if (!query.engine.empty()) rows.Bind(6, std::string_view(query.engine));
  return rows.Each([&] {
    return groups
        .Of({.start = rows.Int(0), .model = rows.Text(1), .engine = rows.Text(2), .warmup = rows.Int(3) != 0})
        .MergeBytes(rows.Text(4));
  });
}

Status AddAll(const sqlite::Database& database, const Query& query, const ScanPlan& plan, Grouping& groups) {
  for (const ScanPlan::Rollups& part : plan.rollups)
    RETURN_IF_ERROR(AddRollups(database, part, query, groups));
  for (const ScanPlan::Rows& part : plan.rows) {
    const RowSelection selection{.part = part, .columns = kSummedColumns};
    RETURN_IF_ERROR(ScanRows(database, query, selection, [&](const RecordRow& row) {
      groups.Of(row).Add(row);
      return true;
    }));
  }
  return Ok();
}

struct ReleaseSavepoint {
  void operator()(const sqlite::Database* database) const noexcept {
    static_cast<void>(database->Run("RELEASE telemetry_summary"));
  }
};

}  // namespace

Result<std::vector<InferenceSummary>> Summarize(const sqlite::Database& database, const Query& query) {
  // All reads see one state of the file, also within a transaction of the caller.
  RETURN_IF_ERROR(database.Run("SAVEPOINT telemetry_summary"));
  const std::unique_ptr<const sqlite::Database, ReleaseSavepoint> savepoint(&database);
  ASSIGN_OR_RETURN(const RollupState state, ReadState(database));
  const TimeRange range = RangeOf(query);
  Grouping groups(query.by);
  Status added = AddAll(database, query, MakePlan(range, state, WidestOf(query)), groups);
  if (!added && added.code == Code::kDataLoss && state.there) {
    // A roll-up that cannot be read costs time, not the answer: the rows are there.
    groups = Grouping(query.by);
    added = AddAll(database, query, MakePlan(range, {}, 0), groups);
  }
  if (!added) return added;
  return groups.Take(query.limit);
}

Result<std::vector<InferenceSummary>> SummarizeRows(const Query& query, const RowScan& scan) {
  Grouping groups(query.by);
  RETURN_IF_ERROR(scan([&](const RecordRow& row) {
    groups.Of(row).Add(row);
    return true;
  }));
  return groups.Take(query.limit);
}

Status EachRecord(const sqlite::Database& database, const Query& query,
                  const std::function<bool(const InferenceRecord&)>& on_record) {
  ASSIGN_OR_RETURN(sqlite::Statement rows, SelectAllColumns(database, query));
  const RowReader reader(rows);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more || !on_record(ToRecord(reader.Read()))) return Ok();
  }
}

}  // namespace gpulens::telemetry
