#include "energy/run_share.h"

#include <algorithm>
#include <cmath>

namespace gpulens::energy {
namespace {

// Maximum time guessed before the first reading; devices are open by then, or the run has a gap.
constexpr int64_t kLongestGuessNs = 5'000'000'000;

double HalfWidth(const CurvePosition& at) noexcept {
  const double off = std::max(at.high - at.joules, at.joules - at.low);
  return IsKnown(off) ? off : 0;
}

}  // namespace

UseShare ShareOf(const EnergyProcesses& processes) noexcept {
  double own = 0, all = 0;
  size_t count = 0;
  for (const EnergyProcess& one : processes.list) {
    all += one.utilization_ratio;
    if (!one.own) continue;
    own += one.utilization_ratio;
    ++count;
  }
  if (processes.since_last)
    return all > 0 ? UseShare{std::clamp(own / all, 0.0, 1.0), 0, SharingMethod::kByCpuTime} : UseShare{};
  if (count == 0) return {};
  if (count == processes.list.size()) return {1, 0, SharingMethod::kExclusive};
  const double equal = static_cast<double>(count) / static_cast<double>(processes.list.size());
  if (std::isnan(all)) return {equal, std::max(equal, 1 - equal), SharingMethod::kEqually};
  if (!(all > 0)) return {equal, 0, SharingMethod::kEqually};
  return {own / all, std::abs(own / all - equal), SharingMethod::kByUtilization};
}

RunShare::RunShare(int64_t begin_ns, double most_watts) : most_watts_(most_watts), at_ns_(begin_ns) {}

void RunShare::Observe(const UseObservation& look) {
  if (seen_ && look.at_ns <= *seen_) return;
  seen_ = look.at_ns;
  ahead_.push_back(look);
}

// Share between the last observation and this one. Assumes that the run used the device before it was first
// seen.
RunShare::Slice RunShare::Between(const UseObservation& look) const noexcept {
  const UseShare& now = look.share;
  if (look.since_last) return {now.own, now.spread, now.sharing};
  if (!last_) return {now.own, now.sharing == SharingMethod::kWholeBoard ? 0 : now.own, now.sharing};
  const UseShare& before = last_->share;
  return {(before.own + now.own) / 2, std::abs(now.own - before.own) / 2 + (before.spread + now.spread) / 2,
          std::max(before.sharing, now.sharing)};
}

RunShare::Slice RunShare::Last() const noexcept {
  if (!last_) return {};
  return {last_->share.own, last_->share.spread, last_->share.sharing};
}

void RunShare::Add(double joules, const Slice& slice) noexcept {
  if (slice.own > 0 || part_.device_joules > 0) part_.device_joules += joules;
  part_.joules += slice.own * joules;
  part_.by[static_cast<size_t>(slice.sharing)] += slice.own * joules;
  part_.sharing_half_width += slice.off * joules;
}

// The power of the first reading holds for what lies before it; the device drew between nothing and the most
// that it can.
bool RunShare::Begin(const EnergyCurve& curve, int64_t until_ns, const Slice& slice) {
  const auto first = curve.first_ns();
  if (!first) return false;
  if (at_ns_ < *first) {
    const int64_t to_ns = std::min(until_ns, *first);
    const double seconds = Seconds(to_ns - at_ns_), watts = curve.first_watts();
    if (!IsKnown(watts) || to_ns - at_ns_ > kLongestGuessNs) {
      if (slice.own > 0) part_.flaw = EnergyFlaw::kOutside;
    } else {
      Add(watts * seconds, slice);
      const double most = IsKnown(most_watts_) ? std::max(watts, most_watts_ - watts) : watts;
      part_.half_width += slice.own * most * seconds;
      part_.guessed_seconds += seconds;
      own_seconds_ += slice.own * seconds;
    }
    at_ns_ = to_ns;
    if (until_ns <= *first && at_ns_ < *first) return false;
  }
  const CurvePosition at = curve.At(at_ns_);
  begun_ = true;
  joules_ = at.joules, half_width_ = HalfWidth(at), integral_half_width_ = at.integral_half_width;
  flaws_ended_ = at.flaws_ended;
  if (!IsKnown(at.joules) && slice.own > 0) part_.flaw = EnergyFlaw::kOutside;
  return true;
}

void RunShare::Take(const EnergyCurve& curve, int64_t until_ns, const Slice& slice) {
  if (until_ns <= at_ns_ || (!begun_ && !Begin(curve, until_ns, slice)) || until_ns <= at_ns_) return;
  const CurvePosition to = curve.At(until_ns);
  const double drawn = to.joules - joules_;
  if (IsKnown(drawn) && to.flaws_begun == flaws_ended_) {
    Add(drawn, slice);
    own_seconds_ += slice.own * Seconds(until_ns - at_ns_);
    // With equal shares on both sides of an instant, its position does not matter.
    part_.half_width += std::abs(slice.own - own_) * half_width_;
    part_.half_width += slice.own * (to.integral_half_width - integral_half_width_);
  } else if (slice.own > 0) {
    part_.flaw = to.flaw == EnergyFlaw::kNone ? EnergyFlaw::kOutside : to.flaw;
  }
  own_ = slice.own;
  at_ns_ = until_ns;
  joules_ = to.joules, half_width_ = HalfWidth(to), integral_half_width_ = to.integral_half_width;
  flaws_ended_ = to.flaws_ended;
}

void RunShare::Settle(const EnergyCurve& curve) {
  const auto settled = curve.settled_ns();
  while (settled && !ahead_.empty() && ahead_.front().at_ns <= *settled) {
    const UseObservation look = ahead_.front();
    ahead_.pop_front();
    if (look.at_ns > at_ns_) Take(curve, look.at_ns, Between(look));
    last_ = look;
  }
}

RunPart RunShare::Upto(int64_t end_ns, const EnergyCurve& curve) const {
  RunShare now = *this;
  while (!now.ahead_.empty() && now.at_ns_ < end_ns) {
    const UseObservation look = now.ahead_.front();
    now.ahead_.pop_front();
    now.Take(curve, std::min(look.at_ns, end_ns), now.Between(look));
    now.last_ = look;
  }
  now.Take(curve, end_ns, now.Last());
  RunPart& part = now.part_;
  part.half_width += now.own_ * now.half_width_;
  if (IsKnown(most_watts_))
    part.half_width =
        std::min(part.half_width, std::max(part.joules, most_watts_ * now.own_seconds_ - part.joules));
  return part;
}

}  // namespace gpulens::energy
