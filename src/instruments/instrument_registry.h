// The instruments and their series: look-ups of Registry and the handles. Recording does not come here.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpulens/instruments.h>
#include <gpulens/registry.h>

#include "base/ref.h"
#include "instruments/worker_file.h"

namespace gpulens::internal {

struct HistogramForm {
  std::vector<double> bounds;  // none: exponential
};

}  // namespace gpulens::internal

namespace gpulens::instruments {

inline constexpr size_t kSeriesLimit = 2'000;
// An instrument's bounds: more are no histogram any more but a list.
inline constexpr size_t kMostBounds = 1'024;
// Attribute of the series that has what exceeds the limit.
inline constexpr const char* kOverflow = "otel.metric.overflow";

// Text that attributes, sorted by key, have alone.
std::string KeyOf(const std::vector<std::pair<std::string, std::string>>& attributes);

struct SeriesOf {
  std::vector<std::pair<std::string, std::string>> attributes;  // by key
  uint32_t cell = 0;                                            // of a gauge: its number among gauges
  int64_t start_unix_ns = 0;
  double reported = 0;  // of a counter of doubles; rounding never makes it fall
};

struct InstrumentFamily {
  uint64_t registry = 0;
  InstrumentKind kind = InstrumentKind::kCounter;
  bool integer = false;
  WorkerMerge workers = WorkerMerge::kDefault;
  std::string name, unit, description;
  internal::HistogramForm form;
  std::deque<SeriesOf> series;  // the first has no attributes
  std::map<std::string, uint32_t, std::less<>> by_key;
};

// What an instrument was made with, and the attributes of one of its series.
struct SeriesFacts {
  uint64_t registry = 0;
  std::string name, unit, description;
  std::vector<double> bounds;
  WorkerMerge workers = WorkerMerge::kDefault;
  std::vector<std::pair<std::string, std::string>> attributes;
};

// Thread-safe. There is one, which is never destroyed, nor is anything in it: handles outlive registries.
class InstrumentRegistry {
 public:
  static InstrumentRegistry& Instance() noexcept;

  uint64_t NewRegistry();
  void EndRegistry(uint64_t registry);
  void LimitSeries(uint64_t registry, size_t limit);

  internal::Handle Make(InstrumentFamily wanted);
  internal::Handle Bind(internal::Handle handle, std::span<const Attribute> attributes);
  Status StatusOf(internal::Handle handle) const;
  SeriesFacts FactsOf(internal::Handle handle) const;  // empty for an inert instrument
  const InstrumentFamily* FamilyOf(internal::Handle handle) const;
  std::atomic<double>* GaugeAt(internal::Handle handle);
  std::vector<Sample> Read(uint64_t registry);

  // Shares the counts of one registry in a file that `create` makes, now and after each fork.
  using CreateFile = std::function<Result<std::unique_ptr<WorkerFile>>()>;
  Status Share(uint64_t registry, CreateFile create);
  // Creates the file of a child after a fork, if there is to be one. Logs a failure.
  void ShareAgain() noexcept;

 private:
  friend class Immortal<InstrumentRegistry>;
  InstrumentRegistry();
  static void BeforeFork() noexcept;
  static void AfterForkInParent() noexcept;
  static void AfterForkInChild() noexcept;
  internal::Handle Refuse(Code code, std::string detail);
  uint32_t AddSeries(InstrumentFamily& family, std::vector<std::pair<std::string, std::string>> attributes);
  Status ShareLocked();
  void LogFamily(uint32_t number);
  void LogSeries(const InstrumentFamily& family, const SeriesOf& series);
  void LogFull() const;
  static std::byte* MapGauges(std::byte* at) noexcept;
  static void ClearGauges(std::byte* page, uint32_t first) noexcept;
  GaugeCell& GaugeOf(uint32_t number) const noexcept;
  uint32_t AddGauge();
  bool ReadSeries(const InstrumentFamily& family, SeriesOf& series, Sample& out) const;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<InstrumentFamily> families_;
  std::map<std::pair<uint64_t, std::string>, uint32_t> by_name_;  // of existing registries
  std::map<uint64_t, size_t> limits_;
  std::deque<Status> refusals_;
  // Gauges are in whole pages, which do not move: pages of a file take their place.
  std::vector<std::byte*> gauge_pages_;
  uint32_t gauges_ = 0;
  CreateFile create_;
  uint64_t shared_ = 0;
  WorkerFile* file_ = nullptr;  // of this process; never destroyed
  std::atomic<bool> to_share_{false};
  uint64_t registries_ = 0;
};

}  // namespace gpulens::instruments

namespace gpulens {

// Series that are not in the cells: computed by a source whenever a registry is read.
struct RegistryAccess {
  static uint64_t IdOf(const Registry& registry) noexcept { return registry.id_; }
};

namespace instruments {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // Called under the sources' lock: appends series, those of one name adjacent. After a fork, detected by
  // CellStore::forks, counts of the parent are discarded.
  virtual void Report(std::vector<Sample>& out) = 0;
};

// Lock under which all sources are read; not held while the process forks.
std::unique_lock<std::mutex> LockSources();
// Under that lock. The source lives to the end of the process.
void AddSource(uint64_t registry, SampleSource& source);
// Takes the lock.
void ReportSources(uint64_t registry, std::vector<Sample>& out);

}  // namespace instruments

}  // namespace gpulens
