#include "catalog/prometheus_name.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

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

constexpr Pair kUnits[] = {
    {"d", "days"},
    {"h", "hours"},
    {"min", "minutes"},
    {"s", "seconds"},
    {"ms", "milliseconds"},
    {"us", "microseconds"},
    {"ns", "nanoseconds"},
    {"By", "bytes"},
    {"KiBy", "kibibytes"},
    {"MiBy", "mebibytes"},
    {"GiBy", "gibibytes"},
    {"TiBy", "tibibytes"},
    {"KBy", "kilobytes"},
    {"MBy", "megabytes"},
    {"GBy", "gigabytes"},
    {"TBy", "terabytes"},
    {"m", "meters"},
    {"V", "volts"},
    {"A", "amperes"},
    {"J", "joules"},
    {"W", "watts"},
    {"g", "grams"},
    {"Cel", "celsius"},
    {"Hz", "hertz"},
    {"1", ""},
    {"%", "percent"},
};
constexpr Pair kPerUnits[] = {
    {"s", "second"}, {"m", "minute"}, {"h", "hour"}, {"d", "day"},
    {"w", "week"},   {"mo", "month"}, {"y", "year"},
};

template <size_t kSize>
std::string_view Look(const Pair (&table)[kSize], std::string_view key, std::string_view otherwise) noexcept {
  auto found = std::ranges::find(table, key, &Pair::first);
  return found == std::end(table) ? otherwise : found->second;
}

bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }
bool IsWordCharacter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IsDigit(c);
}
// A colon is part of a word: recording rules are named with it.
bool IsNameCharacter(char c) noexcept { return IsWordCharacter(c) || c == ':'; }

// Takes the next word off the front of `rest`; empty when none is left.
std::string_view TakeWord(std::string_view& rest) noexcept {
  while (!rest.empty() && !IsNameCharacter(rest.front())) rest.remove_prefix(1);
  size_t size = 0;
  while (size < rest.size() && IsNameCharacter(rest[size])) ++size;
  std::string_view word = rest.substr(0, size);
  rest.remove_prefix(size);
  return word;
}

bool HasWord(std::string_view name, std::string_view word) noexcept {
  for (std::string_view next = TakeWord(name); !next.empty(); next = TakeWord(name)) {
    if (next == word) return true;
  }
  return false;
}

class NameBuilder {
 public:
  explicit NameBuilder(std::string& out) noexcept : out_(out), start_(out.size()) {}
  void Add(std::string_view word) {
    if (word.empty()) return;
    if (out_.size() > start_ || IsDigit(word.front())) out_ += '_';
    out_ += word;
  }
  void AddWords(std::string_view text, std::string_view but) {
    for (std::string_view word = TakeWord(text); !word.empty(); word = TakeWord(text)) {
      if (word != but) Add(word);
    }
  }
  // The words of `unit` that the name does not have yet.
  void AddUnit(std::string_view unit) {
    for (std::string_view word = TakeWord(unit); !word.empty(); word = TakeWord(unit)) {
      if (!HasWord(std::string_view(out_).substr(start_), word)) Add(word);
    }
  }

 private:
  std::string& out_;
  const size_t start_;
};

// A unit or a part of one in braces says what is counted and is left out.
bool IsAnnotation(std::string_view unit) noexcept { return unit.find('{') != std::string_view::npos; }

// "By/s" is bytes per second, "{error}/h" per hour. After a second slash the unit is left out.
void AddUnitWords(NameBuilder& name, std::string_view unit) {
  size_t slash = unit.find('/');
  std::string_view main = unit.substr(0, slash);
  if (!IsAnnotation(main)) name.AddUnit(Look(kUnits, main, main));
  if (slash == std::string_view::npos) return;
  std::string_view per = unit.substr(slash + 1);
  if (per.empty() || IsAnnotation(per)) return;
  name.Add("per");
  name.AddUnit(Look(kPerUnits, per, per));
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
  if (std::string_view customary = Look(kCustomary, metric.name, {}); !customary.empty()) {
    out += customary;
    return;
  }
  NameBuilder name(out);
  std::string_view last = LastWord(metric);
  name.AddWords(metric.name, last);
  // A name without an ASCII letter or digit stays: pages escape it for their reader.
  std::string_view rest = metric.name;
  if (TakeWord(rest).empty()) out += metric.name;
  if (metric.kind != Kind::kInfo && metric.kind != Kind::kStateSet) AddUnitWords(name, metric.unit);
  name.Add(last);
}

void AppendPrometheusLabel(std::string& out, std::string_view key) {
  if (!key.empty() && IsDigit(key.front())) out += "key_";
  while (!key.empty()) {
    size_t length = std::max<size_t>(1, Utf8Length(key));
    out += IsWordCharacter(key.front()) ? key.front() : '_';
    key.remove_prefix(length);
  }
}

}  // namespace gpulens
