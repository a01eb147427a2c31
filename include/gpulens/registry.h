// The registry that owns a program's instruments, and their series as they are read.
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

// How the page of a server with several worker processes (export.h) merges the values of a gauge, or of a sum
// that falls, too. Counters and histograms always add up, with those of ended workers.
enum class WorkerMerge : uint8_t {
  kDefault,  // gauge: kEach; sum: kSum
  kEach,     // a series for each running worker, with process.pid. Gauges only
  kSum,      // the sum of the running workers
  kMax,      // the largest of the running workers. Gauges only
  kMin,      // the smallest. Gauges only
  kLatest,   // the one that was set last. Gauges only, for which Set reads the clock
  kAll,      // the sum of all workers, with those that have ended. Sums only
};

struct InstrumentOptions {
  std::string_view unit = {};           // UCUM: "s", "By", "{request}"
  std::string_view description = {};    // a sentence
  std::span<const double> bounds = {};  // of a histogram, ascending and finite; none: exponential buckets
  WorkerMerge workers = WorkerMerge::kDefault;  // of gauges and sums that fall
};

enum class InstrumentKind : uint8_t { kCounter, kUpDownCounter, kGauge, kHistogram };

// One series as it was read, a plain value.
struct Sample {
  std::string name, unit, description;
  InstrumentKind kind = InstrumentKind::kCounter;
  bool integer = false;  // counts of whole things
  std::vector<std::pair<std::string, std::string>> attributes;
  int64_t start_unix_ns = 0;  // when counting began

  double value = kNotMeasured;  // of a counter or gauge
  // Of a histogram: the number of observations, their sum, and the count of each bucket. With bounds, bucket
  // i is (bounds[i-1], bounds[i]], one bucket more than bounds; exponential: (base^(offset+i),
  // base^(offset+i+1)] with base = 2^(2^-scale).
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

  // The default registry of instruments. Never destroyed, so globals may record in destructors.
  static Registry& Process() noexcept;

  // Returns all series in the order in which their instruments were created. With concurrent writers each
  // counter is monotonic from one snapshot to the next, but the values are not of one instant. Omits an
  // unused series without attributes when its instrument has others.
  std::vector<Sample> Snapshot() const;
  // Limits the series of an instrument; further ones are merged into one with otel.metric.overflow="true".
  // 2,000 by default.
  void LimitSeries(size_t limit) noexcept;

 private:
  friend struct RegistryAccess;
  const uint64_t id_;
};

// Counts records dropped in all registries of the process: invalid NaN, infinite and negative values, and all
// values of inert instruments.
uint64_t DroppedRecords() noexcept;

}  // namespace gpulens
