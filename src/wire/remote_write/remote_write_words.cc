#include "wire/remote_write/remote_write_words.h"

#include <utility>

namespace gpulens {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// Whole words of OpenMetrics, and UCUM's symbols.
constexpr Pair kUnits[] = {
    {"days", "d"},          {"hours", "h"},         {"minutes", "min"},    {"seconds", "s"},
    {"milliseconds", "ms"}, {"microseconds", "us"}, {"nanoseconds", "ns"}, {"bytes", "By"},
    {"kibibytes", "KiBy"},  {"mebibytes", "MiBy"},  {"gibibytes", "GiBy"}, {"tebibytes", "TiBy"},
    {"kilobytes", "kBy"},   {"megabytes", "MBy"},   {"gigabytes", "GBy"},  {"terabytes", "TBy"},
    {"bits", "bit"},        {"meters", "m"},        {"volts", "V"},        {"amperes", "A"},
    {"joules", "J"},        {"watts", "W"},         {"grams", "g"},        {"celsius", "Cel"},
    {"kelvin", "K"},        {"hertz", "Hz"},        {"percent", "%"},      {"ratio", "1"},
};
// What stands behind "per".
constexpr Pair kPer[] = {{"second", "s"}, {"minute", "min"}, {"hour", "h"}, {"day", "d"},
                         {"week", "wk"},  {"month", "mo"},   {"year", "a"}};

template <size_t N>
std::string_view Short(const Pair (&table)[N], std::string_view word) noexcept {
  for (const auto& [is, becomes] : table)
    if (is == word) return becomes;
  return word;
}

}  // namespace

void OtlpUnitOf(std::string_view unit, std::string& out) {
  out.clear();
  const size_t per = unit.find("_per_");
  if (per == std::string_view::npos) {
    out = Short(kUnits, unit);
    return;
  }
  out = Short(kUnits, unit.substr(0, per));
  out += '/';
  out += Short(kPer, unit.substr(per + 5));
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
