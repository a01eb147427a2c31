#include <algorithm>
#include <cmath>

#include <gpulens/stats.h>

namespace gpulens {

double Percentile(std::span<const double> ascending, double fraction) noexcept {
  if (ascending.empty() || !(fraction >= 0 && fraction <= 1)) return kNotMeasured;
  const double rank = static_cast<double>(ascending.size() - 1) * fraction;
  const size_t below = static_cast<size_t>(rank);
  if (below + 1 >= ascending.size()) return ascending.back();
  const double part = rank - static_cast<double>(below);
  return ascending[below] + part * (ascending[below + 1] - ascending[below]);
}

Distribution Describe(std::span<const double> values) {
  std::vector<double> sorted;
  sorted.reserve(values.size());
  std::ranges::copy_if(values, std::back_inserter(sorted), [](double value) { return !std::isnan(value); });
  std::ranges::sort(sorted);
  Distribution out;
  out.n = sorted.size();
  if (sorted.empty()) return out;
  // Welford, 1962: no difference of large squares.
  double mean = 0, squares = 0, count = 0;
  for (double value : sorted) {
    out.sum += value;
    const double before = value - mean;
    mean += before / ++count;
    squares += before * (value - mean);
  }
  out.mean = out.sum / count;
  if (sorted.size() > 1) out.std = std::sqrt(squares / (count - 1));
  out.min = sorted.front();
  out.p50 = Percentile(sorted, 0.5);
  out.p90 = Percentile(sorted, 0.9);
  out.p95 = Percentile(sorted, 0.95);
  out.p99 = Percentile(sorted, 0.99);
  out.max = sorted.back();
  return out;
}

Distribution InterTokenLatency(std::span<const TimePoint> arrivals) {
  std::vector<double> gaps;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = std::chrono::duration<double>(arrivals[i] - arrivals[i - 1]).count();
    if (gap >= 0) gaps.push_back(gap);
  }
  return Describe(gaps);
}

SteadyStateDetector::SteadyStateDetector(const SteadyStateOptions& options)
    : options_(options), window_(std::max<size_t>(options.window, 2)) {}

void SteadyStateDetector::Reset() noexcept {
  recorded_ = 0;
  quiet_ = 0;
  steady_ = false;
}

bool SteadyStateDetector::Record(double value) noexcept {
  const uint64_t number = recorded_++;
  if (number < options_.warmup) return steady_;
  window_[(number - options_.warmup) % window_.size()] = value;
  if (steady_ || recorded_ - options_.warmup < window_.size()) return steady_;
  quiet_ = Quiet() ? quiet_ + 1 : 0;
  steady_ = quiet_ >= std::max<size_t>(options_.consecutive, 1);
  return steady_;
}

bool SteadyStateDetector::Quiet() const noexcept {
  const double count = static_cast<double>(window_.size());
  double sum = 0, squares = 0;
  for (double value : window_) sum += value;
  const double mean = sum / count;
  for (double value : window_) squares += (value - mean) * (value - mean);
  return mean > 0 && std::sqrt(squares / (count - 1)) / mean < options_.cv_below;
}

}  // namespace gpulens
