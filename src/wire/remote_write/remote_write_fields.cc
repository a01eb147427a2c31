#include "wire/remote_write/remote_write_fields.h"

#include <protozero/pbf_writer.hpp>
#include <utility>

#include "base/parse.h"
#include "core/prometheus_words.h"

namespace gpulens {
namespace {

using UnitName = std::pair<std::string_view, std::string_view>;

// Whole words of OpenMetrics, and UCUM's symbols.
constexpr UnitName kUcumUnits[] = {
    {"days", "d"},          {"hours", "h"},         {"minutes", "min"},    {"seconds", "s"},
    {"milliseconds", "ms"}, {"microseconds", "us"}, {"nanoseconds", "ns"}, {"bytes", "By"},
    {"kibibytes", "KiBy"},  {"mebibytes", "MiBy"},  {"gibibytes", "GiBy"}, {"tebibytes", "TiBy"},
    {"kilobytes", "kBy"},   {"megabytes", "MBy"},   {"gigabytes", "GBy"},  {"terabytes", "TBy"},
    {"bits", "bit"},        {"meters", "m"},        {"volts", "V"},        {"amperes", "A"},
    {"joules", "J"},        {"watts", "W"},         {"grams", "g"},        {"celsius", "Cel"},
    {"kelvin", "K"},        {"hertz", "Hz"},        {"percent", "%"},      {"ratio", "1"},
};
// After "per".
constexpr UnitName kUcumPer[] = {{"second", "s"}, {"minute", "min"}, {"hour", "h"}, {"day", "d"},
                                 {"week", "wk"},  {"month", "mo"},   {"year", "a"}};

template <size_t N>
std::string_view Short(const UnitName (&table)[N], std::string_view word) noexcept {
  for (const auto& [is, becomes] : table)
    if (is == word) return becomes;
  return word;
}

}  // namespace

void OtlpUnitOf(std::string_view unit, std::string& out) {
  out.clear();
  const size_t per = unit.find("_per_");
  if (per == std::string_view::npos) {
    out = Short(kUcumUnits, unit);
    return;
  }
  out = Short(kUcumUnits, unit.substr(0, per));
  out += '/';
  out += Short(kUcumPer, unit.substr(per + 5));
}

std::string_view PrometheusTypeName(remote_write::Type type) noexcept {
  using remote_write::Type;
  switch (type) {
    case Type::kUnknown: break;
    case Type::kCounter: return "counter";
    case Type::kGauge: return "gauge";
    case Type::kHistogram: return "histogram";
    case Type::kGaugeHistogram: return "gaugehistogram";
    case Type::kSummary: return "summary";
    case Type::kInfo: return "info";
    case Type::kStateSet: return "stateset";
  }
  return "unknown";
}

remote_write::Type TypeOfNumber(uint64_t number) noexcept {
  using remote_write::Type;
  return number <= static_cast<uint64_t>(Type::kStateSet) ? static_cast<Type>(number) : Type::kUnknown;
}

FloatKind FloatKindOf(remote_write::Type type, std::string_view name) noexcept {
  using remote_write::Type;
  const bool counts = name.ends_with("_count") || name.ends_with("_sum");
  switch (type) {
    case Type::kCounter: return name.ends_with("_created") ? FloatKind::kGauge : FloatKind::kCounter;
    case Type::kHistogram:
      return counts || name.ends_with("_bucket") ? FloatKind::kCounter : FloatKind::kGauge;
    case Type::kSummary: return counts ? FloatKind::kCounter : FloatKind::kGauge;
    case Type::kInfo:
    case Type::kStateSet: return FloatKind::kState;
    case Type::kUnknown:
    case Type::kGauge:
    case Type::kGaugeHistogram: break;
  }
  return FloatKind::kGauge;
}

}  // namespace gpulens

namespace gpulens::remote_write {
namespace {

// The words of `text` joined by underscores.
void AppendWords(std::string& out, std::string_view text) {
  bool first = true;
  for (std::string_view word = TakePrometheusWord(text); !word.empty();
       word = TakePrometheusWord(text), first = false) {
    if (!first) out += '_';
    out += word;
  }
}

// A part of a unit with braces names what is counted; Prometheus has none.
std::string_view WithoutAnnotation(std::string_view part) noexcept {
  return part.find_first_of("{}") == std::string_view::npos ? Trim(part) : std::string_view();
}

struct UnitParts {
  std::string_view main, per;
};
UnitParts Split(std::string_view unit) noexcept {
  const size_t slash = unit.find('/');
  UnitParts parts;
  parts.main = PrometheusUnit(WithoutAnnotation(unit.substr(0, slash)));
  if (slash != std::string_view::npos)
    parts.per = PrometheusPerUnit(WithoutAnnotation(unit.substr(slash + 1)));
  return parts;
}

}  // namespace

void AppendLabel(std::string& out, uint32_t field, std::string_view name, std::string_view value) {
  protozero::pbf_writer message(out), label(message, field);
  label.add_string(kLabelName, name.data(), name.size());
  label.add_string(kLabelValue, value.data(), value.size());
}

size_t Characters(std::string_view text) noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

bool AreBounds(const std::vector<double>& bounds) noexcept {
  for (size_t i = 0; i < bounds.size(); ++i)
    if (!std::isfinite(bounds[i]) || (i != 0 && bounds[i] <= bounds[i - 1])) return false;
  return true;
}

void AppendMetricName(std::string& out, std::string_view name, std::string_view unit, NameKind kind) {
  const std::string_view last = kind == NameKind::kCounter                ? "total"
                                : kind == NameKind::kGauge && unit == "1" ? "ratio"
                                                                          : std::string_view();
  const size_t start = out.size();
  const auto separate = [&] {
    if (out.size() > start) out += '_';
  };
  std::string_view rest = name;
  bool any = false;
  for (std::string_view word = TakePrometheusWord(rest); !word.empty(); word = TakePrometheusWord(rest)) {
    any = true;
    if (word == last) continue;  // it moves to the end
    if (out.size() == start && (word.front() >= '0' && word.front() <= '9')) out += '_';
    else separate();
    out += word;
  }
  if (!any) return;
  const auto [main, per] = Split(unit);
  if (!main.empty() && !HasPrometheusWord(name, main)) {
    const size_t before = out.size();
    separate();
    const size_t begin = out.size();
    AppendWords(out, main);
    if (out.size() == begin) out.resize(before);
  }
  if (!per.empty()) {
    separate();
    out += "per_";
    AppendWords(out, per);
  }
  if (!last.empty()) {
    separate();
    out += last;
  }
}

void AppendUnitName(std::string& out, std::string_view unit) {
  if (unit == "1") {
    out += "ratio";
    return;
  }
  const auto [main, per] = Split(unit);
  AppendWords(out, main);
  if (per.empty()) return;
  if (!out.empty()) out += '_';
  out += "per_";
  AppendWords(out, per);
}

}  // namespace gpulens::remote_write
