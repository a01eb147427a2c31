// Description of a metric: name, unit, kind, and the rule for valid values. Rows of the catalogue are `inline
// constexpr` and compared by address; a scraped family gets its row from SeriesTable::Own. Immutable;
// thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace gpulens {

enum class Kind : uint8_t {
  kGauge,
  kCounter,
  kUpDownCounter,
  kHistogram,
  kGaugeHistogram,
  kSummary,
  kInfo,
  kStateSet,
  kUnknown,
};

// The type of a cell.
enum class Number : uint8_t { kDouble, kInt };

// kOtel names are translated by the rules of each output; kVerbatim ones (scraped) are not.
enum class Naming : uint8_t { kOtel, kVerbatim };

// The level of an output (`metrics:`), which exports the rows up to it: the essential ones, those of most
// dashboards and alerts, or all.
enum class MetricLevel : uint8_t { kEssential, kStandard, kAll };

// "essential", "standard", "all": the words of the configuration. Static storage.
constexpr std::string_view MetricLevelName(MetricLevel level) noexcept {
  switch (level) {
    case MetricLevel::kEssential: return "essential";
    case MetricLevel::kStandard: return "standard";
    case MetricLevel::kAll: break;
  }
  return "all";
}

// The meaning of a falling counter: a restarted program, or a wrong reading.
enum class OnDecrease : uint8_t { kReset, kReject };

// When a reading is rejected. Bounds are in the unit of the family.
struct Rule {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double low = -kNone;
  double high = kNone;
  // Maximum change per second upwards (counters), or in both directions and within one second (gauges).
  double max_change_per_second = kNone;
  // Values that a source returns for "unknown" (0xFFFF, -1), before scaling.
  std::span<const double> sentinels = {};
};

// Whether users may rely on a row: name, unit and meaning of a stable one never change.
enum class Stability : uint8_t { kStable, kDevelopment };

struct MetricDesc {
  std::string_view name = {}, unit = {}, help = {};
  Kind kind = Kind::kGauge;
  Number number = Number::kDouble;
  Naming naming = Naming::kOtel;
  OnDecrease on_decrease = OnDecrease::kReset;
  MetricLevel level =
      MetricLevel::kAll;  // the lowest level with this row; scraped series are always exported
  Stability stability = Stability::kStable;
  bool opt_in = false;           // off unless configuration enables it, wholly or by one attribute key
  bool translated_only = false;  // exported only under names of other projects
  const Rule* rule = nullptr;
  std::span<const std::string_view> keys = {};  // attributes a series may add to its entity's
};

// "gauge", "updowncounter", …. Static storage.
constexpr std::string_view KindName(Kind kind) noexcept {
  switch (kind) {
    case Kind::kGauge: return "gauge";
    case Kind::kCounter: return "counter";
    case Kind::kUpDownCounter: return "updowncounter";
    case Kind::kHistogram: return "histogram";
    case Kind::kGaugeHistogram: return "gaugehistogram";
    case Kind::kSummary: return "summary";
    case Kind::kInfo: return "info";
    case Kind::kStateSet: return "stateset";
    case Kind::kUnknown: break;
  }
  return "unknown";
}

constexpr bool IsMonotonic(Kind kind) noexcept { return kind == Kind::kCounter || kind == Kind::kHistogram; }

}  // namespace gpulens
