// `gpulens exp export` and `gpulens exp plot`.
#include <unistd.h>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/files.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/exp/exp_command.h"
#include "cli/plot/plot.h"
#include "store/experiments/run_rows.h"
#include "wire/json/json_text.h"

namespace gpulens {

namespace {

using namespace experiments;
namespace fs = std::filesystem;

// MLflow's numbers of a status and of a source that is a local program.
int StatusNumber(const std::string& status) {
  if (status == kDone) return 3;
  if (status == kFailed) return 4;
  if (status == kCrashed) return 5;
  return status == "queued" ? 2 : 1;
}
constexpr int kLocalSource = 4;

// A JSON string is also a YAML string.
void Yaml(std::string& out, std::string_view key, std::string_view value) {
  out += std::string(key) + ": ";
  AppendJsonString(out, value);
  out += '\n';
}
void YamlNumber(std::string& out, std::string_view key, std::optional<int64_t> value) {
  out += std::string(key) + ": " + (value ? std::to_string(*value) : "null") + "\n";
}

std::optional<int64_t> Milliseconds(std::optional<int64_t> unix_ns) {
  return unix_ns ? std::optional(*unix_ns / 1'000'000) : std::nullopt;
}

// A location as MLflow expects it: "file://" and an absolute path.
std::string UriOf(const std::string& path) { return "file://" + PercentEncoded(path, "/"); }

// Writes files of one kind below a run's folder, a file for each key. A key that clashes with the folder of
// another one gets "_" for its slashes.
class KeyFiles {
 public:
  explicit KeyFiles(std::string folder) : folder_(std::move(folder)) {}

  Status Write(std::string_view key, std::string_view text) {
    std::string name = MlflowKey(key);
    if (Clashes(name)) {
      for (char& c : name) c = c == '/' ? '_' : c;
    }
    // Without slashes: below the file of another key each of these names would clash, too.
    const std::string flat = name.substr(0, 200);
    for (int i = 2; Clashes(name); ++i) name = flat + "_" + std::to_string(i);
    taken_.insert(name);
    const std::string path = folder_ + "/" + name;
    RETURN_IF_ERROR(MakeFoldersAbove(path));
    return WriteFileAtomically(path, text);
  }

 private:
  bool Clashes(const std::string& name) const {
    for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      if (taken_.contains(name.substr(0, slash))) return true;
    }
    auto after = taken_.lower_bound(name + "/");
    return taken_.contains(name) || (after != taken_.end() && after->starts_with(name + "/"));
  }
  const std::string folder_;
  std::set<std::string> taken_;
};

Status WriteExperiment(const std::string& folder, const std::string& name, const RunRow& run) {
  const std::string path = folder + "/meta.yaml";
  if (fs::exists(path)) return Ok();
  std::string out;
  Yaml(out, "artifact_location", UriOf(folder));
  YamlNumber(out, "creation_time", Milliseconds(run.started_ns));
  Yaml(out, "experiment_id", MlflowExperimentId(name));
  YamlNumber(out, "last_update_time", Milliseconds(run.started_ns));
  Yaml(out, "lifecycle_stage", "active");
  Yaml(out, "name", name);
  RETURN_IF_ERROR(MakeFoldersAbove(path));
  return WriteFileAtomically(path, out);
}

std::string RunMeta(const RunRow& run, const std::string& experiment, const std::string& folder) {
  std::string out;
  Yaml(out, "artifact_uri", UriOf(folder + "/artifacts"));
  YamlNumber(out, "end_time", Milliseconds(run.ended_ns));
  Yaml(out, "entry_point_name", "");
  Yaml(out, "experiment_id", experiment);
  Yaml(out, "lifecycle_stage", "active");
  Yaml(out, "run_id", run.id);
  Yaml(out, "run_name", run.name);
  Yaml(out, "run_uuid", run.id);
  Yaml(out, "source_name", run.script);
  YamlNumber(out, "source_type", kLocalSource);
  Yaml(out, "source_version", run.git_commit);
  YamlNumber(out, "start_time", Milliseconds(run.started_ns));
  YamlNumber(out, "status", StatusNumber(run.status));
  out += "tags: []\n";
  Yaml(out, "user_id", "");
  return out;
}

// A name from the file, which is untrusted, never leads out of the folder.
std::string ArtifactName(const std::string& name) {
  const fs::path path(name);
  bool good =
      !name.empty() && name.size() <= 1000 && path.is_relative() && name.find('\0') == std::string::npos;
  for (const fs::path& part : path) good = good && part != ".." && part != "." && part.native().size() <= 255;
  return good ? name : MlflowKey(name);
}

// Whether that is where the recorder keeps the copy of an artifact. The path is the file's, too, and may name
// any file that the reader of the export must not see.
bool IsCopy(const ArtifactRow& artifact, const std::string& run_id) {
  for (const fs::path& part : fs::path(artifact.name)) {
    if (part == "..") return false;
  }
  if (artifact.path.find('\0') != std::string::npos) return false;
  return artifact.path.ends_with("/" + run_id + "/artifacts/" + artifact.name);
}

Status WriteTags(const RunPage& page, const std::string& folder) {
  KeyFiles tags(folder + "/tags");
  const RunRow& run = page.run;
  const std::pair<const char*, std::string> known[] = {{"mlflow.runName", run.name},
                                                       {"mlflow.source.name", run.script},
                                                       {"mlflow.source.type", "LOCAL"},
                                                       {"mlflow.source.git.commit", run.git_commit},
                                                       {"mlflow.parentRunId", run.parent_id},
                                                       {"gpulens.command", run.command},
                                                       {"gpulens.host", run.host},
                                                       {"gpulens.reason", run.reason},
                                                       {"gpulens.energy.method", run.energy.method},
                                                       {"gpulens.energy.attribution", run.energy.attribution},
                                                       {"gpulens.energy.validity", run.energy.validity}};
  for (const auto& [key, value] : known) {
    if (!value.empty()) RETURN_IF_ERROR(tags.Write(key, value));
  }
  for (const TagRow& tag : page.tags) RETURN_IF_ERROR(tags.Write(tag.key, tag.value));
  return Ok();
}

Status WriteMetrics(const MlflowRun& run, const std::string& folder) {
  KeyFiles metrics(folder + "/metrics");
  const RunPage& page = run.page;
  const int64_t end_ns = page.run.ended_ns.value_or(page.run.started_ns);
  auto line = [](const PointRow& point) {
    return std::to_string(point.unix_ns / 1'000'000) + " " + ValueText(point.value) + " " +
           std::to_string(point.step) + "\n";
  };
  for (size_t i = 0; i < page.metrics.size(); ++i) {
    const MetricRow& metric = page.metrics[i];
    std::string text;
    for (const PointRow& point : run.points[i]) text += line(point);
    // An old file has the last value alone.
    if (!metric.count) text = line({.step = 0, .unix_ns = end_ns, .value = metric.last});
    RETURN_IF_ERROR(metrics.Write(metric.key, text));
  }
  for (auto [key, joules] : {std::pair("energy_joules", page.run.energy.joules),
                             std::pair("energy_uncertainty_joules", page.run.energy.uncertainty_joules)}) {
    if (!std::isnan(joules))
      RETURN_IF_ERROR(metrics.Write(key, line({.step = 0, .unix_ns = end_ns, .value = joules})));
  }
  return Ok();
}

using namespace experiments;

constexpr int kMostDepth = 16;  // of runs within runs

// Writes to a file, or to the standard output.
Status Put(const std::string& path, const std::string& text) {
  if (!path.empty() && path != "-") return WriteFileAtomically(path, text);
  return WriteOut(text) ? Ok() : Status{Code::kIo, "cannot write"};
}

Result<MlflowRun> ReadRun(RunReader& reader, const RunRow& run) {
  MlflowRun out;
  ASSIGN_OR_RETURN(out.page, ReadPage(reader, run));
  for (const MetricRow& metric : out.page.metrics) {
    ASSIGN_OR_RETURN(std::vector<PointRow> points, reader.Points(run.id, metric.key));
    out.points.push_back(std::move(points));
  }
  return out;
}

std::string HistoryCsv(const MlflowRun& run) {
  std::string out = "run_id,key,step,time,value\n";
  for (size_t i = 0; i < run.points.size(); ++i) {
    std::string of;
    AppendCsvField(of, run.page.run.id);
    of += ',';
    AppendCsvField(of, run.page.metrics[i].key);
    for (const PointRow& point : run.points[i]) {
      out += of + "," + std::to_string(point.step) + ",";
      AppendRfc3339(out, point.unix_ns);
      out += "," + ValueText(point.value) + "\n";
    }
  }
  return out;
}

// The page, with each metric's history: [step, time in seconds since 1970, value].
std::string HistoryJson(const MlflowRun& run, int64_t now_ns) {
  std::string out = RunPageJson(run.page, now_ns);
  out.erase(out.rfind('}'));
  out += ",\"history\":{";
  for (size_t i = 0; i < run.points.size(); ++i) {
    out += i > 0 ? ",\n" : "\n";
    AppendJsonString(out, run.page.metrics[i].key);
    out += ":[";
    for (const PointRow& point : run.points[i]) {
      if (&point != &run.points[i].front()) out += ',';
      out += "[" + std::to_string(point.step) + ",";
      AppendJsonNumber(out, static_cast<double>(point.unix_ns) / 1e9);
      out += ',';
      // JSON has no such numbers, and null would not distinguish them.
      if (std::isfinite(point.value)) AppendJsonNumber(out, point.value);
      else
        AppendJsonString(out, std::isnan(point.value) ? "NaN" : point.value > 0 ? "Infinity" : "-Infinity");
      out += ']';
    }
    out += ']';
  }
  return out + "}}\n";
}

// Exports the run and its children.
Status ExportMlflow(RunReader& reader, const RunRow& run, const std::string& folder, int depth,
                    size_t& count) {
  ASSIGN_OR_RETURN(MlflowRun whole, ReadRun(reader, run));
  RETURN_IF_ERROR(WriteMlflow(whole, folder));
  ++count;
  if (depth == kMostDepth) return Ok();
  for (const RunRow& child : whole.page.children)
    RETURN_IF_ERROR(ExportMlflow(reader, child, folder, depth + 1, count));
  return Ok();
}

// The name of a line: the metric, with the run if there are several.
std::string LineName(const RunRow& run, const std::string& key, bool several_runs, bool several_keys) {
  if (!several_runs) return key;
  std::string name = run.name + " " + run.id.substr(run.id.size() - std::min<size_t>(8, run.id.size()));
  return several_keys ? name + " " + key : name;
}

// A line for each metric of each run that has a history of it.
Result<std::vector<PlotLine>> ReadLines(RunReader& reader, const std::vector<RunRow>& runs,
                                        const std::vector<std::string>& keys, bool by_time) {
  std::vector<PlotLine> lines;
  for (const RunRow& run : runs) {
    for (const std::string& key : keys) {
      ASSIGN_OR_RETURN(std::vector<PointRow> points, reader.Points(run.id, key));
      if (points.empty()) {
        WriteNote("gpulens exp plot: " + run.id + " has no history of \"" + key + "\"");
        continue;
      }
      PlotLine line{.name = LineName(run, key, runs.size() > 1, keys.size() > 1), .points = {}};
      for (const PointRow& point : points) {
        const double seconds = static_cast<double>(point.unix_ns - run.started_ns) / 1e9;
        line.points.emplace_back(by_time ? seconds : static_cast<double>(point.step), point.value);
      }
      lines.push_back(std::move(line));
    }
  }
  if (lines.empty())
    return Status{Code::kInvalidArgument, "nothing to plot; gpulens exp show lists the metrics of a run"};
  return lines;
}

}  // namespace

std::string MlflowExperimentId(std::string_view name) {
  return std::to_string(Fnv1a(name) % 900'000'000'000'000'000 + 100'000'000'000'000'000);
}

std::string MlflowKey(std::string_view key) {
  std::string out;
  std::string_view rest = key;
  do {
    std::string_view part = TakeUntil(rest, '/');
    if (part.empty()) continue;
    if (!out.empty()) out += '/';
    if (part.find_first_not_of('.') == std::string_view::npos) {
      out += '_';
      continue;
    }
    for (char c : part) {
      const bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        std::string_view("_-.: ").find(c) != std::string_view::npos;
      out += good ? c : '_';
    }
  } while (!rest.empty());
  if (out.empty()) return "_";
  // MLflow takes 250 characters; longer keys get a hash of the whole.
  constexpr size_t kLongestKey = 250;
  if (out.size() > kLongestKey) {
    char hash[20];
    std::snprintf(hash, sizeof hash, "_%016llx", static_cast<unsigned long long>(Fnv1a(key)));
    out = out.substr(0, kLongestKey - 17) + hash;
  }
  return out;
}

Status WriteMlflow(const MlflowRun& run, const std::string& folder) {
  const RunRow& row = run.page.run;
  if (!IsRunId(row.id)) return {Code::kInvalidArgument, "\"" + row.id + "\" is not a valid folder name"};
  std::error_code error;
  const std::string absolute = fs::absolute(folder, error).lexically_normal().string();
  if (error) return {Code::kIo, folder + ": " + error.message()};
  const std::string experiment_id = MlflowExperimentId(row.name);
  const std::string experiment = absolute + "/" + experiment_id, place = experiment + "/" + row.id;
  RETURN_IF_ERROR(WriteExperiment(experiment, row.name, row));
  fs::remove_all(place, error);
  if (error) return {Code::kIo, place + ": " + error.message()};
  for (const char* kind : {"params", "metrics", "tags", "artifacts"}) {
    fs::create_directories(place + "/" + kind, error);
    if (error) return {Code::kIo, place + ": " + error.message()};
  }
  KeyFiles params(place + "/params");
  for (const ParamRow& param : run.page.params)
    RETURN_IF_ERROR(params.Write(param.key, ValueText(param.value)));
  RETURN_IF_ERROR(WriteTags(run.page, place));
  RETURN_IF_ERROR(WriteMetrics(run, place));
  for (const ArtifactRow& artifact : run.page.artifacts) {
    if (!artifact.copied) continue;
    if (!IsCopy(artifact, row.id))
      return {Code::kInvalidArgument, Printable(artifact.path) + " is not below the run's artifacts"};
    const std::string to = place + "/artifacts/" + ArtifactName(artifact.name);
    RETURN_IF_ERROR(MakeFoldersAbove(to));
    fs::copy_file(artifact.path, to, fs::copy_options::overwrite_existing, error);
    if (error) return {Code::kIo, artifact.path + ": " + error.message()};
  }
  // Written last: MLflow treats a folder with this file as a run.
  return WriteFileAtomically(place + "/meta.yaml", RunMeta(row, experiment_id, place));
}

Result<int> ExportRun(const ExpOptions& options) {
  ASSIGN_OR_RETURN(RunReader reader, OpenExperiments(options.db));
  ASSIGN_OR_RETURN(const RunRow run, reader.Find(options.run));
  if (options.format == "mlflow") {
    if (options.output.empty())
      return Status{Code::kInvalidArgument, "--format mlflow needs a folder: mlruns"};
    size_t count = 0;
    RETURN_IF_ERROR(ExportMlflow(reader, run, options.output, 0, count));
    WriteNote("gpulens exp export: " + Plural(count, "run", "runs") + " in " + options.output);
    WriteNote("  MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri " + options.output);
    return 0;
  }
  ASSIGN_OR_RETURN(const MlflowRun whole, ReadRun(reader, run));
  RETURN_IF_ERROR(
      Put(options.output, options.format == "csv" ? HistoryCsv(whole) : HistoryJson(whole, reader.now_ns())));
  return 0;
}

Result<int> PlotRuns(const ExpOptions& options) {
  ASSIGN_OR_RETURN(RunReader reader, OpenExperiments(options.db));
  std::vector<std::string> keys = options.metrics;
  if (keys.empty()) keys = {"loss"};
  std::vector<RunRow> runs;
  std::vector<std::string> texts = options.runs;
  texts.insert(texts.begin(), options.run);
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(runs.emplace_back(), reader.Find(text));
  }
  ASSIGN_OR_RETURN(const std::vector<PlotLine> lines, ReadLines(reader, runs, keys, options.by_time));
  const char* x_name = options.by_time ? "seconds since the start" : "step";
  if (options.text || options.ascii || (options.output.empty() && ::isatty(STDOUT_FILENO) == 1)) {
    const TextPlotOptions plot{.title = runs.size() == 1 ? runs.front().name : "",
                               .x_name = x_name,
                               .log_y = options.log_scale,
                               .same_y = keys.size() == 1,
                               .ascii = options.ascii || !LocaleIsUtf8(),
                               .columns = TerminalColumns(STDOUT_FILENO)};
    RETURN_IF_ERROR(Put(options.output, PlotText(lines, plot)));
    return 0;
  }
  PlotOptions plot;
  plot.title = runs.size() == 1 ? runs.front().name : std::to_string(runs.size()) + " runs";
  plot.x_name = x_name;
  plot.y_name = keys.size() == 1 ? keys.front() : "";
  plot.log_y = options.log_scale;
  RETURN_IF_ERROR(Put(options.output, PlotSvg(lines, plot)));
  if (!options.output.empty() && options.output != "-") WriteNote(options.output);
  return 0;
}

}  // namespace gpulens
