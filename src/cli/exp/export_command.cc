// `gpulens exp export` and `gpulens exp plot`.
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "base/files.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/exp/exp_command.h"
#include "cli/exp/mlflow_export.h"
#include "cli/plot/svg_plot.h"
#include "cli/plot/text_plot.h"
#include "cli/table/terminal.h"
#include "cli/table/text_table.h"
#include "wire/json/json_text.h"

namespace gpulens {
namespace {

using namespace experiments;

constexpr int kMostDepth = 16;  // of runs within runs

// To a file, or to standard output.
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
      // JSON has no such numbers; null would not say which.
      if (std::isfinite(point.value)) AppendJsonNumber(out, point.value);
      else
        AppendJsonString(out, std::isnan(point.value) ? "NaN" : point.value > 0 ? "Infinity" : "-Infinity");
      out += ']';
    }
    out += ']';
  }
  return out + "}}\n";
}

// The run and those within it.
Status ExportMlflow(RunReader& reader, const RunRow& run, const std::string& folder, int depth, int& count) {
  ASSIGN_OR_RETURN(MlflowRun whole, ReadRun(reader, run));
  RETURN_IF_ERROR(WriteMlflow(whole, folder));
  ++count;
  if (depth == kMostDepth) return Ok();
  for (const RunRow& child : whole.page.children)
    RETURN_IF_ERROR(ExportMlflow(reader, child, folder, depth + 1, count));
  return Ok();
}

// What a line is called: the metric when it alone differs, else the run, too.
std::string LineName(const RunRow& run, const std::string& key, bool several_runs, bool several_keys) {
  if (!several_runs) return key;
  std::string name = run.name + " " + run.id.substr(run.id.size() - std::min<size_t>(8, run.id.size()));
  return several_keys ? name + " " + key : name;
}

}  // namespace

int RunExpExport(const ExpOptions& options) {
  auto reader = OpenExperiments(options.db);
  if (!reader) return Complain("export", reader.error());
  auto run = reader->Find(options.run);
  if (!run) return Complain("export", run.error());
  if (options.format == "mlflow") {
    if (options.output.empty())
      return Complain("export", {Code::kInvalidArgument, "--format mlflow needs a folder: mlruns"});
    int count = 0;
    Status written = ExportMlflow(*reader, *run, options.output, 0, count);
    if (!written) return Complain("export", written);
    WriteNote("gpulens exp export: " + std::to_string(count) + (count == 1 ? " run in " : " runs in ") +
              options.output);
    WriteNote("  MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri " + options.output);
    return 0;
  }
  auto whole = ReadRun(*reader, *run);
  if (!whole) return Complain("export", whole.error());
  Status written = Put(options.output,
                       options.format == "csv" ? HistoryCsv(*whole) : HistoryJson(*whole, reader->now_ns()));
  return written ? 0 : Complain("export", written);
}

namespace {

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

int RunExpPlot(const ExpOptions& options) {
  auto reader = OpenExperiments(options.db);
  if (!reader) return Complain("plot", reader.error());
  std::vector<std::string> keys = options.metrics;
  if (keys.empty()) keys = {"loss"};
  std::vector<RunRow> runs;
  std::vector<std::string> texts = options.runs;
  texts.insert(texts.begin(), options.run);
  for (const std::string& text : texts) {
    auto run = reader->Find(text);
    if (!run) return Complain("plot", run.error());
    runs.push_back(*std::move(run));
  }
  auto lines = ReadLines(*reader, runs, keys, options.by_time);
  if (!lines) return Complain("plot", lines.error());
  const char* x_name = options.by_time ? "seconds since the start" : "step";
  if (options.text || options.ascii || (options.output.empty() && ::isatty(STDOUT_FILENO) == 1)) {
    const TextPlotOptions plot{.title = runs.size() == 1 ? runs.front().name : "",
                               .x_name = x_name,
                               .log_y = options.log_scale,
                               .same_y = keys.size() == 1,
                               .ascii = options.ascii || !LocaleIsUtf8(),
                               .columns = TerminalColumns(STDOUT_FILENO)};
    Status written = Put(options.output, PlotText(*lines, plot));
    return written ? 0 : Complain("plot", written);
  }
  PlotOptions plot;
  plot.title = runs.size() == 1 ? runs.front().name : std::to_string(runs.size()) + " runs";
  plot.x_name = x_name;
  plot.y_name = keys.size() == 1 ? keys.front() : "";
  plot.log_y = options.log_scale;
  Status written = Put(options.output, PlotSvg(*lines, plot));
  if (!written) return Complain("plot", written);
  if (!options.output.empty() && options.output != "-") WriteNote(options.output);
  return 0;
}

}  // namespace gpulens
