#include "collectives/slow_communication.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gpulens::collectives {
namespace {

// Of the logarithm of a duration, for each collective: 5 % longer is allowed, or as much as it varies. The
// sum of what is above reaches the limit after six collectives that are 10 % longer.
constexpr double kAllowed = 0.05, kLimit = 0.25;
// Deviations of noise: the larger of these and the above.
constexpr double kAllowedDeviations = 1.5, kLimitDeviations = 12;
// One collective does not raise it, whatever its length.
constexpr double kMostStep = 0.15;
constexpr uint32_t kGoodEnds = 12;
// A change that stays so long is how it is now.
constexpr uint32_t kAdoptAfter = 6000;
// Less costs nothing worth a report, and short collectives vary by as much: a thousandth of the interval.
constexpr double kLeastLongerNs = 20'000, kLeastLongerShare = 0.001;
constexpr size_t kMostGroups = 64;
// Without the latest rank the shortest duration has a wait in it: the least of five absorbs four of them.
constexpr double kMostlyPresent = 0.9;
constexpr double kSlowLink = 3;

double MedianOfFew(std::array<float, 5> values, size_t count) noexcept {
  const auto end = values.begin() + static_cast<std::ptrdiff_t>(count);
  std::sort(values.begin(), end);
  return values[count / 2];
}

}  // namespace

void DurationBaseline::Learn() noexcept {
  std::vector<float> values(past_.begin(),
                            past_.begin() + static_cast<std::ptrdiff_t>(std::min(past_count_, kPast)));
  usual_ = MedianOf(values);
  for (float& value : values) value = static_cast<float>(std::abs(value - usual_));
  scale_ = 1.4826 * MedianOf(values);
}

void DurationBaseline::Add(double shortest_ns, bool complete, double least_longer_ns) noexcept {
  complete_[recent_count_ % kRecent] = complete;
  recent_[recent_count_++ % kRecent] = static_cast<float>(shortest_ns);
  if (recent_count_ < kRecent) return;
  const double level = std::log(std::max(latest_ns(), 1.0));
  if (past_count_ < kLearn) {
    past_[past_count_++] = static_cast<float>(level);
    if (past_count_ == kLearn) Learn();
    return;
  }
  const double allowed = std::max(kAllowed, kAllowedDeviations * scale_);
  const double limit = std::max(kLimit, kLimitDeviations * scale_);
  const double above = level - usual_;
  sum_ = std::clamp(sum_ + std::min(above - allowed, kMostStep), 0.0, 2 * limit);
  if (!slow_ && sum_ >= limit && latest_ns() - usual_ns() > least_longer_ns)
    slow_ = true, good_ = slow_for_ = 0;
  if (slow_) {
    good_ = above < allowed ? good_ + 1 : 0;
    if (good_ >= kGoodEnds) slow_ = false, sum_ = 0;
    if (++slow_for_ >= kAdoptAfter) {
      slow_ = false;
      sum_ = 0;
      past_count_ = 0;
    }
    return;
  }
  // What may become a fault is not learned.
  if (sum_ > limit / 4) return;
  past_[past_count_++ % kPast] = static_cast<float>(level);
  if (past_count_ >= 2 * kPast) past_count_ = kPast;
  if (past_count_ % 8 == 0) Learn();
}

double DurationBaseline::usual_ns() const noexcept {
  return past_count_ < kLearn ? std::numeric_limits<double>::quiet_NaN() : std::exp(usual_);
}

double DurationBaseline::latest_ns() const noexcept {
  if (recent_count_ < kRecent) return std::numeric_limits<double>::quiet_NaN();
  if (!std::ranges::all_of(complete_, [](bool complete) { return complete; }))
    return *std::ranges::min_element(recent_);
  return MedianOfFew(recent_, kRecent);
}

void LinkDelays::Add(int32_t rank, const LinkDelay& delay) {
  const auto at = std::lower_bound(cells_.begin(), cells_.end(), std::pair(rank, delay.peer),
                                   [](const Cell& cell, const std::pair<int32_t, int32_t>& key) {
                                     return std::pair(cell.rank, cell.peer) < key;
                                   });
  if (at != cells_.end() && at->rank == rank && at->peer == delay.peer) {
    at->delay_ns += 0.3F * (static_cast<float>(delay.delay_ns) - at->delay_ns);
  } else if (cells_.size() < kMost) {
    cells_.insert(at, {rank, delay.peer, static_cast<float>(delay.delay_ns)});
  }
}

std::optional<LinkDelays::Slowest> LinkDelays::Find() const {
  if (cells_.size() < 3) return std::nullopt;
  std::vector<float> values;
  for (const Cell& cell : cells_) values.push_back(cell.delay_ns);
  const double usual = MedianOf(values);
  const Cell* worst = nullptr;
  for (const Cell& cell : cells_) {
    if (cell.delay_ns > kSlowLink * usual && (!worst || cell.delay_ns > worst->delay_ns)) worst = &cell;
  }
  if (!worst) return std::nullopt;
  Slowest slowest{worst->rank, worst->peer, worst->delay_ns, usual};
  // Each link of a rank, in both directions: its network card, or its GPU.
  for (const int32_t rank : {worst->rank, worst->peer}) {
    size_t of = 0, slow = 0;
    for (const Cell& cell : cells_) {
      if (cell.rank != rank && cell.peer != rank) continue;
      ++of;
      slow += cell.delay_ns > kSlowLink * usual;
    }
    if (slow >= 2 && slow == of) return Slowest{rank, -1, worst->delay_ns, usual};
  }
  return slowest;
}

bool SlowCommunication::Add(const CompleteCollective& done) {
  if (static_cast<double>(done.joined.present) < kMostlyPresent * static_cast<double>(done.expected) ||
      !(done.shortest_ns > 0))
    return false;
  auto at = std::ranges::find_if(groups_, [&](const Group& group) {
    return group.function == done.joined.function && group.algorithm == done.algorithm &&
           group.protocol == done.protocol && group.bytes == done.bytes;
  });
  if (at == groups_.end()) {
    if (groups_.size() >= kMostGroups) return false;
    groups_.push_back({done.joined.function, done.algorithm, done.protocol, done.bytes, 0, {}});
    at = std::prev(groups_.end());
  }
  Group& group = *at;
  if (done.joined.interval_ns > 0) group.interval_ns = done.joined.interval_ns;
  const bool before = group.baseline.slow();
  group.baseline.Add(done.shortest_ns, done.joined.present >= done.expected,
                     std::max(kLeastLongerNs, kLeastLongerShare * group.interval_ns));
  return group.baseline.slow() != before;
}

std::optional<SlowCommunication::State> SlowCommunication::slowest() const {
  std::optional<State> worst;
  for (const Group& group : groups_) {
    if (!group.baseline.slow()) continue;
    State state{group.function, group.baseline.usual_ns(), group.baseline.latest_ns(), 0,
                group.baseline.sum()};
    const double longer = state.latest_ns - state.usual_ns;
    if (group.interval_ns > 0) state.share = longer / group.interval_ns;
    if (!worst || longer > worst->latest_ns - worst->usual_ns) worst = state;
  }
  return worst;
}

}  // namespace gpulens::collectives
