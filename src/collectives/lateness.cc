#include "collectives/lateness.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpulens::collectives {
namespace {

// Of the time of the job. A fault of a tenth costs 9 % of the longer step.
constexpr double kFastShare = 0.05, kFastShareEnds = 0.025;
constexpr double kSteadyShare = 0.015, kSteadyShareEnds = 0.0075;
constexpr double kIntermittentShare = 0.01, kIntermittentShareEnds = 0.005;
// Between two ranks there is no majority: the difference must be large.
constexpr double kPairShare = 0.10;
// A single collective, of its interval.
constexpr double kSteadyPoint = 0.01, kIntermittentPoint = 0.04;
// In most collectives of a window; in this many of it.
constexpr double kSteadyPoints = 0.8;
constexpr uint32_t kIntermittentPoints = 4;
// Robust standard deviations: 1.4826 times the median of the absolute deviations.
constexpr double kScale = 1.4826, kDeviations = 6, kPointDeviations = 10;
// Below, clocks of GPUs and kernels' launches differ anyway.
constexpr double kLeastLatenessNs = 20'000;
constexpr double kLeastScale = 0.001;
// Two of long steps: the smaller lateness of both counts.
constexpr uint32_t kShortPoints = 2, kLongPoints = 20;
constexpr uint8_t kWindows = 3;
constexpr size_t kMostIntervals = 256;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Whether no rank is done before all have come, so that who comes last waits least. Of the others the
// shortest duration means nothing: the ranks of a reduce or gather send and are done, as the root of a
// broadcast or scatter is; those of a chain do not wait for who comes after them in it; a send waits for its
// receiver.
constexpr bool AllWait(Function function) noexcept {
  switch (function) {
    case Function::kAllReduce:
    case Function::kAllGather:
    case Function::kAllGatherV:
    case Function::kReduceScatter:
    case Function::kAllToAll:
    case Function::kBarrier: return true;
    default: return false;
  }
}

// The smallest and the second smallest value.
struct Smallest {
  size_t at = 0;
  float first = std::numeric_limits<float>::infinity(), second = std::numeric_limits<float>::infinity();
};
Smallest SmallestOf(std::span<const float> values) {
  Smallest out;
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i];
    if (value < out.first) {
      out.second = out.first;
      out.first = value;
      out.at = i;
    } else if (value < out.second) {
      out.second = value;
    }
  }
  return out;
}

}  // namespace

double MedianOf(std::vector<float>& values) noexcept {
  std::erase_if(values, [](float value) { return std::isnan(value); });
  if (values.empty()) return kNaN;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 != 0) return *middle;
  return (static_cast<double>(*middle) + *std::max_element(values.begin(), middle)) / 2;
}

LatenessRule LatenessWindows::MemberState::rule() const noexcept {
  if (holds[0]) return LatenessRule::kFast;
  return holds[1] ? LatenessRule::kSteady : LatenessRule::kIntermittent;
}

double LatenessWindows::Window::elapsed() const noexcept {
  return *std::max_element(elapsed_ns.begin(), elapsed_ns.end());
}

double LatenessWindows::Window::UsualElapsed() const {
  const auto longest = std::ranges::max_element(elapsed_ns);
  const auto function = static_cast<size_t>(longest - elapsed_ns.begin());
  std::vector<float> values;
  for (const auto& [of, interval] : intervals) {
    if (static_cast<size_t>(of) == function) values.push_back(interval);
  }
  return std::min(*longest, MedianOf(values) * collectives[function]);
}

double LatenessWindows::Window::all() const noexcept {
  double sum = 0;
  for (double count : collectives) sum += count;
  return sum;
}

void LatenessWindows::Window::Clear() noexcept {
  elapsed_ns = {};
  collectives = {};
  points = 0;
  intervals.clear();
  std::ranges::fill(sums, Sums{});
}

void LatenessWindows::Resize(size_t members) {
  short_.sums.resize(members);
  long_.sums.resize(members);
  states_.resize(members);
  streaks_.resize(members);
}

bool LatenessWindows::Add(const JoinedCollective& collective) {
  if (!AllWait(collective.function)) return false;
  const std::span<const float> mean = collective.mean_ns;
  const double count = collective.count;
  const bool pair = collective.present == 2;
  scratch_.assign(mean.begin(), mean.end());
  double median = MedianOf(scratch_);
  const Smallest latest = SmallestOf(mean);
  // The latest of several that came at one time costs nothing alone.
  if (std::isfinite(latest.second)) states_[latest.at].lost_ns += (latest.second - latest.first) * count;
  if (!(collective.interval_ns > 0)) return false;
  interval_ns_ = collective.interval_ns;
  // scratch_ has no NaN any more.
  for (float& value : scratch_) value = static_cast<float>(std::abs(value - median));
  const double scale = pair ? 0 : kScale * MedianOf(scratch_);
  const double above = std::max(kSteadyPoint * collective.interval_ns, kLeastLatenessNs);
  const double far_above =
      std::max({kIntermittentPoint * collective.interval_ns, kPointDeviations * scale, kLeastLatenessNs});
  for (size_t i = 0; i < mean.size(); ++i) {
    if (std::isnan(mean[i])) continue;
    // Of a pair each has half of the difference to the median.
    const double lateness = (median - mean[i]) * (pair ? 2 : 1);
    const auto whole = static_cast<float>(lateness * count);
    for (Window* window : {&short_, &long_}) {
      Sums& sums = window->sums[i];
      sums.sum += whole;
      sums.most = std::max(sums.most, whole);
      ++sums.points;
      if (lateness > above) ++sums.above;
      if (lateness > far_above) ++sums.far_above;
    }
  }
  const auto function = static_cast<size_t>(collective.function) % kFunctions;
  for (Window* window : {&short_, &long_}) {
    window->elapsed_ns[function] += collective.interval_ns * count;
    window->collectives[function] += count;
    ++window->points;
    if (window->intervals.size() < kMostIntervals)
      window->intervals.emplace_back(collective.function, static_cast<float>(collective.interval_ns));
  }
  bool changed = false;
  constexpr uint32_t kMostPoints = 60'000;  // of a uint16_t
  if ((short_.elapsed() >= options_.short_ns && short_.points >= kShortPoints) || short_.points > kMostPoints)
    changed = CloseShort();
  if ((long_.elapsed() >= options_.long_ns && long_.points >= kLongPoints) || long_.points > kMostPoints)
    changed = CloseLong() || changed;
  return changed;
}

LatenessWindows::Spread LatenessWindows::Shares(const Window& window) {
  const double elapsed = window.UsualElapsed();
  shares_.assign(window.sums.size(), kNaN);
  Spread spread;
  spread.usual = elapsed / window.elapsed();
  for (size_t i = 0; i < window.sums.size(); ++i) {
    const Sums& sums = window.sums[i];
    // Of a member with few points nothing is known.
    if (sums.points < 2 || 2 * sums.points < window.points) continue;
    // Without the largest: one collective never makes a window.
    const double rest = sums.sum - sums.most;
    shares_[i] = static_cast<float>(rest / elapsed * window.points / (sums.points - 1.0));
    ++spread.members;
  }
  scratch_.assign(shares_.begin(), shares_.end());
  spread.median = MedianOf(scratch_);
  for (float& value : scratch_) value = static_cast<float>(std::abs(value - spread.median));
  spread.scale = std::max(kScale * MedianOf(scratch_), kLeastScale);
  return spread;
}

bool LatenessWindows::Count(size_t member, LatenessRule rule, bool hit, bool miss) {
  const auto at = static_cast<size_t>(rule);
  uint8_t& hits = streaks_[member].hits[at];
  uint8_t& misses = streaks_[member].misses[at];
  hits = hit ? std::min<uint8_t>(static_cast<uint8_t>(hits + 1), kWindows) : uint8_t{0};
  misses = miss ? std::min<uint8_t>(static_cast<uint8_t>(misses + 1), kWindows) : uint8_t{0};
  bool& holds = states_[member].holds[at];
  const bool before = holds;
  if (hits >= kWindows) holds = true;
  if (misses >= kWindows) holds = false;
  return holds != before;
}

bool LatenessWindows::CloseShort() {
  const Spread spread = Shares(short_);
  const double collectives = std::max(short_.all(), 1.0);
  const bool pair = spread.members == 2;
  bool changed = false;
  for (size_t i = 0; i < shares_.size(); ++i) {
    if (std::isnan(shares_[i])) {
      changed = Count(i, LatenessRule::kFast, false, true) || changed;
      states_[i].suspect = false;
      continue;
    }
    MemberState& state = states_[i];
    const double share = pair ? shares_[i] : shares_[i] - spread.median;
    const double deviations = pair ? 0 : share / spread.scale;
    state.measured = true;
    state.share = static_cast<float>(share);
    state.lost_share = static_cast<float>(share * spread.usual);
    state.lateness_ns = static_cast<float>(short_.sums[i].sum / collectives);
    const bool hit = share > (pair ? kPairShare : kFastShare) && (pair || deviations > kDeviations) &&
                     state.lateness_ns > kLeastLatenessNs;
    changed = Count(i, LatenessRule::kFast, hit, share < kFastShareEnds) || changed;
    state.suspect = share > kFastShareEnds && deviations > kDeviations;
    if (hit) state.deviations = static_cast<float>(deviations);
  }
  short_.Clear();
  return changed;
}

bool LatenessWindows::CloseLong() {
  const Spread spread = Shares(long_);
  const bool pair = spread.members == 2;
  bool changed = false;
  for (size_t i = 0; i < shares_.size(); ++i) {
    const Sums& sums = long_.sums[i];
    const bool known = !std::isnan(shares_[i]) && !pair;
    const double share = known ? shares_[i] - spread.median : 0;
    const double deviations = share / spread.scale;
    const bool steady = known && share > kSteadyShare && deviations > kDeviations &&
                        sums.above >= kSteadyPoints * sums.points;
    const bool intermittent = known && share > kIntermittentShare && sums.far_above >= kIntermittentPoints;
    if (known) {
      states_[i].long_share = static_cast<float>(share);
      states_[i].long_lost_share = static_cast<float>(share * spread.usual);
    }
    if ((steady || intermittent) && !states_[i].holds[0])
      states_[i].deviations = static_cast<float>(deviations);
    changed = Count(i, LatenessRule::kSteady, steady, share < kSteadyShareEnds) || changed;
    changed = Count(i, LatenessRule::kIntermittent, intermittent,
                    share < kIntermittentShareEnds || sums.far_above < kIntermittentPoints / 2) ||
              changed;
  }
  long_.Clear();
  return changed;
}

size_t LatenessWindows::memory() const noexcept {
  return sizeof *this + (short_.sums.capacity() + long_.sums.capacity()) * sizeof(Sums) +
         states_.capacity() * sizeof(MemberState) + streaks_.capacity() * sizeof(Streaks) +
         (scratch_.capacity() + shares_.capacity()) * sizeof(float);
}

}  // namespace gpulens::collectives
