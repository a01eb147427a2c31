// What this agent knows about its GPUs and its host that may slow or stop a rank: errors and states, from the
// series of other collectors, as hints for the diagnosis.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collectives/batch.h"
#include "core/frame.h"
#include "core/series_finder.h"

namespace gpulens {

// Not thread-safe. docs/stragglers.md has the limits from which on a reading is a hint.
class HintFeed {
 public:
  HintFeed();

  // Reads a tick; the same one again changes nothing. Errors count that come after the first tick.
  void Read(const Snapshot& snapshot, Instant now);
  // Adds the hints of the last two minutes: of the host, and of the GPUs that processes of the batch have.
  void AddTo(collectives::Batch& batch, Instant now) const;

 private:
  struct Found {
    Instant at;  // when it happened or was seen last; zero: not yet
    bool lasts = false;
    std::string what;
  };
  // By cause: what happened last; then, by cause, what lasts.
  using FoundByCause = std::array<Found, 2 * collectives::kCauses>;
  struct Gpu {
    std::string pci;  // "0000:1a:00.0"; empty: unknown
    FoundByCause found;
    std::map<std::string, Instant, std::less<>> throttled;  // since when, by gpu.throttle.cause
    double clock = 0;                                       // MHz; 0: unknown
    double width = 0;                                       // PCIe lanes; 0: unknown
  };
  struct Counter {
    double last = 0, first = 0;
    Instant since;  // of `first`
  };

  static void Note(FoundByCause& all, collectives::Cause cause, Found found);
  // The GPU of a series; null: of no GPU with a uuid.
  Gpu* GpuOf(const SeriesInfo& info);
  // Growth since the last tick. Of a new counter: 0, unless it `begins_at_zero` and is newer than this
  // object.
  double GrowthOf(const std::string& key, double value, bool begins_at_zero = false);
  // Growth within the window; 0 while it has not grown since the last tick.
  double GrowthWithin(const std::string& key, double value, Duration window, Instant now);
  bool WentDown(const std::string& key, bool up);
  void ReadThrottling(const Snapshot& snapshot, Instant now);
  void ReadPcieWidth(const Snapshot& snapshot, Instant now);
  void ReadXids(const Snapshot& snapshot, Instant now);
  void ReadErrors(const Snapshot& snapshot, Instant now);
  void ReadLinks(const Snapshot& snapshot, Instant now);
  void ReadHost(const Snapshot& snapshot, Instant now);

  const std::string host_;
  uint64_t ticks_ = 0, tick_ = 0;    // read; number of the latest
  std::map<std::string, Gpu> gpus_;  // by uuid
  FoundByCause of_host_;
  std::map<std::string, Counter> counters_;
  std::map<std::string, bool> up_;
  SeriesFinder info_, throttle_, throttle_share_, clock_, width_, most_width_, xids_, ecc_, link_errors_,
      replays_, links_, ports_, interfaces_, pressure_, oom_kills_;
};

}  // namespace gpulens
