// The last hour of the series that people look at (kept.def), at the interval of their collectors, in memory of
// fixed size. It begins with the first reader, unless Begin is called before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame.h"
#include "history/series_window.h"

namespace gpulens {

// Thread-safe. Observe is called by one thread at a time, and allocates nothing while the layouts stay.
class History {
 public:
  struct Options {
    Duration window = std::chrono::hours(1);
    size_t memory = 4 << 20;  // bytes for samples; the oldest ones go first
  };
  struct Stats {
    bool begun = false;
    int64_t begin_ms = 0;  // of the oldest sample; 0: none
    uint64_t series = 0, samples = 0;
    uint64_t sample_bytes = 0;    // used
    uint64_t memory = 0;          // allocated, all of it
    uint64_t series_refused = 0;  // more than there is room for
  };
  // The latest value of a kept series.
  struct Latest {
    KeptSeries series;
    double value = kNotMeasured;
    int64_t unix_ms = 0;  // when the source read it
    bool stale = false;
  };

  explicit History(const Options& options);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  // Allocates, and keeps what Observe gets from now on. Idempotent.
  void Begin();
  // Takes the tick's new readings; before Begin it does nothing.
  void Observe(const Snapshot& snapshot);

  // Samples of all series that one of `selectors` matches (empty: all) with from_ms <= time <= to_ms, and the one
  // before. kExhausted with more than `limit` samples. Begins the history.
  Result<std::vector<SeriesWindow>> Read(std::span<const SeriesSelector> selectors, int64_t from_ms,
                                         int64_t to_ms, size_t limit = 2'000'000);
  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The table: names of the metrics that are kept, of those of the catalogue. Static storage.
std::span<const MetricDesc* const> KeptMetrics() noexcept;

}  // namespace gpulens
