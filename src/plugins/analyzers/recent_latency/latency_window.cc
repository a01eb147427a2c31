#include "plugins/analyzers/recent_latency/latency_window.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpulens::recent_latency {

double QuantileOf(const Buckets& buckets, double q) {
  const std::optional<double> estimate = Quantile(buckets, q);
  if (!estimate || buckets.count <= 0) return std::numeric_limits<double>::quiet_NaN();
  if (!buckets.sum) return *estimate;
  const double mean = *buckets.sum / buckets.count;
  double before = 0, low = 0, of_buckets = 0;
  double from = 0, to = std::numeric_limits<double>::infinity();
  bool found = false, one = false;
  const double rank = q * buckets.count;
  for (size_t i = 0; i <= buckets.bounds.size(); ++i) {
    const bool last = i == buckets.bounds.size();
    const double counts = last ? buckets.count : buckets.counts[i];
    const double high = last ? low : buckets.bounds[i];
    const double here = counts - before;
    of_buckets += here * (low + high) / 2;
    if (!found && here > 0 && (counts >= rank || last)) {
      found = true;
      one = here == buckets.count;
      from = low;
      if (!last) to = high;
    }
    before = counts;
    low = high;
  }
  of_buckets /= buckets.count;
  const double moved = one ? mean : of_buckets > 0 ? *estimate * (mean / of_buckets) : *estimate;
  return std::clamp(moved, from, to);
}

void LatencyWindow::Add(const Buckets& growth, int64_t now_ns) {
  if (growth.count <= 0) return;
  if (bounds_ != growth.bounds || rows_.width() == 0) {
    bounds_ = growth.bounds;
    rows_.Reset(bounds_.size() + 2);
  }
  const bool same_row = !rows_.empty() && now_ns - rows_.from_ns(rows_.size() - 1) <
                                              window_.count() / static_cast<int64_t>(kRows);
  std::span<double> row = same_row ? rows_.Last() : rows_.Push(now_ns);
  for (size_t i = 0; i < bounds_.size(); ++i) row[i] += growth.counts[i];
  row[bounds_.size()] += growth.count;
  row[bounds_.size() + 1] += growth.sum.value_or(0);
}

void LatencyWindow::Expire(int64_t now_ns) {
  const int64_t since = now_ns - window_.count();
  rows_.Expire(since);
  // The newest row is kept by it.
  if (rows_.size() == 1 && rows_.from_ns(0) < since) rows_.Reset(rows_.width());
}

Buckets LatencyWindow::Recent() const {
  Buckets out;
  if (rows_.empty()) return out;
  std::vector<double> sums(rows_.width());
  rows_.Sum(sums);
  out.bounds = bounds_;
  out.counts.assign(sums.begin(), sums.begin() + static_cast<std::ptrdiff_t>(bounds_.size()));
  out.count = sums[bounds_.size()];
  out.sum = sums[bounds_.size() + 1];
  return out;
}

Buckets Growing::Next(Buckets now) {
  Buckets growth = known_ ? DeltaOf(last_, now).buckets : now;
  last_ = std::move(now);
  known_ = true;
  return growth;
}

}  // namespace gpulens::recent_latency
