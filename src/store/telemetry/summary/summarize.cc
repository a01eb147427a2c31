#include <algorithm>
#include <map>

#include "base/result.h"
#include "store/telemetry/summary.h"
#include "store/telemetry/summary/call_scan.h"
#include "store/telemetry/summary/sums.h"

namespace gpulens::telemetry {
namespace {

using Groups = std::map<std::string, Sums, std::less<>>;

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

  Sums& Of(const Row& row) {
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
  Sums& Of(const RollupKey& key) {
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
    if (out.empty() && by_ == GroupBy::kAll) out.push_back(Sums().Summary(""));
    return out;
  }
  bool empty() const noexcept { return groups_.empty(); }

 private:
  Sums& At(std::string_view key) {
    // Mostly the same as before.
    if (last_ && last_->first == key) return last_->second;
    auto found = groups_.find(key);
    if (found == groups_.end()) found = groups_.emplace(std::string(key), Sums()).first;
    last_ = &*found;
    return found->second;
  }
  Sums& AtStart(int64_t start) { return At(std::to_string(start)); }

  GroupBy by_;
  Groups groups_;
  Groups::value_type* last_ = nullptr;
};

Status AddRollups(const sqlite::Database& database, const Plan::Rollups& part, const Query& query,
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

Status AddAll(const sqlite::Database& database, const Query& query, const Plan& plan, Grouping& groups) {
  for (const Plan::Rollups& part : plan.rollups) RETURN_IF_ERROR(AddRollups(database, part, query, groups));
  for (const Plan::Rows& part : plan.rows) {
    const Selection selection{.part = part, .columns = kSummedColumns};
    RETURN_IF_ERROR(ScanRows(database, query, selection, [&](const Row& row) {
      groups.Of(row).Add(row);
      return true;
    }));
  }
  return Ok();
}

// All reading sees the file as it is at one moment. Also within a transaction of the caller.
class Moment {
 public:
  static Result<Moment> Begin(const sqlite::Database& database) {
    RETURN_IF_ERROR(database.Run("SAVEPOINT telemetry_summary"));
    return Moment(database);
  }
  Moment(Moment&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Moment& operator=(Moment&&) = delete;
  ~Moment() {
    if (database_) static_cast<void>(database_->Run("RELEASE telemetry_summary"));
  }

 private:
  explicit Moment(const sqlite::Database& database) : database_(&database) {}
  const sqlite::Database* database_;
};

}  // namespace

Result<std::vector<InferenceSummary>> Summarize(const sqlite::Database& database, const Query& query) {
  ASSIGN_OR_RETURN(const Moment moment, Moment::Begin(database));
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
  RETURN_IF_ERROR(scan([&](const Row& row) {
    groups.Of(row).Add(row);
    return true;
  }));
  return groups.Take(query.limit);
}

Status EachRecord(const sqlite::Database& database, const Query& query,
                  const std::function<bool(const InferenceRecord&)>& on_record) {
  ASSIGN_OR_RETURN(sqlite::Statement rows, SelectAsTheyAre(database, query));
  const RowReader reader(rows);
  for (;;) {
    ASSIGN_OR_RETURN(const bool more, rows.Step());
    if (!more || !on_record(ToRecord(reader.Read()))) return Ok();
  }
}

}  // namespace gpulens::telemetry
