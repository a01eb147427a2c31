// One source of a sink's snapshots, as "nvidia": which of its series are in groups of roll-up rules, what
// they were read last, and what of its frames the sink is sent.
//
// Used by Rollup alone. Not thread-safe. Does not allocate while the layout stays.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"
#include "core/histogram.h"
#include "pipeline/rollup/rollup_groups.h"

namespace gpulens {

// The groups of each rule.
using RollupRules = std::vector<std::unique_ptr<RollupGroups>>;

class RollupSource {
 public:
  // `rules` outlive it.
  RollupSource(std::string name, RollupRules& rules) : name_(std::move(name)), rules_(rules) {}

  const std::string& name() const noexcept { return name_; }
  // Takes new readings into the groups. Groups that begin count from `start_unix_ns`.
  void Take(const Ref<const Frame>& frame, int64_t start_unix_ns);
  // Adds to `out` the entry whose frame was taken last, without the series that are sent as roll-ups only.
  void Emit(const SnapshotEntry& entry, Snapshot& out);
  // Adds what was read in the interval to the groups of a rule. `in_snapshot`: the last one had this source.
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
  std::vector<Ref<Frame>> pool_;
  std::vector<double> now_, increases_;
  Buckets buckets_;
};

}  // namespace gpulens
