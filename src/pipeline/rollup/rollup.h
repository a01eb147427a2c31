// Roll-ups of a sink: combines series over time and attributes by the sink's rules.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "core/frame.h"
#include "core/histogram.h"
#include "pipeline/rollup/rollup_groups.h"
#include "pipeline/rollup/rollup_rule.h"

namespace gpulens {

// The groups of each rule.
using RollupRules = std::vector<std::unique_ptr<RollupGroups>>;

// One source of a sink's snapshots ("nvidia"): which of its series are in groups, their last readings, and
// the frames without the series that are rolled up. Used by Rollup only. Not thread-safe. Does not allocate
// while the layout stays.
class RollupSource {
 public:
  // `rules` outlive it.
  RollupSource(std::string name, RollupRules& rules) : name_(std::move(name)), rules_(rules) {}

  const std::string& name() const noexcept { return name_; }
  // Adds new readings to the groups. New groups count from `start_unix_ns`.
  void Take(const Ref<const Frame>& frame, int64_t start_unix_ns);
  // Adds the entry of the last frame to `out`, without the series that are exported as roll-ups only.
  void Emit(const SnapshotEntry& entry, Snapshot& out);
  // Adds the readings of the interval to the groups of a rule. `in_snapshot`: the last snapshot had this
  // source.
  void EndInterval(uint32_t rule, bool in_snapshot) noexcept;
  // All series leave their groups.
  void Leave() noexcept;

  // Series in a group, once for each rule.
  size_t members() const noexcept { return members_.size(); }
  // Series that Emit leaves out.
  uint32_t hidden() const noexcept { return hidden_series_; }
  const std::array<uint64_t, kRollupRefusals>& refused() const noexcept { return refused_; }

 private:
  void Plan(const Frame& frame, int64_t start_unix_ns);
  void Join(const SeriesInfo& series, uint32_t slot, uint32_t rule, int64_t start_unix_ns);
  uint32_t RulesOf(const MetricDesc& desc) const noexcept;
  void Drop(RollupMember& member) noexcept;
  void Read(const Frame* before);
  bool TakeBuckets(RollupMember& member, RollupGroup& group, const SeriesInfo& series, bool from_zero);

  const std::string name_;
  RollupRules& rules_;
  Ref<const Frame> frame_;  // taken last
  Ref<const Layout> layout_;
  std::vector<RollupMember> members_;  // by slot, then by rule
  std::vector<double> numbers_;        // of histograms: counts by bound, count, sum
  std::vector<uint8_t> hidden_;        // by slot: left out by Emit
  uint32_t series_ = 0, hidden_series_ = 0;
  std::array<uint64_t, kRollupRefusals> refused_{};
  Ref<const Frame> of_, shown_;  // a frame, and its copy without what is hidden
  RefPool<Frame> pool_{4};       // two queued at the sink, one being written, one being built
  std::vector<double> now_, increases_;
  Buckets buckets_;
};

// Current numbers, except for `intervals`.
struct RollupStats {
  uint64_t groups = 0;
  uint64_t rolled_up = 0;  // series in a group, once for each rule
  uint64_t left_out = 0;   // series that are exported as roll-ups only
  uint64_t intervals = 0;  // that have ended
  std::array<uint64_t, kRollupRefusals>
      refused{};  // series that a rule matches and that are exported unchanged
};

// Takes the snapshot of each tick and returns the one for the sink, without the series of its rules. At the
// end of each interval it contains a frame of results, named "rollup/1" by the number of the rule, until the
// next one replaces it.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Rollup> rollup, Rollup::Make(config));
//   if (rollup) snapshot = rollup->Apply(snapshot);
//
// Intervals end at multiples of their length on the wall clock, so that those of all machines agree. The
// first one ends at the first such time that is at least half an interval away. Time within an interval is
// that of the boot clock. A reading belongs to the interval in which its tick closed. A repeated frame and a
// stale value that was there before are no new readings. Values that are not finite are ignored.
//
// Apply and ApplyLast are called by one thread at a time, `stats` by any. Memory is bounded by the series of
// the snapshots and max_groups of each rule. Does not allocate while layouts stay and the sink lets go of
// former snapshots.
class Rollup {
 public:
  // A source that is in no snapshot for this long is forgotten: its counters begin again when it returns.
  static constexpr Duration kForgetAfter = std::chrono::minutes(10);

  // Null when the sink has no rules. kInvalidArgument when CheckRollups refuses them.
  static Result<std::unique_ptr<Rollup>> Make(const Config& sink);
  explicit Rollup(std::vector<RollupRule> rules);
  Rollup(const Rollup&) = delete;
  Rollup& operator=(const Rollup&) = delete;

  // Called for each tick, also for those that the sink does not get: readings are taken from all.
  Ref<const Snapshot> Apply(const Ref<const Snapshot>& snapshot);
  // Ends the intervals with the readings so far. Apply may have had the same snapshot. Null returns null.
  Ref<const Snapshot> ApplyLast(const Ref<const Snapshot>& snapshot);

  RollupStats stats() const;

 private:
  // Of one rule.
  struct Interval {
    bool open = false;
    Instant end;
    int64_t closed_ns = 0;  // boot time at which the last one ended
    Ref<const Frame> results;
  };
  struct Seen {
    explicit Seen(std::unique_ptr<RollupSource> of) : source(std::move(of)) {}
    std::unique_ptr<RollupSource> source;
    uint64_t round = 0;  // in which it was in the snapshot
    int64_t at_ns = 0;   // boot time of that snapshot
  };

  Ref<const Snapshot> Run(const Snapshot& snapshot, bool last);
  Seen& SourceOf(const SnapshotEntry& entry, size_t hint);
  void ForgetSources(Instant now);
  void Open(uint32_t rule, Instant now) noexcept;
  void Close(uint32_t rule, Instant end, uint64_t round);
  void UpdateStats();

  RollupRules rules_;
  std::vector<Interval> intervals_;  // by rule
  std::vector<Seen> sources_;        // mostly in the order of the frames
  RefPool<Snapshot> pool_{4};        // two queued at the sink, one being written, one being built
  uint64_t round_ = 0;
  int64_t start_unix_ns_ = 0;  // of new groups: when the snapshot before closed
  uint64_t ended_ = 0;         // intervals

  mutable std::mutex stats_mutex_;
  RollupStats stats_;
};

}  // namespace gpulens
