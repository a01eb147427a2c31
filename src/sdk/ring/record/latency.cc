#include "sdk/ring/record/latency.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace gpulens::ring {
namespace {

void Merge(const instruments::Exponential& from, instruments::Exponential& to) {
  to.buckets.Add(from.buckets.scale(), from.buckets.offset(), from.buckets.counts());
  to.sum += from.sum;
  to.zeros += from.zeros;
}

// The value at a rank, which may lie between two: where in its bucket as many are below it.
double AtRank(const instruments::Exponential& whole, double rank) {
  double below = static_cast<double>(whole.zeros);
  if (rank < below) return 0;
  const std::span<const uint64_t> counts = whole.buckets.counts();
  const double width = std::exp2(-whole.buckets.scale());  // of a bucket, in doublings
  for (size_t i = 0; i < counts.size(); ++i) {
    const double here = static_cast<double>(counts[i]);
    if (rank < below + here) {
      const double part = (rank - below + 0.5) / here;
      const double bucket = static_cast<double>(whole.buckets.offset()) + static_cast<double>(i);
      return std::exp2((bucket + std::min(part, 1.0)) * width);
    }
    below += here;
  }
  return std::numeric_limits<double>::infinity();  // the caller knows the most
}

}  // namespace

void Latency::Record(double seconds) noexcept {
  if (!(seconds >= 0 && seconds <= std::numeric_limits<double>::max())) return;
  instruments::RecordInWindow(window_.data(), seconds);
  if (n_++ == 0) first_ = least_ = most_ = seconds;
  sum_ += seconds;
  least_ = std::min(least_, seconds);
  most_ = std::max(most_, seconds);
  const double off = seconds - first_;
  off_ += off;
  squares_ += off * off;
}

void Latency::Reset() {
  instruments::ReadWindow(window_.data(), before_);
  for (instruments::Cell& cell : window_) cell.store(0, std::memory_order_relaxed);
  n_ = 0;
  sum_ = least_ = most_ = first_ = off_ = squares_ = 0;
}

Distribution Latency::Describe() const {
  Distribution out;
  out.n = n_;
  if (n_ == 0) return out;
  const double n = static_cast<double>(n_);
  out.sum = sum_;
  out.mean = first_ + off_ / n;
  if (n_ > 1) out.std = std::sqrt(std::max(0.0, squares_ - off_ * off_ / n) / (n - 1));
  out.min = least_;
  out.max = most_;
  instruments::Exponential whole;
  instruments::ReadWindow(window_.data(), whole);
  const auto at = [&](double fraction) {
    return std::clamp(AtRank(whole, fraction * (n - 1)), least_, most_);
  };
  out.p50 = at(0.5);
  out.p90 = at(0.9);
  out.p95 = at(0.95);
  out.p99 = at(0.99);
  return out;
}

void Latency::AddTo(instruments::Exponential& sum) const {
  Merge(before_, sum);
  instruments::ReadWindow(window_.data(), sum);
}

}  // namespace gpulens::ring
