// The series of a program's instruments, as they are read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

struct Attribute {
  std::string_view key;
  std::variant<std::string_view, int64_t, double, bool> value;
};

struct InstrumentOptions {
  std::string_view unit = {};           // UCUM: "s", "By", "{request}"
  std::string_view description = {};    // a sentence
  std::span<const double> bounds = {};  // of a histogram, ascending and finite; none: exponential buckets
};

enum class InstrumentKind : uint8_t { kCounter, kUpDownCounter, kGauge, kHistogram };

// One series as it was read. A plain value.
struct Sample {
  std::string name, unit, description;
  InstrumentKind kind = InstrumentKind::kCounter;
  bool integer = false;  // counts of whole things
  std::vector<std::pair<std::string, std::string>> attributes;
  int64_t start_unix_ns = 0;  // since when it counts

  double value = kNotMeasured;  // of a counter or gauge
  // Of a histogram: all observations, their sum, and how many lie in each bucket: with bounds in
  // (bounds[i-1], bounds[i]], one more than bounds; without in (base^(offset+i), base^(offset+i+1)] with base
  // = 2^(2^-scale).
  uint64_t count = 0;
  double sum = kNotMeasured;
  std::vector<double> bounds;
  std::vector<uint64_t> counts;
  bool exponential = false;
  int scale = 0;
  int32_t offset = 0;
  uint64_t zeros = 0;  // observations of 0
};

// Owns instruments. Thread-safe.
class Registry {
 public:
  Registry();
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // The one that instruments belong to by default. Never destroyed, so globals may record in destructors.
  static Registry& Process() noexcept;

  // All series, in the order in which their instruments were made. Beside writers each value is monotonic
  // from one reading to the next; the values are not of one instant. A series without attributes is left out
  // while it was never touched and the instrument has others.
  std::vector<Sample> Snapshot() const;
  // How many series an instrument may have. Further ones are told together, with otel.metric.overflow="true".
  // 2,000 by default.
  void LimitSeries(size_t limit) noexcept;

 private:
  friend struct RegistryAccess;
  const uint64_t id_;
};

// What was recorded and not kept, in all registries of the process: NaN, infinite and negative values where
// there can be none, and everything that inert instruments were given.
uint64_t DroppedRecords() noexcept;

}  // namespace gpulens
