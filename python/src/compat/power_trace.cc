#include "src/compat/power_trace.h"

#include <algorithm>
#include <cmath>

namespace gpulens::energy {
namespace {

// Integral of the line from (t0, p0) to (t1, p1) over [begin, end], which lies on it. t0 < t1.
double Trapezoid(const PowerSample& from, const PowerSample& to, double PowerSample::* power, double begin,
                 double end) {
  const double p0 = from.*power, p1 = to.*power;
  if (!std::isfinite(p0) || !std::isfinite(p1)) return 0;
  const double length = static_cast<double>(to.at_ns - from.at_ns);
  return (std::lerp(p0, p1, begin / length) + std::lerp(p0, p1, end / length)) / 2 * (end - begin) * 1e-9;
}

}  // namespace

PowerTrace::PowerTrace(size_t capacity) : capacity_(std::max<size_t>(capacity, 1)) {}

void PowerTrace::Add(const PowerSample& sample) {
  const std::lock_guard lock(mutex_);
  if (!samples_.empty() && sample.at_ns < At(samples_.size() - 1).at_ns) return;
  if (samples_.size() < capacity_) {
    samples_.push_back(sample);
    return;
  }
  samples_[begin_] = sample;
  begin_ = (begin_ + 1) % capacity_;
}

void PowerTrace::Clear() {
  const std::lock_guard lock(mutex_);
  samples_.clear();
  begin_ = 0;
}

size_t PowerTrace::size() const {
  const std::lock_guard lock(mutex_);
  return samples_.size();
}

size_t PowerTrace::FirstFrom(int64_t at_ns) const noexcept {
  size_t low = 0, high = samples_.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (At(middle).at_ns < at_ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

std::vector<PowerSample> PowerTrace::Within(int64_t begin_ns, int64_t end_ns) const {
  const std::lock_guard lock(mutex_);
  std::vector<PowerSample> out;
  for (size_t i = FirstFrom(begin_ns); i < samples_.size() && At(i).at_ns <= end_ns; ++i)
    out.push_back(At(i));
  return out;
}

PowerTrace::Pair PowerTrace::EnergyJoules(int64_t begin_ns, int64_t end_ns) const {
  const std::lock_guard lock(mutex_);
  Pair out;
  // The interval that ends with sample i begins with sample i - 1, which may be before the span.
  for (size_t i = std::max<size_t>(FirstFrom(begin_ns), 1); i < samples_.size(); ++i) {
    const PowerSample& from = At(i - 1);
    const PowerSample& to = At(i);
    if (from.at_ns >= end_ns) break;
    if (from.at_ns == to.at_ns) continue;
    const double begin = static_cast<double>(std::max(begin_ns, from.at_ns) - from.at_ns);
    const double end = static_cast<double>(std::min(end_ns, to.at_ns) - from.at_ns);
    if (end <= begin) continue;
    out.gpu += Trapezoid(from, to, &PowerSample::gpu_watts, begin, end);
    out.cpu += Trapezoid(from, to, &PowerSample::cpu_watts, begin, end);
  }
  return out;
}

PowerTrace::Pair PowerTrace::MeanWatts(int64_t begin_ns, int64_t end_ns) const {
  const std::lock_guard lock(mutex_);
  Pair sum, out;
  double gpus = 0, cpus = 0;
  for (size_t i = FirstFrom(begin_ns); i < samples_.size() && At(i).at_ns <= end_ns; ++i) {
    if (std::isfinite(At(i).gpu_watts)) sum.gpu += At(i).gpu_watts, ++gpus;
    if (std::isfinite(At(i).cpu_watts)) sum.cpu += At(i).cpu_watts, ++cpus;
  }
  if (gpus > 0) out.gpu = sum.gpu / gpus;
  if (cpus > 0) out.cpu = sum.cpu / cpus;
  return out;
}

}  // namespace gpulens::energy
