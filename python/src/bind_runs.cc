// Native part of gpulens.runs: reads the file of experiments. The file is read without the GIL.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gpulens/experiment.h>

#include <nanobind/stl/optional.h>

#include "base/result.h"
#include "src/values.h"
#include "store/experiments/run_reader.h"

namespace gpulens::python {
namespace {

using namespace experiments;

// A run with everything but the points of its metrics.
struct WholeRun {
  RunRow row;
  double duration_seconds = kNotMeasured;
  std::vector<ParamRow> params;
  std::vector<TagRow> tags;
  std::vector<MetricRow> metrics;
  std::vector<ArtifactRow> artifacts;
};

Result<WholeRun> ReadWhole(RunReader& reader, RunRow row) {
  WholeRun run;
  ASSIGN_OR_RETURN(run.params, reader.Params(row.id));
  ASSIGN_OR_RETURN(run.tags, reader.Tags(row.id));
  ASSIGN_OR_RETURN(run.metrics, reader.Metrics(row.id));
  ASSIGN_OR_RETURN(run.artifacts, reader.Artifacts(row.id));
  run.duration_seconds = row.duration_seconds(reader.now_ns());
  run.row = std::move(row);
  return run;
}

Result<RunReader> OpenFile(const std::string& db) {
  ASSIGN_OR_RETURN(const std::string path, FindDatabase(db));
  return RunReader::Open(path);
}

Result<std::vector<WholeRun>> Search(const std::string& db, const RunReader::Filter& filter) {
  ASSIGN_OR_RETURN(RunReader reader, OpenFile(db));
  ASSIGN_OR_RETURN(std::vector<RunRow> rows, reader.List(filter));
  std::vector<WholeRun> runs;
  for (RunRow& row : rows) {
    ASSIGN_OR_RETURN(WholeRun run, ReadWhole(reader, std::move(row)));
    runs.push_back(std::move(run));
  }
  return runs;
}

Result<WholeRun> FindRun(const std::string& db, const std::string& text) {
  ASSIGN_OR_RETURN(RunReader reader, OpenFile(db));
  ASSIGN_OR_RETURN(RunRow row, reader.Find(text));
  return ReadWhole(reader, std::move(row));
}

// Texts of the file, which other programs write, too, may not be valid UTF-8.
nb::object ToText(std::string_view text) {
  nb::object out =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  if (!out.is_valid()) nb::raise_python_error();
  return out;
}
nb::object UnixSeconds(const std::optional<int64_t>& unix_ns) {
  return unix_ns ? nb::object(nb::float_(static_cast<double>(*unix_ns) / 1e9)) : nb::object(nb::none());
}
nb::object ToValue(const RunParamValue& value) {
  return std::visit(
      []<class V>(const V& one) -> nb::object {
        if constexpr (std::is_same_v<V, std::string>) return ToText(one);
        else return nb::cast(one);
      },
      value);
}

nb::object EnergyOf(const EnergyRow& row) {
  ExperimentEnergy out;
  out.energy_joules = row.joules, out.uncertainty_joules = row.uncertainty_joules;
  out.attribution = row.attribution, out.device_energy_joules = row.device_joules;
  out.method = row.method, out.validity = row.validity, out.reason = row.reason, out.vendor = row.vendor;
  out.devices = static_cast<uint32_t>(row.devices);
  out.mean_power_watts = row.mean_power_watts, out.peak_power_watts = row.peak_power_watts;
  out.mean_utilization_ratio = row.mean_utilization_ratio;
  out.peak_utilization_ratio = row.peak_utilization_ratio;
  out.mean_memory_used_bytes = row.mean_memory_used_bytes;
  out.peak_memory_used_bytes = row.peak_memory_used_bytes;
  return nb::cast(std::move(out));
}

// The fields of gpulens.runs.Run by name; rows of metrics and artifacts as tuples in the order of their
// fields.
nb::dict ToFields(const WholeRun& run) {
  nb::dict params, tags, metrics;
  nb::list artifacts;
  for (const ParamRow& param : run.params) params[ToText(param.key)] = ToValue(param.value);
  for (const TagRow& tag : run.tags) tags[ToText(tag.key)] = ToText(tag.value);
  for (const MetricRow& metric : run.metrics)
    metrics[ToText(metric.key)] =
        nb::make_tuple(metric.last, metric.last_step, metric.min, metric.max, metric.count, metric.nan_count);
  for (const ArtifactRow& artifact : run.artifacts)
    artifacts.append(nb::make_tuple(ToText(artifact.name), ToText(artifact.path), artifact.bytes,
                                    ToText(artifact.sha256), artifact.copied));
  const RunRow& row = run.row;
  nb::dict out;
  const std::pair<const char*, const std::string*> texts[] = {
      {"id", &row.id},         {"name", &row.name},     {"status", &row.status},
      {"reason", &row.reason}, {"script", &row.script}, {"command", &row.command},
      {"folder", &row.folder}, {"host", &row.host},     {"git_commit", &row.git_commit}};
  for (const auto& [name, text] : texts) out[name] = ToText(*text);
  out["parent_id"] = row.parent_id.empty() ? nb::object(nb::none()) : ToText(row.parent_id);
  out["started"] = UnixSeconds(row.started_ns), out["ended"] = UnixSeconds(row.ended_ns);
  out["duration_seconds"] = run.duration_seconds;
  out["exit_code"] = row.exit_code;
  out["resumed"] = row.resumed, out["dropped"] = row.dropped;
  out["energy"] = EnergyOf(row.energy);
  out["params"] = params, out["tags"] = tags, out["metrics"] = metrics, out["artifacts"] = artifacts;
  return out;
}

RunParamValue ParamOf(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
  int64_t whole = 0;
  if (PyLong_Check(value.ptr()) && nb::try_cast(value, whole)) return whole;
  if (PyFloat_Check(value.ptr())) return nb::cast<double>(value);
  return std::string(Text(value, "the value of a param"));
}

double BoundOf(nb::handle value) {
  if (value.is_none()) return kNotMeasured;
  double bound = 0;
  if (!nb::try_cast(value, bound)) throw nb::type_error("a bound of a metric must be a number or None");
  return bound;
}

RunReader::Filter FilterOf(const std::string& name, const std::string& status, const nb::dict& params,
                           const nb::dict& tags, const nb::dict& metrics, std::string order, size_t limit,
                           bool nested) {
  RunReader::Filter filter{.limit = limit, .status = status, .name = name, .nested = nested};
  for (const auto& [key, value] : params)
    filter.params.push_back({std::string(Text(key, "the key of a param")), ParamOf(value)});
  for (const auto& [key, value] : tags)
    filter.tags.push_back(
        {std::string(Text(key, "the key of a tag")), nb::cast<std::string>(nb::str(value))});
  for (const auto& [key, range] : metrics) {
    if (!PyTuple_Check(range.ptr()) || nb::len(range) != 2)
      throw nb::type_error("a metric's range must be a tuple (least, most), either of them may be None");
    filter.metrics.push_back(
        {std::string(Text(key, "the key of a metric")), BoundOf(range[0]), BoundOf(range[1])});
  }
  filter.ascending = !order.starts_with('-');
  filter.order = filter.ascending ? std::move(order) : order.substr(1);
  return filter;
}

nb::list SearchRuns(const std::string& db, const std::string& name, const std::string& status,
                    const nb::dict& params, const nb::dict& tags, const nb::dict& metrics,
                    const std::string& order, size_t limit, bool nested) {
  const RunReader::Filter filter = FilterOf(name, status, params, tags, metrics, order, limit, nested);
  nb::list out;
  for (const WholeRun& run : Take(WithoutGil([&] { return Search(db, filter); }))) out.append(ToFields(run));
  return out;
}

// Steps, Unix seconds and values as bytes of int64, double and double.
nb::tuple PointsOf(const std::string& db, const std::string& id, const std::string& key) {
  const auto read = [&]() -> Result<std::vector<PointRow>> {
    ASSIGN_OR_RETURN(RunReader reader, OpenFile(db));
    return reader.Points(id, key);
  };
  std::vector<int64_t> steps;
  std::vector<double> seconds, values;
  for (const PointRow& point : Take(WithoutGil(read))) {
    steps.push_back(point.step);
    seconds.push_back(static_cast<double>(point.unix_ns) / 1e9);
    values.push_back(point.value);
  }
  const auto bytes = [](const auto& numbers) {
    return nb::bytes(numbers.data(), numbers.size() * sizeof numbers[0]);
  };
  return nb::make_tuple(bytes(steps), bytes(seconds), bytes(values));
}

}  // namespace

void BindRuns(nb::module_& m) {
  m.def("search_runs", &SearchRuns, "db"_a, "name"_a, "status"_a, "params"_a, "tags"_a, "metrics"_a,
        "order"_a, "limit"_a, "nested"_a,
        nb::sig("def search_runs(db: str, name: str, status: str, params: dict[str, typing.Any], tags: "
                "dict[str, typing.Any], metrics: dict[str, tuple[float | None, float | None]], order: str, "
                "limit: int, nested: bool) -> list[dict[str, typing.Any]]"));
  m.def(
      "find_run",
      [](const std::string& db, const std::string& text) {
        return ToFields(Take(WithoutGil([&] { return FindRun(db, text); })));
      },
      "db"_a, "text"_a, nb::sig("def find_run(db: str, text: str) -> dict[str, typing.Any]"));
  m.def("run_points", &PointsOf, "db"_a, "id"_a, "key"_a,
        nb::sig("def run_points(db: str, id: str, key: str) -> tuple[bytes, bytes, bytes]"));
  m.def("experiments_file", [](const std::string& db) { return Take(FindDatabase(db)); }, "db"_a);
}

}  // namespace gpulens::python
