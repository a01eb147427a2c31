// Builders, attribute keys and rules for the rows of the catalogue.
//
// A row is one METRIC(id, …) in a .def file of this folder: an inline constexpr MetricDesc that the area's
// header declares and lists. Rows are compared by address. Limits are in the unit of the row, after scaling;
// sentinels are raw readings, before it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "core/metric_desc.h"

// Row builders are found by the name alone inside namespace row, whatever else a program names Counter or
// Gauge.
#define GPULENS_DECLARE_METRIC(id, ...)         \
  namespace row {                               \
  inline constexpr MetricDesc id = __VA_ARGS__; \
  }                                             \
  using row::id;
#define GPULENS_LIST_METRIC(id, ...) &id,

namespace gpulens {

// Text as a template argument.
template <size_t kSize>
struct KeyText {
  char text[kSize];
  consteval KeyText(const char (&from)[kSize]) { std::copy_n(from, kSize, text); }
  constexpr std::string_view view() const { return {text, kSize - 1}; }
};

// Joins lists of rows at compile time. Lists are arrays of any kind.
template <class... Lists>
consteval auto JoinRows(const Lists&... lists) {
  std::array<const MetricDesc*, (sizeof(Lists) + ...) / sizeof(MetricDesc*)> all{};
  auto out = all.begin();
  ((out = std::copy(std::begin(lists), std::end(lists), out)), ...);
  return all;
}

// The metrics of lists, each once. An element of a list is a metric, or a row with a member `metric`, which
// may be null, and perhaps `part_metric`.
template <const auto&... lists>
consteval auto MetricsOf() {
  constexpr auto kAll = [] {
    std::array<const MetricDesc*, 2 * (std::size(lists) + ...)> all{};
    auto end = all.begin();
    auto add = [&](const MetricDesc* metric) {
      if (metric && std::find(all.begin(), end, metric) == end) *end++ = metric;
    };
    auto add_element = [&](const auto& element) {
      if constexpr (requires { element.metric; }) add(element.metric);
      else add(element);
      if constexpr (requires { element.part_metric; }) add(element.part_metric);
    };
    (std::for_each(std::begin(lists), std::end(lists), add_element), ...);
    return std::pair(all, static_cast<size_t>(end - all.begin()));
  }();
  std::array<const MetricDesc*, kAll.second> out{};
  std::copy_n(kAll.first.begin(), out.size(), out.begin());
  return out;
}

// The rows whose names begin with `prefix`.
template <const auto& rows, KeyText prefix>
consteval auto RowsWithPrefix() {
  constexpr auto kBegins = [](const MetricDesc* row) { return row->name.starts_with(prefix.view()); };
  std::array<const MetricDesc*, std::count_if(std::begin(rows), std::end(rows), kBegins)> found{};
  std::copy_if(std::begin(rows), std::end(rows), found.begin(), kBegins);
  return found;
}

}  // namespace gpulens

namespace gpulens::row {

// The attributes a row may add to its entity's: `row::kKeys<"gpu.clock.type">`.
template <KeyText... keys>
inline constexpr std::string_view kKeys[] = {keys.view()...};

// Values by which drivers report "unknown", in 16, 32 and 64 bits.
inline constexpr double kUnknown16[] = {65535};
inline constexpr double kUnknown16Or32[] = {65535, 4294967295.0};
inline constexpr double kUnknown64[] = {-1, 18446744073709551615.0};
inline constexpr double kUnknownPowerState[] = {32};
inline constexpr double kUnknownSpeed[] = {-1};

inline constexpr Rule kZeroToOne{.low = 0, .high = 1};
inline constexpr Rule kNotNegative{.low = 0};
// Above zero, whatever the unit.
inline constexpr Rule kPositive{.low = 1e-3};
inline constexpr Rule kPercent{.low = 0, .high = 100};
inline constexpr Rule kAnyNumber{};  // but NaN
// Of a published peak, which a board that boosts above its rated clock may pass a little.
inline constexpr Rule kFlopsUtilization{.low = 0, .high = 1.1};

inline constexpr Rule kUtilization{.low = 0, .high = 1, .sentinels = kUnknown16Or32};
inline constexpr Rule kUsedMemory{.low = 0, .sentinels = kUnknown64};
// The largest modules are rated below 3 kW; a collector that knows the board's limit may be stricter.
inline constexpr Rule kPower{.low = 0, .high = 5000, .sentinels = kUnknown16};
inline constexpr Rule kPowerShare{.low = 0, .high = 1.5};
inline constexpr Rule kBoardEnergy{.low = 0, .max_change_per_second = 5000};
inline constexpr Rule kDieTemperature{
    .low = -40, .high = 130, .max_change_per_second = 25, .sentinels = kUnknown16};
inline constexpr Rule kSensorTemperature{.low = -40, .high = 130, .sentinels = kUnknown16};
// Distance to the temperature at which something happens; it falls as the GPU heats.
inline constexpr Rule kTemperatureMargin{.low = -40, .high = 150};
inline constexpr Rule kMarginLimit{.low = -60, .high = 60};
inline constexpr Rule kTemperatureLimit{.low = 0, .high = 150};
inline constexpr Rule kRampRate{.low = -600, .high = 600};
inline constexpr Rule kFanRotation{.low = 0, .high = 20'000, .sentinels = kUnknown16};
inline constexpr Rule kVoltage{.low = 0, .high = 3, .sentinels = kUnknown16};
inline constexpr Rule kXidCode{.low = 1, .high = 4095};
// Above every clock a board has, effective memory clocks included.
inline constexpr Rule kClock{.low = 0, .high = 20'000, .sentinels = kUnknown16};
inline constexpr Rule kPowerState{.low = 0, .high = 15, .sentinels = kUnknownPowerState};
inline constexpr Rule kFanSpeed{.low = 0, .high = 1.3};
// 1.1 times a generation 7 link of 16 lanes; 1.1 times NVLink of twice the fastest generation.
inline constexpr Rule kPcieRate{.low = 0, .high = 2.8e11};
inline constexpr Rule kLinkRate{.low = 0, .high = 4e12};
inline constexpr Rule kPcieGeneration{.low = 1, .high = 7};
inline constexpr Rule kPcieWidth{.low = 1, .high = 32, .sentinels = kUnknown16};

// The kernel's counter underflows to 2^32-n.
inline constexpr Rule kPendingOperations{.low = 0, .high = 2147483647};
inline constexpr Rule kNetworkSpeed{.low = 0, .sentinels = kUnknownSpeed};
// The kernel limits the remaining offset to half a second.
inline constexpr Rule kTimeOffset{.low = -1, .high = 1};
// Seconds per second, with the slack that reading times need.
inline constexpr Rule kDiskBusy{.low = 0, .max_change_per_second = 1.1};
// Faster than time itself means a wrong unit.
inline constexpr Rule kThrottledTime{.low = 0, .max_change_per_second = 1.05};
inline constexpr Rule kPressureTime{.low = 0, .max_change_per_second = 1.05};

using AttributeKeys = std::span<const std::string_view>;

// Bytes, megahertz and counted things are integers, all else is not.
consteval Number NumberOf(std::string_view unit) {
  bool counted = unit.starts_with('{') && unit.ends_with('}');
  return counted || unit == "By" || unit == "MHz" ? Number::kInt : Number::kDouble;
}

// One builder per kind. The default rule: a number, not negative.
consteval MetricDesc Of(Kind kind, std::string_view name, std::string_view unit, std::string_view help) {
  return {.name = name, .unit = unit, .help = help, .kind = kind, .number = NumberOf(unit)};
}
consteval MetricDesc With(MetricDesc row, AttributeKeys keys, const Rule* rule) {
  row.keys = keys;
  row.rule = rule;
  return row;
}
consteval MetricDesc Gauge(std::string_view name, std::string_view unit, std::string_view help,
                           AttributeKeys keys = {}, const Rule* rule = &kNotNegative) {
  return With(Of(Kind::kGauge, name, unit, help), keys, rule);
}
// A level that may be added over its entities.
consteval MetricDesc UpDown(std::string_view name, std::string_view unit, std::string_view help,
                            AttributeKeys keys = {}, const Rule* rule = &kNotNegative) {
  return With(Of(Kind::kUpDownCounter, name, unit, help), keys, rule);
}
// A decrease means that its source restarted.
consteval MetricDesc Counter(std::string_view name, std::string_view unit, std::string_view help,
                             AttributeKeys keys = {}, const Rule* rule = &kNotNegative) {
  return With(Of(Kind::kCounter, name, unit, help), keys, rule);
}
// A decrease is a glitch until further readings confirm it.
consteval MetricDesc StrictCounter(std::string_view name, std::string_view unit, std::string_view help,
                                   AttributeKeys keys = {}, const Rule* rule = &kNotNegative) {
  MetricDesc row = Counter(name, unit, help, keys, rule);
  row.on_decrease = OnDecrease::kReject;
  return row;
}
consteval MetricDesc Histogram(std::string_view name, std::string_view unit, std::string_view help,
                               AttributeKeys keys = {}) {
  MetricDesc row = With(Of(Kind::kHistogram, name, unit, help), keys, nullptr);
  row.number = Number::kDouble;
  return row;
}
// Cells are its quantiles, sum and count.
consteval MetricDesc Summary(std::string_view name, std::string_view unit, std::string_view help,
                             AttributeKeys keys = {}) {
  MetricDesc row = With(Of(Kind::kSummary, name, unit, help), keys, &kNotNegative);
  row.number = Number::kDouble;
  return row;
}
consteval MetricDesc Flag(std::string_view name, std::string_view help, AttributeKeys keys = {}) {
  return With(Of(Kind::kGauge, name, "{bool}", help), keys, &kZeroToOne);
}
// Always 1; its attributes carry the information.
consteval MetricDesc Info(std::string_view name, std::string_view help, AttributeKeys keys = {}) {
  MetricDesc row = With(Of(Kind::kInfo, name, "", help), keys, &kZeroToOne);
  row.number = Number::kInt;
  return row;
}
// One series per state, 1 for the one that holds. Its attribute key is its name.
consteval MetricDesc StateSet(std::string_view name, std::string_view help, AttributeKeys keys) {
  MetricDesc row = Info(name, help, keys);
  row.kind = Kind::kStateSet;
  return row;
}
// Exported at every level; a few per GPU and host.
consteval MetricDesc Essential(MetricDesc row) {
  row.level = MetricLevel::kEssential;
  return row;
}
// Exported unless the level is essential.
consteval MetricDesc Standard(MetricDesc row) {
  row.level = MetricLevel::kStandard;
  return row;
}
// Off unless the configuration enables it, wholly or by one attribute key.
consteval MetricDesc OptIn(MetricDesc row) {
  row.opt_in = true;
  return row;
}
// Follows a convention that is not settled yet; all other names, units and meanings never change.
consteval MetricDesc InDevelopment(MetricDesc row) {
  row.stability = Stability::kDevelopment;
  return row;
}
// Exported only under the names of other projects, never under its own.
consteval MetricDesc TranslatedOnly(MetricDesc row) {
  row.translated_only = true;
  return row;
}
// A counted thing whose number has fractions: a load average, a percentage.
consteval MetricDesc Real(MetricDesc row) {
  row.number = Number::kDouble;
  return row;
}

}  // namespace gpulens::row
