#include "catalog/prometheus_name.h"

#include <algorithm>
#include <utility>

namespace gpulens {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Names of Prometheus' client libraries, older than OpenTelemetry's.
constexpr Pair kCustomary[] = {
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

}  // namespace

void AppendPrometheusName(std::string& out, const MetricDesc& metric) {
  if (metric.naming == Naming::kVerbatim) {
    out += metric.name;
    return;
  }
  if (const auto* customary = std::ranges::find(kCustomary, metric.name, &Pair::first);
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

}  // namespace gpulens
