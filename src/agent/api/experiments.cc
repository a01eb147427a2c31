#include "agent/api/experiments.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parse.h"
#include "base/result.h"
#include "store/experiments/run_json.h"
#include "store/experiments/run_reader.h"
#include "wire/json/json_object.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using namespace experiments;

constexpr size_t kMostRuns = 200, kRuns = 50;
constexpr size_t kMostRunMetrics = 32;     // of a run in the list
constexpr size_t kMostRunRows = 500;       // params, tags, metrics and children of one run
constexpr size_t kMostRunText = 2048;      // bytes of a name, a param, a tag
constexpr size_t kMostCurves = 12;         // metrics with points in one answer
constexpr size_t kMostCurvePoints = 1000;  // of a metric
constexpr const char* kRunSchemaName = "gpulens.experiments/1";

bool HasWord(std::string_view key, std::string_view word) { return key.find(word) != std::string_view::npos; }

// Those that people look at first; the rest stay in the order of their names.
int RankOf(const MetricRow& metric) {
  return HasWord(metric.key, "loss") ? 0 : HasWord(metric.key, "acc") ? 1 : 2;
}

void SortMetrics(std::vector<MetricRow>& metrics) {
  std::ranges::sort(metrics, [](const MetricRow& a, const MetricRow& b) {
    return RankOf(a) != RankOf(b) ? RankOf(a) < RankOf(b) : a.key < b.key;
  });
}

template <class Row>
void CutRows(std::vector<Row>& rows, size_t most, JsonObject& object, std::string_view key) {
  if (rows.size() <= most) return;
  object.Count(key, rows.size() - most);
  rows.resize(most);
}

void AddSharedRun(JsonObject& object, RunRow run, const std::vector<MetricRow>& metrics, int64_t now_ns) {
  for (std::string* text : {&run.name, &run.reason, &run.host, &run.git_commit, &run.energy.reason})
    if (text->size() > kMostRunText) text->resize(kMostRunText);
  AddRunJson(object, run, now_ns, RunJson::kShared);
  if (const auto step = LastStep(metrics)) object.Whole("step", *step);
  if (const double joules = JoulesPerStep(run, metrics); !std::isnan(joules))
    object.Number("joules_per_step", joules);
  if (const auto gpus = run.energy.gpus()) object.Whole("gpus", *gpus);
}

Result<std::string> RunsJson(RunReader& reader, const ApiRequest& request) {
  RunReader::Filter filter;
  filter.limit = kRuns;
  if (const std::string* limit = request.Find("limit")) {
    const auto number = ParseInt<int64_t>(*limit);
    if (!number || *number < 1 || *number > static_cast<int64_t>(kMostRuns))
      return Status{Code::kInvalidArgument, "limit is 1 to " + std::to_string(kMostRuns)};
    filter.limit = static_cast<size_t>(*number);
  }
  if (const std::string* status = request.Find("status")) filter.status = *status;
  if (const std::string* name = request.Find("name")) filter.name = *name;
  const size_t shown = filter.limit++;  // one more shows whether there are more
  ASSIGN_OR_RETURN(std::vector<RunRow> runs, reader.List(filter));
  const bool more = runs.size() > shown;
  if (more) runs.resize(shown);
  std::vector<std::vector<MetricRow>> metrics;
  for (const RunRow& run : runs) {
    ASSIGN_OR_RETURN(std::vector<MetricRow> its, reader.Metrics(run.id));
    metrics.push_back(std::move(its));
  }
  size_t at = 0;
  return JsonDocumentText(kRunSchemaName, [&](JsonObject& root) {
    root.Text("file", reader.path());
    root.List("runs", runs, [&](std::string& out, const RunRow& run) {
      JsonObject object(out);
      std::vector<MetricRow>& its = metrics[at++];
      AddSharedRun(object, run, its, reader.now_ns());
      SortMetrics(its);
      CutRows(its, kMostRunMetrics, object, "metrics_left_out");
      AddMetricsJson(object, its);
    });
    root.Flag("more", more);
  });
}

struct RunCurve {
  std::string key;
  std::vector<PointRow> points;
};

void AddCurve(std::string& out, const RunCurve& curve) {
  JsonObject object(out);
  object.Text("key", curve.key);
  object.List("step", curve.points,
              [](std::string& list, const PointRow& p) { AppendJsonInt(list, p.step); });
  object.List("at", curve.points,
              [](std::string& list, const PointRow& p) { AppendJsonInt(list, p.unix_ns / 1'000'000); });
  object.List("value", curve.points,
              [](std::string& list, const PointRow& p) { AppendJsonNumber(list, p.value); });
}

Result<std::string> OneRunJson(RunReader& reader, const ApiRequest& request, const std::string& id) {
  ASSIGN_OR_RETURN(const RunRow run, reader.Find(id));
  ASSIGN_OR_RETURN(std::vector<MetricRow> metrics, reader.Metrics(run.id));
  ASSIGN_OR_RETURN(std::vector<ParamRow> params, reader.Params(run.id));
  ASSIGN_OR_RETURN(std::vector<TagRow> tags, reader.Tags(run.id));
  ASSIGN_OR_RETURN(std::vector<RunRow> children, reader.Children(run.id));
  const std::vector<MetricRow> all = metrics;
  SortMetrics(metrics);
  std::vector<std::string> keys;
  for (std::string_view key : request.All("metric")) keys.emplace_back(key);
  if (keys.size() > kMostCurves)
    return Status{Code::kInvalidArgument, "at most " + std::to_string(kMostCurves) + " metrics at once"};
  for (const MetricRow& metric : metrics) {
    if (request.Find("metric") || keys.size() == kMostCurves) break;
    keys.push_back(metric.key);
  }
  std::vector<RunCurve> curves;
  for (const std::string& key : keys) {
    if (std::ranges::find(all, key, &MetricRow::key) == all.end())
      return Status{Code::kInvalidArgument, "the run has no metric \"" + key + "\""};
    ASSIGN_OR_RETURN(std::vector<PointRow> points, reader.Curve(run.id, key, kMostCurvePoints));
    curves.push_back({key, std::move(points)});
  }
  return JsonDocumentText(kRunSchemaName, [&](JsonObject& root) {
    root.Text("file", reader.path());
    {
      JsonObject object(root.Key("run"));
      AddSharedRun(object, run, all, reader.now_ns());
      CutRows(params, kMostRunRows, object, "params_left_out");
      CutRows(tags, kMostRunRows, object, "tags_left_out");
      CutRows(metrics, kMostRunRows, object, "metrics_left_out");
      CutRows(children, kMostRunRows, object, "children_left_out");
      {
        JsonObject list(object.Key("params"));
        for (const ParamRow& param : params) {
          if (const auto* text = std::get_if<std::string>(&param.value))
            list.Text(param.key, std::string_view(*text).substr(0, kMostRunText));
          else AppendValueJson(list.Key(param.key), param.value);
        }
      }
      {
        JsonObject list(object.Key("tags"));
        for (const TagRow& tag : tags)
          list.Text(tag.key, std::string_view(tag.value).substr(0, kMostRunText));
      }
      AddMetricsJson(object, metrics);
      object.List("children", children, [](std::string& out, const RunRow& child) {
        JsonObject row(out);
        row.Text("id", child.id);
        row.Text("name", std::string_view(child.name).substr(0, kMostRunText));
        row.Text("status", child.status);
      });
    }
    root.List("curves", curves, AddCurve);
  });
}

// No file, or one that cannot be read: an answer, as nothing was wrong with the request.
std::string NoRunsJson(const std::string& file, const Status& why) {
  return JsonDocumentText(kRunSchemaName, [&](JsonObject& root) {
    root.TextIfAny("file", file);
    root.List("runs", std::vector<int>{}, [](std::string&, int) {});
    root.Flag("more", false);
    root.Text("absent", why.detail);
  });
}

}  // namespace

void AddExperimentsPage(Api& api, std::string database, Duration longest) {
  api.Add("/api/experiments",
          [database = std::move(database), longest](const ApiRequest& request) -> Result<std::string> {
            const Result<std::string> file = FindDatabase(database);
            if (!file) return NoRunsJson("", file.error());
            Result<RunReader> reader = RunReader::OpenForAgent(*file, HereAndNow(), longest);
            if (!reader) return NoRunsJson(*file, reader.error());
            const std::string* id = request.Find("id");
            Result<std::string> json = id ? OneRunJson(*reader, request, *id) : RunsJson(*reader, request);
            if (json || json.error().code == Code::kInvalidArgument) return json;
            if (json.error().code == Code::kTimeout)
              return Status{Code::kExhausted, "reading " + *file + " takes too long: select fewer metrics"};
            return NoRunsJson(*file, json.error());
          });
}

}  // namespace gpulens
