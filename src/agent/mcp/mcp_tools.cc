#include "agent/mcp/mcp_tools.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "catalog/all.h"
#include "catalog/events.h"
#include "core/metric_desc.h"
#include "wire/json/json_object.h"

namespace gpulens::mcp {
namespace {

constexpr size_t kMostArguments = 16, kMostValues = 32, kMostValue = 1024;
constexpr size_t kMostNowSeries = 200'000;
constexpr size_t kMostGpus = 64, kMostProcesses = 64, kMostEngines = 64, kMostReadings = 40;
constexpr int64_t kDefaultSteps = 60;
constexpr double kMostMs = 9e12;  // a time that also fits in nanoseconds

Status Wrong(std::string detail) { return {Code::kInvalidArgument, std::move(detail)}; }

// The page /api/now as far as it is shown.
struct NowSeries {
  uint64_t id = 0;
  std::string name, unit, kind, source;
  std::vector<std::pair<std::string, std::string>> attributes;  // values as JSON
  double value = kNotMeasured;
  int64_t stale_ms = 0;  // age at the time of the page

  bool has_value() const noexcept { return !std::isnan(value); }
  const std::string* Attribute(std::string_view key) const noexcept {
    const auto at = std::ranges::find(attributes, key, &std::pair<std::string, std::string>::first);
    return at == attributes.end() ? nullptr : &at->second;
  }
};
struct NowPage {
  std::string node = "{}";  // attributes, JSON
  bool simulated = false;
  int64_t at_ms = 0;
  std::vector<NowSeries> series;
};

void ReadAttributes(JsonScanner& json, std::string_view text, NowSeries& series) {
  json.Object([&](std::string_view key) {
    std::string name(key);
    series.attributes.emplace_back(std::move(name), RawValue(json, text));
  });
}

// Pairs of an id and a number.
template <class Set>
void ReadPairs(JsonScanner& json, Set set) {
  std::optional<double> id;
  json.Array([&] {
    const std::optional<double> number = json.Double();
    if (!id) {
      id = number.value_or(-1);
      return;
    }
    if (number && *id >= 0 && *id <= UINT32_MAX) set(static_cast<uint64_t>(*id), *number);
    id.reset();
  });
}

Result<NowPage> ReadNow(const McpServer::Get& get) {
  ASSIGN_OR_RETURN(const std::string text, get("/api/now"));
  NowPage page;
  std::map<uint64_t, size_t> at;
  std::map<std::string, double> read;
  std::vector<std::pair<uint64_t, double>> values, stale;
  JsonScanner json(text);
  json.Object([&](std::string_view key) {
    if (key == "node") page.node = std::string(RawValue(json, text));
    else if (key == "simulated") page.simulated = json.Bool().value_or(false);
    else if (key == "at")
      page.at_ms = static_cast<int64_t>(std::clamp(json.Double().value_or(0), 0.0, kMostMs));
    else if (key == "read")
      json.Object([&](std::string_view source) {
        std::string name(source);
        read[std::move(name)] = json.Double().value_or(0);
      });
    else if (key == "v") ReadPairs(json, [&](uint64_t id, double value) { values.emplace_back(id, value); });
    else if (key == "stale") ReadPairs(json, [&](uint64_t id, double age) { stale.emplace_back(id, age); });
    else if (key == "series")
      json.Array([&] {
        if (page.series.size() == kMostNowSeries) return;
        NowSeries one;
        json.Object([&](std::string_view member) {
          if (member == "id") one.id = json.Unsigned().value_or(0);
          else if (member == "name") one.name = std::string(json.Text());
          else if (member == "unit") one.unit = std::string(json.Text());
          else if (member == "kind") one.kind = std::string(json.Text());
          else if (member == "source") one.source = std::string(json.Text());
          else if (member == "attributes") ReadAttributes(json, text, one);
        });
        at[one.id] = page.series.size();
        page.series.push_back(std::move(one));
      });
  });
  RETURN_IF_ERROR(json.Finish());
  for (const auto& [id, value] : values) {
    if (const auto found = at.find(id); found != at.end()) page.series[found->second].value = value;
  }
  for (const auto& [id, age] : stale) {
    const auto found = at.find(id);
    if (found == at.end()) continue;
    NowSeries& series = page.series[found->second];
    // The page has the age at the last reading of the source.
    const auto source_read = read.find(series.source);
    const double since =
        source_read == read.end() ? 0 : static_cast<double>(page.at_ms) - source_read->second;
    series.stale_ms = static_cast<int64_t>(std::clamp(age + std::max(since, 0.0), 1.0, 9e15));
  }
  return page;
}

// The text of a JSON string, or the JSON of another value.
std::string TextOf(const std::string& raw) {
  JsonScanner json(raw);
  return json.Peek() == JsonScanner::kString ? std::string(json.Text()) : raw;
}
std::string TextOf(const NowSeries& series, std::string_view key) {
  const std::string* raw = series.Attribute(key);
  return raw ? TextOf(*raw) : std::string();
}

void AddHead(JsonObject& root, const NowPage& page) {
  root.Time("at", page.at_ms * 1'000'000);
  root.Flag("simulated", page.simulated);
  root.Raw("node", page.node);
}

bool IsAttributeOfMetric(const NowSeries& series, std::string_view key) {
  const MetricDesc* desc = FindMetric(series.name);
  return desc != nullptr && std::ranges::find(desc->keys, key) != desc->keys.end();
}

// {"name":"gpu.temperature","sensor":…,"value":63,"unit":"Cel"}: with the attributes that distinguish it.
void AddReading(std::string& out, const NowSeries& series) {
  JsonObject reading(out);
  reading.Text("name", series.name);
  std::string attributes;
  {
    JsonObject object(attributes);
    for (const auto& [key, value] : series.attributes) {
      if (IsAttributeOfMetric(series, key)) object.Raw(key, value);
    }
  }
  if (attributes != "{}") reading.Raw("attributes", attributes);
  reading.Number("value", series.value);
  reading.Text("unit", series.unit);
  if (series.stale_ms > 0) reading.Whole("stale_ms", series.stale_ms);
}

void AddLeftOut(JsonObject& root, std::string_view key, size_t all, size_t most, std::string_view advice) {
  if (all <= most) return;
  JsonObject cut(root.Key("cut"));
  cut.Count(key, all - most);
  cut.Text("advice", advice);
}

// A reading of a GPU that is listed: of several series of a metric, those with the value of the attribute.
struct GpuReading {
  std::string_view name, key = {}, value = {};
};
constexpr GpuReading kGpuReadings[] = {{"gpu.utilization"},
                                       {"gpu.memory.used"},
                                       {"gpu.memory.total"},
                                       {"gpu.power.draw"},
                                       {"gpu.power.limit", "gpu.power.limit_type", "enforced"},
                                       {"gpu.temperature"},
                                       {"gpu.clock.frequency", "gpu.clock.type", "sm"},
                                       {"gpu.clock.frequency", "gpu.clock.type", "memory"},
                                       {"gpu.sm.active"},
                                       {"gpu.dram.active"},
                                       {"gpu.pipe.tensor.active"},
                                       {"gpu.health.score"},
                                       {"gpu.cost.rate"}};

bool IsGpuReading(const NowSeries& series) {
  return std::ranges::any_of(kGpuReadings, [&](const GpuReading& reading) {
    return reading.name == series.name &&
           (reading.key.empty() || TextOf(series, reading.key) == reading.value);
  });
}

struct GpuRows {
  const NowSeries* first = nullptr;
  std::vector<const NowSeries*> readings, processes;
  std::map<std::string, std::string> states;  // gpu.health.state → "ok"
  std::vector<std::string> throttled;
};

void AddGpu(std::string& out, const GpuRows& gpu) {
  JsonObject one(out);
  std::string attributes;
  {
    JsonObject object(attributes);
    for (const auto& [key, value] : gpu.first->attributes) {
      if (!IsAttributeOfMetric(*gpu.first, key)) object.Raw(key, value);
    }
  }
  one.Raw("attributes", attributes);
  for (const auto& [name, word] : gpu.states) one.Text(name, word);
  one.Texts("throttled_by", gpu.throttled);
  one.List("readings", gpu.readings,
           [](std::string& to, const NowSeries* series) { AddReading(to, *series); });
  const size_t shown = std::min(gpu.processes.size(), kMostProcesses);
  one.List("processes", std::span(gpu.processes).first(shown), [](std::string& to, const NowSeries* series) {
    JsonObject process(to);
    for (std::string_view key : {"process.pid", "process.executable.name", "process.owner"}) {
      if (const std::string* value = series->Attribute(key)) process.Raw(key, *value);
    }
    process.Number("memory_bytes", series->value);
  });
  if (shown < gpu.processes.size()) one.Count("processes_left_out", gpu.processes.size() - shown);
}

Result<std::string> ListGpus(const McpServer::Get& get, const Arguments&) {
  ASSIGN_OR_RETURN(const NowPage page, ReadNow(get));
  std::map<std::pair<int64_t, std::string>, GpuRows> gpus;
  for (const NowSeries& series : page.series) {
    if (!series.Attribute("gpu.index") || series.Attribute("gpu.mig.instance_id") || !series.has_value())
      continue;
    const auto index = ParseInt<int64_t>(TextOf(series, "gpu.index"));
    GpuRows& gpu = gpus[{index.value_or(-1), TextOf(series, "gpu.uuid")}];
    // Not every source names the model.
    if (!gpu.first || (!gpu.first->Attribute("gpu.model") && series.Attribute("gpu.model")))
      gpu.first = &series;
    if (series.name == "gpu.process.memory.used") gpu.processes.push_back(&series);
    else if (series.kind == "stateset" && series.value == 1)
      gpu.states[series.name] = TextOf(series, series.name);
    else if (series.name == "gpu.throttle.reason" && series.value == 1)
      gpu.throttled.push_back(TextOf(series, "gpu.throttle.cause"));
    else if (IsGpuReading(series)) gpu.readings.push_back(&series);
  }
  std::vector<const GpuRows*> shown;
  for (const auto& [key, gpu] : gpus) {
    if (shown.size() < kMostGpus) shown.push_back(&gpu);
  }
  std::string out;
  {
    JsonObject root(out);
    AddHead(root, page);
    root.List("gpus", shown, [](std::string& to, const GpuRows* gpu) { AddGpu(to, *gpu); });
    AddLeftOut(root, "gpus", gpus.size(), kMostGpus, "read the others with history");
    if (gpus.empty())
      root.Text("note", "no GPU is read on this machine; gpulens doctor there names the reason");
  }
  return out;
}

struct EngineRows {
  std::map<std::string, std::string> facts;  // JSON
  std::vector<const NowSeries*> readings;
  std::optional<bool> up;
};

Result<std::string> ListEngines(const McpServer::Get& get, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const NowPage page, ReadNow(get));
  const std::string* wanted = arguments.Find("engine");
  std::map<std::string, EngineRows> engines;
  for (const NowSeries& series : page.series) {
    if (!series.Attribute("target") || !series.has_value()) continue;
    const std::string target = TextOf(series, "target");
    if (wanted && target != *wanted) continue;
    EngineRows& engine = engines[target];
    for (std::string_view key : {"inference.engine", "model.name", "k8s.pod.name", "k8s.namespace.name"}) {
      if (const std::string* value = series.Attribute(key)) engine.facts.emplace(key, *value);
    }
    if (series.name == "gpulens.scrape.up") engine.up = series.value == 1;
    else if (!series.name.starts_with("gpulens.") &&
             (series.kind == "gauge" || series.kind == "updowncounter"))
      engine.readings.push_back(&series);
  }
  if (wanted && engines.empty())
    return Wrong("there is no engine \"" + *wanted + "\": call engines without arguments for their names");
  std::string out;
  {
    JsonObject root(out);
    AddHead(root, page);
    std::vector<std::pair<std::string, const EngineRows*>> shown;
    for (const auto& [name, engine] : engines) {
      if (shown.size() < kMostEngines) shown.emplace_back(name, &engine);
    }
    root.List("engines", shown, [](std::string& to, const auto& entry) {
      const EngineRows& engine = *entry.second;
      JsonObject one(to);
      one.Text("engine", entry.first);
      if (engine.up) one.Flag("up", *engine.up);
      for (const auto& [key, value] : engine.facts) one.Raw(key, value);
      const size_t count = std::min(engine.readings.size(), kMostReadings);
      one.List("readings", std::span(engine.readings).first(count),
               [](std::string& text, const NowSeries* series) { AddReading(text, *series); });
      if (count < engine.readings.size()) one.Count("readings_left_out", engine.readings.size() - count);
    });
    AddLeftOut(root, "engines", engines.size(), kMostEngines, "name one with the argument engine");
    if (engines.empty())
      root.Text("note", "no engine is read on this machine: docs/targets.md, docs/discovery.md");
  }
  return out;
}

std::string Target(std::string_view path,
                   const std::vector<std::pair<std::string_view, std::string>>& parameters) {
  std::string target(path);
  for (const auto& [name, value] : parameters)
    target.append(target.size() == path.size() ? "?" : "&")
        .append(name)
        .append("=")
        .append(PercentEncoded(value));
  return target;
}

// "10m", "90s", "500ms", "1h" in milliseconds.
std::optional<int64_t> Milliseconds(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};
  for (const auto& [unit, factor] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto number = ParseDouble(text.substr(0, text.size() - unit.size()));
    if (number && *number > 0 && *number <= 1e6) return static_cast<int64_t>(*number * factor);
  }
  return std::nullopt;
}

// The page with as many series as are allowed.
Result<std::string> CutSeries(const std::string& page) {
  std::string out = "{", list;
  size_t shown = 0, all = 0;
  JsonScanner json(page);
  json.Object([&](std::string_view key) {
    if (key != "series") {
      AppendJsonString(out, key);
      out += ':';
      out.append(RawValue(json, page)).append(",");
      return;
    }
    json.Array([&] {
      const std::string_view series = RawValue(json, page);
      ++all;
      if (shown + 1 < all || shown == McpServer::kMostSeries ||
          list.size() + series.size() > McpServer::kMostResult - 4096)
        return;
      list.append(shown++ == 0 ? "" : ",").append(series);
    });
  });
  RETURN_IF_ERROR(json.Finish());
  out.append("\"series\":[").append(list).append("]");
  if (shown < all) {
    out += R"(,"cut":{"series":)" + std::to_string(all - shown) +
           R"(,"advice":"select fewer series by their attributes, or a longer step"})";
  }
  if (all == 0)
    out += R"(,"note":"no series of these names and attributes is kept, or none has a value in this time")";
  return out + "}";
}

Result<std::string> ReadHistory(const McpServer::Get& get, const Arguments& arguments) {
  std::vector<std::pair<std::string_view, std::string>> parameters;
  for (const std::string& selector : arguments.All("select")) {
    const std::string name = selector.substr(0, selector.find('{'));
    if (FindMetric(name) == nullptr) {
      std::vector<std::string_view> names;
      for (const MetricDesc* desc : AllMetrics()) names.push_back(desc->name);
      const std::string_view nearest = NearestWord(name, names);
      return Wrong("there is no metric \"" + Printable(name) + "\"" +
                   (nearest.empty() ? "" : "; is it " + std::string(nearest) + "?"));
    }
    parameters.emplace_back("select", selector);
  }
  if (parameters.empty()) return Wrong("select at least one metric, such as gpu.power.draw");
  const std::string* window = arguments.Find("window");
  const auto window_ms = Milliseconds(window ? *window : "5m");
  if (!window_ms) return Wrong("window is a time such as 30s, 5m or 1h");
  parameters.emplace_back("window", std::to_string(*window_ms) + "ms");
  const std::string* step = arguments.Find("step");
  const auto step_ms =
      step ? Milliseconds(*step) : std::max<int64_t>(1000, (*window_ms + kDefaultSteps - 1) / kDefaultSteps);
  if (!step_ms || *step_ms <= 0) return Wrong("step is a time such as 1s or 1m");
  if (*window_ms / *step_ms > static_cast<int64_t>(McpServer::kMostSteps))
    return Wrong("at most " + std::to_string(McpServer::kMostSteps) +
                 " steps: take a longer step or a shorter window");
  parameters.emplace_back("step", std::to_string(*step_ms) + "ms");
  if (const std::string* values = arguments.Find("values")) parameters.emplace_back("values", *values);
  if (const std::string* end = arguments.Find("end")) parameters.emplace_back("end", *end);
  ASSIGN_OR_RETURN(const std::string page, get(Target("/api/history", parameters)));
  return CutSeries(page);
}

// A page as it is, with the arguments of the tool as its parameters.
Result<std::string> Pass(const McpServer::Get& get, std::string_view path, const Arguments& arguments,
                         std::initializer_list<std::string_view> names,
                         std::vector<std::pair<std::string_view, std::string>> parameters = {}) {
  for (std::string_view name : names) {
    for (const std::string& value : arguments.All(name)) parameters.emplace_back(name, value);
  }
  ASSIGN_OR_RETURN(std::string page, get(Target(path, parameters)));
  JsonScanner json(page);
  if (json.Peek() != JsonScanner::kObject) return Status{Code::kDataLoss, "the node answers something else"};
  return page;
}

Result<size_t> LimitOf(const Arguments& arguments, size_t fallback, size_t most) {
  const std::string* text = arguments.Find("limit");
  if (!text) return fallback;
  const auto limit = ParseInt<size_t>(*text);
  if (!limit || *limit == 0 || *limit > most) return Wrong("limit is 1 to " + std::to_string(most));
  return *limit;
}

Result<std::string> ReadEvents(const McpServer::Get& get, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const size_t limit, LimitOf(arguments, 50, 500));
  // One more shows whether there are more.
  ASSIGN_OR_RETURN(const std::string page, Pass(get, "/api/events", arguments, {"since", "gpu"},
                                                {{"limit", std::to_string(limit + 1)}}));
  std::string list;
  size_t all = 0, shown = 0;
  JsonScanner json(page);
  json.Object([&](std::string_view key) {
    if (key != "events") return;
    json.Array([&] {
      const std::string_view event = RawValue(json, page);
      if (++all > limit || list.size() + event.size() > McpServer::kMostResult - 4096) return;
      list.append(shown++ == 0 ? "" : ",").append(event);
    });
  });
  RETURN_IF_ERROR(json.Finish());
  std::string out = R"({"schema":"gpulens.events/1","events":[)" + list + "]";
  if (shown < all) out += R"(,"cut":{"older":true,"advice":"a larger limit, a gpu, or a shorter since"})";
  return out + "}";
}

Result<std::string> ReadWhy(const McpServer::Get& get, const Arguments& arguments) {
  return Pass(get, "/api/why", arguments, {"gpu", "pid", "job", "engine", "window"});
}

Result<std::string> ReadExperiments(const McpServer::Get& get, const Arguments& arguments) {
  if (arguments.Find("id")) return Pass(get, "/api/experiments", arguments, {"id", "metric"});
  ASSIGN_OR_RETURN(const size_t limit, LimitOf(arguments, 20, 100));
  return Pass(get, "/api/experiments", arguments, {"status", "name"}, {{"limit", std::to_string(limit)}});
}

std::string MetricFacts(const MetricDesc& desc) {
  std::string out;
  {
    JsonObject root(out);
    JsonObject metric(root.Key("metric"));
    metric.Text("name", desc.name);
    metric.Text("help", desc.help);
    metric.Text("unit", desc.unit);
    metric.Text("kind", KindName(desc.kind));
    metric.Texts("attributes", desc.keys);
  }
  return out;
}

Result<std::string> Explain(const McpServer::Get& get, const Arguments& arguments) {
  const std::string word = *arguments.Find("word");
  std::string_view rest = word;
  const auto take = [&](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.remove_prefix(prefix.size());
    return true;
  };
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (const MetricDesc* desc = FindMetric(word)) return MetricFacts(*desc);
  if (FindEvent(word) != nullptr) return get(Target("/api/explain", {{"event", word}}));
  const bool is_sxid = take("sxid ") || take("SXid ");
  if (!is_sxid) static_cast<void>(take("xid ") || take("XID "));
  if (is_number(rest)) return get(Target("/api/explain", {{is_sxid ? "sxid" : "xid", std::string(rest)}}));
  std::vector<std::string_view> names;
  for (const MetricDesc* desc : AllMetrics()) names.push_back(desc->name);
  const std::string_view nearest = NearestWord(word, names);
  if (nearest.empty()) {
    // Codes of the driver's messages.
    if (auto found = get(Target("/api/explain", {{"message", word}}))) return found;
  }
  return Wrong("\"" + Printable(word) + "\" is no metric, event, XID or SXid" +
               (nearest.empty() ? "" : "; is it " + std::string(nearest) + "?"));
}

constexpr Parameter kEngineParameters[] = {
    {Parameter::kText, "engine", "Only this one: a name that engines has listed. Default: all."}};
constexpr Parameter kHistoryParameters[] = {
    {Parameter::kTexts, "select",
     "Metrics by name, each with attributes that must be equal, if any: gpu.power.draw, "
     "gpu.temperature{gpu.index=\"0\",gpu.temperature.sensor=\"edge\"}, "
     "inference.requests.waiting{target=\"chat-a\"}.",
     true},
    {Parameter::kText, "window", "Time to look back from end: 30s, 5m (default), at most 1h."},
    {Parameter::kText, "step",
     "Time of one value: 1s, 30s. Default: the window in 60 steps. At most 240 steps."},
    {Parameter::kText, "values",
     "Some of min, avg, max, last and, of counters, rate (per second), with commas. Default: all."},
    {Parameter::kWhole, "end", "End of the window in milliseconds since 1970. Default: now."}};
constexpr Parameter kEventParameters[] = {
    {Parameter::kText, "since", "Time to look back: 10m, 1h (default), 24h."},
    {Parameter::kWhole, "gpu", "Only events of the GPU with this index."},
    {Parameter::kWhole, "limit", "Number of events, the newest: 50 (default), at most 500."}};
constexpr Parameter kWhyParameters[] = {
    {Parameter::kText, "gpu", "Only this GPU: its index. Give at most one of gpu, pid, job and engine."},
    {Parameter::kText, "pid", "Only this process, and its GPUs."},
    {Parameter::kText, "job", "Only this Slurm job or pod."},
    {Parameter::kText, "engine", "Only this engine, by its name in engines."},
    {Parameter::kText, "window", "Time to look at, 1m to 1h: 5m (default)."}};
constexpr Parameter kExplainParameters[] = {
    {Parameter::kText, "word",
     "A metric (gpu.power.draw), an event (gpu.xid), an XID (79 or \"xid 79\") or an SXid (\"sxid 20034\").",
     true}};
constexpr Parameter kExperimentParameters[] = {
    {Parameter::kText, "id", "One run with parameters and curves: its id, or a unique end of it."},
    {Parameter::kTexts, "metric", "With id: the curves of these metrics. Default: the first twelve."},
    {Parameter::kText, "status", "Without id: only runs that are running, done, failed or crashed."},
    {Parameter::kText, "name", "Without id: only runs of this name."},
    {Parameter::kWhole, "limit", "Without id: number of runs, the newest: 20 (default), at most 100."}};

constexpr std::string_view kReadingsSchema =
    R"({"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"attributes":{"type":"object"},)"
    R"("value":{"type":"number","description":"in unit"},"unit":{"type":"string","description":"UCUM"},)"
    R"("stale_ms":{"type":"integer","description":"age of a value that is old, in milliseconds; absent: it is new"}},)"
    R"("required":["name","value","unit"]}})";

const std::string& GpusSchema() {
  static const std::string text =
      R"({"type":"object","properties":{"at":{"type":"string","description":"time of the values, UTC"},)"
      R"("simulated":{"type":"boolean"},"node":{"type":"object"},"gpus":{"type":"array","items":{"type":"object",)"
      R"("properties":{"attributes":{"type":"object","description":"gpu.index, gpu.uuid, gpu.model, pod or job"},)"
      R"("throttled_by":{"type":"array","items":{"type":"string"}},"readings":)" +
      std::string(kReadingsSchema) +
      R"(,"processes":{"type":"array","items":{"type":"object","properties":{"memory_bytes":{"type":"number"}}}}},)"
      R"("required":["attributes","readings"]}}},"required":["at","simulated","gpus"]})";
  return text;
}
const std::string& EnginesSchema() {
  static const std::string text =
      R"({"type":"object","properties":{"at":{"type":"string","description":"time of the values, UTC"},)"
      R"("simulated":{"type":"boolean"},"node":{"type":"object"},"engines":{"type":"array","items":{"type":"object",)"
      R"("properties":{"engine":{"type":"string"},"up":{"type":"boolean"},"readings":)" +
      std::string(kReadingsSchema) +
      R"(},"required":["engine","readings"]}}},"required":["at","simulated","engines"]})";
  return text;
}
constexpr std::string_view kHistorySchema =
    R"({"type":"object","properties":{"from":{"type":"integer","description":"milliseconds since 1970"},)"
    R"("to":{"type":"integer"},"step_s":{"type":"number","description":"seconds"},"series":{"type":"array","items":)"
    R"({"type":"object","properties":{"name":{"type":"string"},"unit":{"type":"string","description":"UCUM; rate is per )"
    R"(second"},"attributes":{"type":"object"},"avg":{"type":"array","items":{"type":["number","null"]},"description":)"
    R"("one value a step, null: unknown"}},"required":["name","unit","attributes"]}}},"required":["series"]})";
constexpr std::string_view kEventsSchema =
    R"({"type":"object","properties":{"events":{"type":"array","items":{"type":"object","properties":{"at":{"type":)"
    R"("integer","description":"milliseconds since 1970"},"name":{"type":"string"},"severity":{"type":"string"},"body":)"
    R"({"type":"string"},"attributes":{"type":"object"}},"required":["at","name"]}}},"required":["events"]})";
constexpr std::string_view kAnyObjectSchema = R"({"type":"object"})";

}  // namespace

Result<Arguments> Arguments::Parse(std::string_view json_text, std::span<const Parameter> parameters) {
  Arguments arguments;
  Status wrong = Ok();
  JsonScanner json(json_text);
  const auto check = [&](bool good, const std::string& detail) {
    if (!good && wrong) wrong = Wrong(detail);
    return good;
  };
  if (!json_text.empty()) {
    json.Object([&](std::string_view key) {
      const auto parameter = std::ranges::find(parameters, key, &Parameter::name);
      std::string names;
      for (const Parameter& one : parameters) names.append(names.empty() ? "" : ", ").append(one.name);
      if (!check(parameter != parameters.end(),
                 "there is no argument " + Printable(key.substr(0, 100)) +
                     (names.empty() ? "; there are none" : "; there are " + names)))
        return;
      const std::string name(parameter->name);
      if (!check(!arguments.Find(name) && arguments.values_.size() < kMostArguments, name + " comes twice"))
        return;
      std::vector<std::string> values;
      const auto add = [&](Parameter::Type type) {
        const JsonScanner::Kind kind = json.Peek();
        if (type == Parameter::kWhole) {
          const std::string_view raw = RawValue(json, json_text);
          const auto whole = kind == JsonScanner::kNumber ? JsonInteger<int64_t>(raw) : std::nullopt;
          if (check(whole.has_value(), name + " must be a whole number"))
            values.push_back(std::to_string(*whole));
        } else if (kind == JsonScanner::kNumber && type == Parameter::kText) {
          // "gpu": 3 is what people mean by "3".
          values.emplace_back(RawValue(json, json_text).substr(0, kMostValue));
        } else if (check(kind == JsonScanner::kString, name + " must be a text")) {
          const std::string_view text = json.Text();
          if (check(text.size() <= kMostValue && !text.empty(),
                    name + " must have 1 to " + std::to_string(kMostValue) + " bytes"))
            values.emplace_back(text);
        }
      };
      if (json.Peek() == JsonScanner::kNull) return;  // as if it were not given
      if (parameter->type == Parameter::kTexts && json.Peek() == JsonScanner::kArray) {
        json.Array([&] {
          if (check(values.size() < kMostValues,
                    name + " has more than " + std::to_string(kMostValues) + " elements"))
            add(Parameter::kTexts);
        });
      } else {
        add(parameter->type);
      }
      arguments.values_.emplace_back(name, std::move(values));
    });
  }
  RETURN_IF_ERROR(wrong);
  for (const Parameter& parameter : parameters) {
    if (parameter.required && arguments.All(parameter.name).empty())
      return Wrong("the argument " + std::string(parameter.name) + " is missing. " +
                   std::string(parameter.description));
  }
  return arguments;
}

std::span<const std::string> Arguments::All(std::string_view name) const noexcept {
  for (const auto& [key, values] : values_) {
    if (key == name) return values;
  }
  return {};
}

const std::string* Arguments::Find(std::string_view name) const noexcept {
  const std::span<const std::string> all = All(name);
  return all.empty() ? nullptr : &all.front();
}

std::span<const Tool> Tools() noexcept {
  static const Tool tools[] = {
      {"list_gpus",
       "GPUs now",
       "Lists the GPUs of the node with their latest readings: utilization (ratio), memory (bytes), power "
       "(watts), "
       "temperatures (degrees Celsius), clocks, health, reasons for throttling, and the processes on them.",
       {},
       GpusSchema(),
       ListGpus},
      {"history", "Values over time",
       "Returns values of up to the last hour in equal steps: minimum, average, maximum, last and, of "
       "counters, the rate per "
       "second, in the unit of each series. At most 100 series. explain has the meaning of a metric.",
       kHistoryParameters, kHistorySchema, ReadHistory},
      {"events", "Events",
       "Lists what happened, newest first: XIDs, resets, lost GPUs, throttling, ended processes, changes of "
       "health.",
       kEventParameters, kEventsSchema, ReadEvents},
      {"why", "What limits it",
       "Finds what holds back each GPU, engine and job over the last minutes, with evidence (series and "
       "values), the cost as "
       "a share of useful time (ratio), and what to do. It also lists what was looked at without a finding, "
       "and what "
       "could not be decided.",
       kWhyParameters, kAnyObjectSchema, ReadWhy},
      {"explain", "Meaning of a name or code",
       "Explains a metric (unit, kind, attributes), an event, or an XID or SXid with what to do about it.",
       kExplainParameters, kAnyObjectSchema, Explain},
      {"engines", "LLM engines now",
       "Lists the LLM engines, routers and caches that the node reads, with their latest readings: requests "
       "that run and wait, "
       "KV cache use (ratio), cache hits (ratio), latencies (seconds). For rates of counters use history.",
       kEngineParameters, EnginesSchema(), ListEngines},
      {"experiments", "Recorded runs",
       "Lists recorded runs of programs, newest first, with energy (joules), duration (seconds) and last "
       "metrics; by id one "
       "run with parameters and curves.",
       kExperimentParameters, kAnyObjectSchema, ReadExperiments},
  };
  return tools;
}

}  // namespace gpulens::mcp
