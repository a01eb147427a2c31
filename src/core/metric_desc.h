// What a family of numbers means: its name, unit, kind, and what a believable value is.
//
// Rows of our own are `inline constexpr` in catalog/ and are compared by address. A scraped family
// gets its row from SeriesTable::Own. Immutable; safe to read from any thread.
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

// How cells of a family are read: as double or as int64.
enum class Number : uint8_t { kDouble, kInt };

// kOtel names are spelt for each output by its rules; kVerbatim ones (scraped) never.
enum class Naming : uint8_t { kOtel, kVerbatim };

// How much a reader has to want before a family is shown: the first rows that anyone needs, what most
// dashboards and alerts read, or everything. Each output has one (`metrics:`) and shows the rows up to it.
enum class MetricLevel : uint8_t { kEssential, kStandard, kAll };

// "essential", "standard", "all", as the configuration has them. Static storage.
constexpr std::string_view MetricLevelName(MetricLevel level) noexcept {
  switch (level) {
    case MetricLevel::kEssential: return "essential";
    case MetricLevel::kStandard: return "standard";
    case MetricLevel::kAll: break;
  }
  return "all";
}

// What a falling counter means: a program restarted, or a sensor glitched.
enum class OnDecrease : uint8_t { kReset, kReject };

// When a reading is not believed. All bounds are in the unit of the family.
struct Rule {
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  double low = -kNone;
  double high = kNone;
  // Greatest plausible change per second, either way (gauges) or upwards (counters).
  double max_change_per_second = kNone;
  // Values by which a source says "I do not know" (0xFFFF, -1), before any scaling.
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
  MetricLevel level = MetricLevel::kAll;  // the lowest one that shows it; outside series are always shown
  Stability stability = Stability::kStable;
  bool opt_in = false;           // off unless configuration enables it, wholly or by one attribute key
  bool translated_only = false;  // exported only under names of other projects
  const Rule* rule = nullptr;
  std::span<const std::string_view> keys = {};  // attributes a series may add to its entity's
};

// "gauge", "updowncounter", … as users read it. Static storage.
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
