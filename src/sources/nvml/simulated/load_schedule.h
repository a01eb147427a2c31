// A load in steps of whole seconds that repeat for ever since the boot of the machine, and changes of it that
// begin and end at whole seconds. In integers, so that what is counted by it never falls, and two processes
// that know the same changes count the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpulens::nvml {

inline constexpr int64_t kNsPerSecond = 1'000'000'000;

class LoadSchedule {
 public:
  static constexpr int kAbsent = -1;  // nothing runs: a level that counts as 0

  // From `from_s` to before `to_s` of CLOCK_BOOTTIME, in place of the steps.
  struct Change {
    int64_t from_s = 0, to_s = INT64_MAX;
    int level = 0;
    friend bool operator==(const Change&, const Change&) = default;
  };

  LoadSchedule() = default;
  // `levels`: not empty, each kAbsent or more. `step_s` > 0.
  LoadSchedule(int64_t step_s, std::vector<int> levels) : step_s_(step_s), levels_(std::move(levels)) {
    sums_.push_back(0);
    for (int level : levels_) sums_.push_back(sums_.back() + std::max(level, 0));
  }

  bool empty() const noexcept { return levels_.empty(); }
  int64_t step_s() const noexcept { return step_s_; }
  const std::vector<int>& levels() const noexcept { return levels_; }
  const std::vector<Change>& changes() const noexcept { return changes_; }
  // In the order of time, without overlap.
  void SetChanges(std::vector<Change> changes) { changes_ = std::move(changes); }

  int LevelAt(int64_t boot_ns) const noexcept { return MomentAt(boot_ns).first; }
  // The level, and since when it is this step or change.
  std::pair<int, int64_t> MomentAt(int64_t boot_ns) const noexcept {
    for (const Change& change : changes_) {
      if (boot_ns >= change.from_s * kNsPerSecond && boot_ns / kNsPerSecond < change.to_s)
        return {change.level, change.from_s * kNsPerSecond};
    }
    const int64_t step = boot_ns / (step_s_ * kNsPerSecond);
    return {levels_[static_cast<size_t>(step) % levels_.size()], step * step_s_ * kNsPerSecond};
  }

  // The integral of the level from 0 to `boot_ns`, in levels x ns. Never falls with time.
  __int128 Integral(int64_t boot_ns) const noexcept {
    __int128 sum = StepsIntegral(boot_ns);
    for (const Change& change : changes_) {
      const int64_t from = change.from_s * kNsPerSecond, to = End(change, boot_ns);
      if (to <= from) continue;
      sum += static_cast<__int128>(std::max(change.level, 0)) * (to - from);
      sum -= StepsIntegral(to) - StepsIntegral(from);
    }
    return sum;
  }

  // Calls `add(level, ns)` for the time at each level from 0 to `boot_ns`; for steps that a change replaced
  // with negative ones. The sum for a level never falls with time.
  template <class Add>
  void ForEachStretch(int64_t boot_ns, Add add) const {
    AddSteps(boot_ns, 1, add);
    for (const Change& change : changes_) {
      const int64_t from = change.from_s * kNsPerSecond, to = End(change, boot_ns);
      if (to <= from) continue;
      AddSteps(to, -1, add);
      AddSteps(from, 1, add);
      add(change.level, to - from);
    }
  }

 private:
  static int64_t End(const Change& change, int64_t boot_ns) noexcept {
    return boot_ns / kNsPerSecond >= change.to_s ? change.to_s * kNsPerSecond : boot_ns;
  }
  __int128 StepsIntegral(int64_t boot_ns) const noexcept {
    const int64_t step_ns = step_s_ * kNsPerSecond, steps = boot_ns / step_ns;
    const auto count = static_cast<int64_t>(levels_.size());
    const auto at = static_cast<size_t>(steps % count);
    const __int128 whole = static_cast<__int128>(steps / count) * sums_.back() + sums_[at];
    return whole * step_ns + static_cast<__int128>(std::max(levels_[at], 0)) * (boot_ns % step_ns);
  }
  template <class Add>
  void AddSteps(int64_t boot_ns, int64_t sign, Add& add) const {
    const int64_t step_ns = step_s_ * kNsPerSecond, steps = boot_ns / step_ns;
    const auto count = static_cast<int64_t>(levels_.size());
    for (int64_t i = 0; i < count; ++i) {
      int64_t ns = (steps / count + (i < steps % count ? 1 : 0)) * step_ns;
      if (i == steps % count) ns += boot_ns % step_ns;
      if (ns != 0) add(levels_[static_cast<size_t>(i)], sign * ns);
    }
  }

  int64_t step_s_ = 1;
  std::vector<int> levels_;
  std::vector<int64_t> sums_;  // of the levels before each step; the last: of all
  std::vector<Change> changes_;
};

}  // namespace gpulens::nvml
