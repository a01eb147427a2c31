// Runs one collector: its plugin, series table, writer, latest frame and counters.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/backoff.h"
#include "plugins/plugin.h"
#include "quality/gpu_quality.h"
#include "quality/quality_events.h"

namespace gpulens {

class EnricherSet;

struct InstanceStats {
  bool up = false;
  Status last;  // of the last attempt: why it is not up
  Duration duration{};
  int64_t last_success_unix_ns = 0;
  uint64_t runs_ok = 0, runs_error = 0, runs_timeout = 0;
  std::array<uint64_t, kCodes> errors{};  // by Code
  FrameWriter::Counts samples;
  int64_t oldest_ns = 0;  // greatest age within the last frame
  uint32_t series = 0;
  std::array<uint64_t, kSeriesRefusals> refused{};

  // Whether it has run or reported why it cannot; a source that is starting has done neither.
  bool answered() const noexcept { return runs_ok != 0 || (!last.ok() && last.code != Code::kTimeout); }
};

// Ready, Fetch and Collect are called one at a time, by any worker; `latest` and `stats` by any thread.
class Instance {
 public:
  struct Setup {
    std::string name;  // "host", "scrape/node"
    const CollectorSpec* spec = nullptr;
    Config config;
    Duration period{}, deadline{}, ttl{};
    SeriesTable::Options table;
    const EnricherSet* enrichers = nullptr;  // behind `table.describe`; null: none
  };

  Instance(Setup setup, Env& env);

  const std::string& name() const noexcept { return setup_.name; }
  const Setup& setup() const noexcept { return setup_; }
  // Whether an instance of `setup` would be equal.
  bool SameAs(const Setup& setup) const;

  // Whether the plugin exists; creates it if possible, with back-off after failures.
  bool Ready();
  bool fetches() const noexcept { return collector_ && collector_->fetches(); }
  void Fetch(Instant deadline, std::function<void(Status)> done) {
    collector_->Fetch(deadline, std::move(done));
  }
  // Runs the collector and publishes its frame. After a failed fetch, publishes the old values as stale.
  void Collect(const Status& fetched);
  // The run passed its deadline, and may still finish.
  void TimedOut();

  // Null before the first run.
  Ref<const Frame> latest() const;
  // Whether the latest frame may still be shown at `now`, and whether a newer one is overdue.
  enum class Age { kFresh, kOverdue, kExpired };
  Age AgeOf(const Frame& frame, Instant now) const noexcept;
  InstanceStats stats() const;
  // The same, reusing the memory of `out`.
  void ReadStats(InstanceStats& out) const;
  bool answered() const;
  // Counts series that are left out as a source of higher precedence has them.
  void CountDuplicates(uint64_t series);

 private:
  void Record(const Status& status, Instant started);

  const Setup setup_;
  Env& env_;
  SeriesTable table_;
  FrameWriter writer_;
  std::optional<GpuQuality> gpu_quality_;  // of collectors that read GPUs
  QualityEvents quality_events_;
  std::unique_ptr<Collector> collector_;
  uint64_t described_ = 0;  // the enrichers' generation that the table shows
  int64_t retry_at_ns_ = 0;
  Backoff retry_;
  mutable std::mutex mutex_;  // guards what follows
  Ref<const Frame> latest_;
  uint64_t duplicates_ = 0;
  InstanceStats stats_;
};

}  // namespace gpulens
