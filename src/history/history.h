// The last hour of the series that people look at (kept.def), at the interval of their collectors, in memory
// of fixed size. It begins with the first reader, unless Begin is called before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame.h"
#include "history/series_window.h"

namespace gpulens {

// Thread-safe. Observe allocates nothing while the layouts stay.
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
  // The kept series with their values at one tick. `series` is by id; the other lists have one element for
  // each.
  struct Current {
    uint64_t tick = 0;    // 0: there was none since Begin
    int64_t unix_ms = 0;  // when the tick was closed
    uint64_t layout = 0;  // changes with `series`
    AttributeSet node;    // attributes of the machine
    std::shared_ptr<const std::vector<KeptSeries>> series;
    std::vector<double> values;      // kNotMeasured: absent
    std::vector<uint32_t> stale_ms;  // age at `read_ms`, of stale ones at least 1; 0: not stale
    std::vector<uint32_t> sources;   // position in `read`
    // Name of a source, empty at a place that is free, and when it was last read.
    std::vector<std::pair<std::string, int64_t>> read;
  };

  explicit History(const Options& options);
  ~History();
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  const Options& options() const noexcept;
  // Allocates, and keeps what Observe gets from now on. Idempotent.
  void Begin();
  // Takes the tick's new readings. Before Begin, and for a tick that is not newer than the last, it does
  // nothing.
  void Observe(const Snapshot& snapshot);
  // Fills `out`, whose memory it uses again. Allocates nothing while the layout stays.
  void ReadCurrent(Current& out) const;

  // Samples of all series that one of `selectors` matches (empty: all) with from_ms <= time <= to_ms, and the
  // one before. kExhausted with more than `limit` samples. Begins the history.
  Result<std::vector<SeriesWindow>> Read(std::span<const SeriesSelector> selectors, int64_t from_ms,
                                         int64_t to_ms, size_t limit = 2'000'000);
  Stats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The table: the metrics that are kept, the more important first. Static storage.
std::span<const MetricDesc* const> KeptMetrics() noexcept;

}  // namespace gpulens
