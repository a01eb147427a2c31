#include "plugins/analyzers/fleet_health/health_window.h"

#include <algorithm>

namespace gpulens {
namespace {

constexpr int64_t kSpacings = 60;

}  // namespace

void GrowingCount::Read(double value) noexcept {
  // After a fall the source counts from 0 again.
  if (last) grown += value >= *last ? value - *last : value;
  last = value;
}

void RecentGrowth::Read(int64_t now_ns, double value) noexcept {
  int64_t step = now_ns / kStepNs;
  // Steps without a reading have no growth.
  for (int64_t left = std::min<int64_t>(step - step_, kSteps); left > 0; --left)
    steps_[static_cast<size_t>(step - left + 1) % kSteps] = 0;
  step_ = step;
  double before = count_.grown;
  count_.Read(value);
  steps_[static_cast<size_t>(step) % kSteps] += count_.grown - before;
}

double RecentGrowth::grown() const noexcept {
  double sum = 0;
  for (double step : steps_) sum += step;
  return sum;
}

void HealthWindow::Push(const HealthMoment& moment) noexcept {
  moments_[(first_ + size_) % kMoments] = moment;
  if (size_ < kMoments) ++size_;
  else first_ = (first_ + 1) % kMoments;
}

void HealthWindow::Observe(int64_t now_ns, const Reading& reading) noexcept {
  now_ = {};
  now_.at_ns = now_ns;
  if (reading.temperature) now_.temperature = static_cast<float>(*reading.temperature);
  if (reading.corrected) {
    corrected_.Read(*reading.corrected);
    now_.corrected = corrected_.grown;
  }
  if (reading.xids) {
    xids_.Read(*reading.xids);
    now_.xids = xids_.grown;
  }
  int64_t spacing = length_.count() / kSpacings;
  if (size_ == 0 || now_ns - (*this)[size_ - 1].at_ns >= spacing) Push(now_);
}

std::optional<double> HealthWindow::PerHour(std::optional<double> HealthMoment::* count) const noexcept {
  if (!(now_.*count)) return std::nullopt;
  int64_t begin = now_.at_ns - length_.count();
  // The newest moment at or before the window began; without one, the oldest there is.
  const HealthMoment* base = nullptr;
  for (size_t i = 0; i < size_; ++i) {
    const HealthMoment& moment = (*this)[i];
    if (!(moment.*count)) continue;
    if (base && moment.at_ns > begin) break;
    base = &moment;
  }
  if (!base || base->at_ns >= now_.at_ns) return std::nullopt;
  double hours = static_cast<double>(length_.count()) / 3.6e12;
  return (*(now_.*count) - *(base->*count)) / hours;
}

std::optional<double> HealthWindow::RampPerMinute() const noexcept {
  if (!now_.temperature) return std::nullopt;
  int64_t begin = now_.at_ns - length_.count();
  int64_t oldest = now_.at_ns;
  double n = 0, sum_t = 0, sum_y = 0, sum_tt = 0, sum_ty = 0;
  auto add = [&](const HealthMoment& moment) {
    double t = static_cast<double>(moment.at_ns - now_.at_ns) / 6e10, y = *moment.temperature;
    n += 1;
    sum_t += t;
    sum_y += y;
    sum_tt += t * t;
    sum_ty += t * y;
  };
  for (size_t i = 0; i < size_; ++i) {
    const HealthMoment& moment = (*this)[i];
    if (!moment.temperature || moment.at_ns < begin || moment.at_ns >= now_.at_ns) continue;
    if (moment.at_ns < oldest) oldest = moment.at_ns;
    add(moment);
  }
  add(now_);
  if (n < 3 || now_.at_ns - oldest < length_.count() / 2) return std::nullopt;
  double spread = n * sum_tt - sum_t * sum_t;
  if (spread <= 0) return std::nullopt;
  return (n * sum_ty - sum_t * sum_y) / spread;
}

}  // namespace gpulens
