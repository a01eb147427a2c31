#include "catalog/exported_name.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "catalog/all.h"

namespace gpulens {
namespace {

using CustomaryName = std::pair<std::string_view, std::string_view>;

// Names of Prometheus' client libraries, older than OpenTelemetry's.
constexpr CustomaryName kCustomary[] = {
    {"process.cpu.time", "process_cpu_seconds_total"},
    {"process.memory.usage", "process_resident_memory_bytes"},
    {"process.memory.virtual", "process_virtual_memory_bytes"},
    {"process.unix.file_descriptor.count", "process_open_fds"},
    {"process.unix.file_descriptor.limit", "process_max_fds"},
    {"process.start.time", "process_start_time_seconds"},
};

class NameBuilder {
 public:
  explicit NameBuilder(std::string& out) noexcept : out_(out), start_(out.size()) {}
  void Add(std::string_view word) {
    if (word.empty()) return;
    if (out_.size() > start_ || (word.front() >= '0' && word.front() <= '9')) out_ += '_';
    out_ += word;
  }
  void AddWords(std::string_view text, std::string_view but) {
    for (std::string_view word = TakePrometheusWord(text); !word.empty(); word = TakePrometheusWord(text)) {
      if (word != but) Add(word);
    }
  }
  // The words of `unit` that the name does not have yet.
  void AddUnit(std::string_view unit) {
    for (std::string_view word = TakePrometheusWord(unit); !word.empty(); word = TakePrometheusWord(unit)) {
      if (!HasPrometheusWord(std::string_view(out_).substr(start_), word)) Add(word);
    }
  }
  bool HasWordsOf(std::string_view unit) const {
    for (std::string_view word = TakePrometheusWord(unit); !word.empty(); word = TakePrometheusWord(unit)) {
      if (!HasPrometheusWord(std::string_view(out_).substr(start_), word)) return false;
    }
    return true;
  }

 private:
  std::string& out_;
  const size_t start_;
};

// A unit or a part of one in braces is what is counted; it is left out.
bool IsAnnotation(std::string_view unit) noexcept { return unit.find('{') != std::string_view::npos; }

// "By/s" is bytes per second, "{error}/h" per hour. After a second slash the unit is left out.
void AddUnitWords(NameBuilder& name, std::string_view unit) {
  size_t slash = unit.find('/');
  std::string_view main = unit.substr(0, slash);
  if (!IsAnnotation(main)) name.AddUnit(PrometheusUnit(main));
  if (slash == std::string_view::npos) return;
  std::string_view per = unit.substr(slash + 1);
  if (per.empty() || IsAnnotation(per)) return;
  // As otlptranslator: a name that has the unit has "per", too.
  if (name.HasWordsOf(PrometheusPerUnit(per))) return;
  name.Add("per");
  name.AddUnit(PrometheusPerUnit(per));
}

// Appends the suffix of the kind, once: it is removed where the name already has it.
std::string_view LastWord(const MetricDesc& metric) noexcept {
  if (metric.kind == Kind::kCounter) return "total";
  if (metric.kind == Kind::kInfo) return "info";
  if (metric.kind == Kind::kGauge && metric.unit == "1") return "ratio";
  return {};
}

constexpr std::string_view kOfPrometheus[] = {"up",
                                              "scrape_duration_seconds",
                                              "scrape_samples_scraped",
                                              "scrape_samples_post_metric_relabeling",
                                              "scrape_series_added",
                                              "ALERTS",
                                              "ALERTS_FOR_STATE"};
// Suffixes by which a sample of one family may have the name of another.
constexpr std::string_view kSuffixes[] = {"_total", "_bucket",  "_sum",  "_count",
                                          "_info",  "_created", "_gsum", "_gcount"};

// The name on a page with ASCII names only.
std::string PlainOf(std::string_view name) {
  std::string key(name);
  for (char& c : key) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && c != ':') c = '_';
  }
  return key;
}

// PlainOf without the suffix of a sample.
std::string KeyOf(std::string_view name) {
  std::string key = PlainOf(name);
  for (std::string_view suffix : kSuffixes) {
    if (!key.ends_with(suffix) || key.size() == suffix.size()) continue;
    key.resize(key.size() - suffix.size());
    break;
  }
  return key;
}

std::string PrometheusName(const MetricDesc& metric) {
  std::string name;
  AppendPrometheusName(name, metric);
  return name;
}

// Rows that programs bring: the agent writes none of them, or only about itself.
bool IsFree(std::string_view native) noexcept {
  return native.starts_with("process.") || native.starts_with("training.") || native == "target.info";
}

// Hashes, as the names would take 40 KiB. A collision only adds a prefix.
const std::vector<uint64_t>& Reserved() {
  static const std::vector<uint64_t> all = [] {
    std::vector<uint64_t> made;
    for (const MetricDesc* row : AllMetrics()) {
      if (IsFree(row->name)) continue;
      made.push_back(Fnv1a(KeyOf(row->name)));
      made.push_back(Fnv1a(KeyOf(PrometheusName(*row))));
    }
    std::ranges::sort(made);
    const auto twice = std::ranges::unique(made);
    made.erase(twice.begin(), twice.end());
    made.shrink_to_fit();
    return made;
  }();
  return all;
}

bool IsReservedText(std::string_view name, NameOwner owner) {
  const std::string plain = PlainOf(name), key = KeyOf(name);
  if (std::ranges::find(kOfPrometheus, plain) != std::end(kOfPrometheus)) return true;
  const auto begins = [&key](std::string_view with) { return key.starts_with(with); };
  if (key == "gpulens" || begins("gpulens_")) return true;
  if (owner == NameOwner::kProgram && (key == "gpu" || begins("gpu_") || begins("DCGM_FI_") || begins("hw_")))
    return true;
  return std::ranges::binary_search(Reserved(), Fnv1a(key));
}

}  // namespace

void AppendPrometheusName(std::string& out, const MetricDesc& metric) {
  if (metric.naming == Naming::kVerbatim) {
    out += metric.name;
    return;
  }
  if (const auto* customary = std::ranges::find(kCustomary, metric.name, &CustomaryName::first);
      customary != std::end(kCustomary)) {
    out += customary->second;
    return;
  }
  NameBuilder name(out);
  std::string_view last = LastWord(metric);
  name.AddWords(metric.name, last);
  // A name without an ASCII letter or digit stays: pages escape it for their reader.
  std::string_view rest = metric.name;
  if (TakePrometheusWord(rest).empty()) out += metric.name;
  if (metric.kind != Kind::kInfo && metric.kind != Kind::kStateSet) AddUnitWords(name, metric.unit);
  name.Add(last);
}

bool IsReservedName(const MetricDesc& brought, NameOwner owner) {
  return IsReservedText(brought.name, owner) || IsReservedText(PrometheusName(brought), owner);
}

std::string ExportedName(const MetricDesc& brought, NameOwner owner) {
  if (!IsReservedName(brought, owner)) return std::string(brought.name);
  const bool verbatim = brought.naming == Naming::kVerbatim;
  return (verbatim ? "exported_" : "exported.") + std::string(brought.name);
}

}  // namespace gpulens
