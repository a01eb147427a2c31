// Exact sum of doubles: does not depend on the order of the numbers, so a total over processes and threads
// never falls when they are added in another order.
#pragma once

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace gpulens::instruments {

// Keeps a sum as a few doubles that do not overlap (Shewchuk 1997). A plain value.
class ExactSum {
 public:
  void Add(double n) {
    if (!std::isfinite(n)) {
      special_ += n;
      return;
    }
    size_t kept = 0;
    for (double part : parts_) {
      if (std::abs(n) < std::abs(part)) std::swap(n, part);
      const double high = n + part;
      if (const double low = part - (high - n); low != 0) parts_[kept++] = low;
      n = high;
    }
    parts_.resize(kept);
    if (std::isfinite(n)) parts_.push_back(n);
    else special_ += n;
  }
  // The double nearest to the sum.
  double value() const noexcept {
    if (special_ != 0 || parts_.empty()) return special_;  // NaN is not 0
    size_t left = parts_.size();
    double high = parts_[--left], low = 0;
    while (left > 0 && low == 0) {
      const double sum = high + parts_[--left];
      low = parts_[left] - (sum - high);
      high = sum;
    }
    // Half way between two doubles the parts below decide.
    if (left > 0 && ((low < 0 && parts_[left - 1] < 0) || (low > 0 && parts_[left - 1] > 0))) {
      const double twice = low * 2, rounded = high + twice;
      if (twice == rounded - high) return rounded;
    }
    return high;
  }
  // Numbers whose exact sum this is.
  std::vector<double> parts() const {
    std::vector<double> all = parts_;
    if (special_ != 0) all.push_back(special_);
    return all;
  }

 private:
  std::vector<double> parts_;  // ascending by magnitude
  double special_ = 0;         // infinite or NaN; else 0
};

}  // namespace gpulens::instruments
