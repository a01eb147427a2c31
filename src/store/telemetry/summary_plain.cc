// Summaries by reading every record.
#include <algorithm>
#include <map>
#include <variant>

#include "base/result.h"
#include "store/telemetry/summary.h"

namespace gpulens::telemetry {
namespace {

struct Where {
  std::string sql = " WHERE 1";
  std::vector<std::variant<double, int64_t, std::string_view>> values;
  template <class T>
  void And(std::string_view what, T value) {
    sql += " AND ", sql += what;
    values.emplace_back(value);
  }
};

double Seconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Where WhereOf(const Query& query) {
  Where where;
  if (query.since) where.And("timestamp >= ?", Seconds(*query.since));
  if (query.until) where.And("timestamp <= ?", Seconds(*query.until));
  if (!query.model.empty()) where.And("model_id = ?", std::string_view(query.model));
  if (!query.engine.empty()) where.And("engine = ?", std::string_view(query.engine));
  if (!query.agent.empty()) where.And("agent = ?", std::string_view(query.agent));
  if (!query.batch_id.empty()) where.And("batch_id = ?", std::string_view(query.batch_id));
  return where;
}

std::string KeyOf(const InferenceRecord& record, GroupBy by) {
  const auto time = std::chrono::duration_cast<std::chrono::seconds>(record.time.time_since_epoch()).count();
  switch (by) {
    case GroupBy::kAll: return {};
    case GroupBy::kModel: return std::string(record.model);
    case GroupBy::kEngine: return std::string(record.engine);
    case GroupBy::kAgent: return std::string(record.agent);
    case GroupBy::kBatch: return std::string(record.batch_id);
    case GroupBy::kMinute: return std::to_string(time / 60 * 60);
    case GroupBy::kHour: return std::to_string(time / 3600 * 3600);
    case GroupBy::kDay: return std::to_string(time / 86400 * 86400);
  }
  return {};
}

struct Group {
  InferenceSummary sum;
  std::vector<double> latency, ttft, energy, cost, itl;
  double joules = 0, joule_tokens = 0, seconds = 0, second_tokens = 0;
};

void Add(Group& group, const InferenceRecord& record) {
  InferenceSummary& sum = group.sum;
  ++sum.calls;
  sum.errors += record.outcome == Outcome::kError, sum.cancelled += record.outcome == Outcome::kCancelled;
  const auto add = [](uint64_t& to, const std::optional<int64_t>& count) {
    if (count && *count > 0) to += static_cast<uint64_t>(*count);
  };
  add(sum.prompt_tokens, record.prompt_tokens), add(sum.completion_tokens, record.completion_tokens);
  add(sum.total_tokens, record.total_tokens);
  group.latency.push_back(record.latency_seconds), group.ttft.push_back(record.ttft_seconds);
  group.energy.push_back(record.energy_joules), group.cost.push_back(record.cost_usd);
  group.itl.push_back(record.itl_seconds.mean);
  const double tokens =
      record.completion_tokens ? static_cast<double>(*record.completion_tokens) : kNotMeasured;
  if (tokens > 0 && record.energy_joules >= 0)
    group.joules += record.energy_joules, group.joule_tokens += tokens;
  if (tokens > 0 && record.latency_seconds > 0)
    group.seconds += record.latency_seconds, group.second_tokens += tokens;
}

}  // namespace

std::unique_ptr<Rollup> MakeRollup() { return nullptr; }

Result<std::vector<InferenceSummary>> Summarize(const sqlite::Database& database, const Query& query) {
  std::map<std::string, Group> groups;
  Query all = query;
  all.limit = 0;
  RETURN_IF_ERROR(EachRecord(database, all, [&](const InferenceRecord& record) {
    Add(groups[KeyOf(record, query.by)], record);
    return true;
  }));
  std::vector<InferenceSummary> out;
  for (auto& [key, group] : groups) {
    InferenceSummary& sum = group.sum;
    sum.key = key;
    sum.latency_seconds = Describe(group.latency), sum.ttft_seconds = Describe(group.ttft);
    sum.energy_joules = Describe(group.energy), sum.cost_usd = Describe(group.cost);
    sum.itl_seconds = Describe(group.itl);
    if (group.joule_tokens > 0) sum.joules_per_output_token = group.joules / group.joule_tokens;
    if (group.seconds > 0) sum.output_tokens_per_second = group.second_tokens / group.seconds;
    out.push_back(std::move(sum));
  }
  if (query.by < GroupBy::kMinute)
    std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.calls > b.calls; });
  if (query.limit && out.size() > query.limit) out.resize(query.limit);
  return out;
}

Status EachRecord(const sqlite::Database& database, const Query& query,
                  const std::function<bool(const InferenceRecord&)>& on_record) {
  const Where where = WhereOf(query);
  ASSIGN_OR_RETURN(sqlite::Statement select,
                   database.Prepare("SELECT * FROM telemetry" + where.sql + " ORDER BY timestamp" +
                                    (query.newest_first ? " DESC" : "")));
  for (size_t i = 0; i < where.values.size(); ++i) {
    const int at = static_cast<int>(i) + 1;
    std::visit([&](auto value) { select.Bind(at, value); }, where.values[i]);
  }
  const RowReader reader(select);
  for (size_t count = 0; query.limit == 0 || count < query.limit;) {
    ASSIGN_OR_RETURN(const bool there, select.Step());
    if (!there) break;
    const InferenceRecord record = ToRecord(reader.Read());
    if (record.warmup && !query.warmup) continue;
    if (query.token_counting_version && record.token_counting_version != query.token_counting_version)
      continue;
    ++count;
    if (!on_record(record)) break;
  }
  return Ok();
}

}  // namespace gpulens::telemetry
