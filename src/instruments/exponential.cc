#include "instruments/exponential.h"

#include <algorithm>

namespace gpulens::instruments {

void ExponentialSum::CoarsenTo(int scale) {
  const int by = scale_ - scale;
  if (by <= 0) return;
  scale_ = scale;
  if (counts_.empty()) return;
  const int32_t low = Coarser(low_, by), high = Coarser(low_ + static_cast<int32_t>(counts_.size()) - 1, by);
  std::vector<uint64_t> coarse(static_cast<size_t>(high - low) + 1);
  for (size_t i = 0; i < counts_.size(); ++i)
    coarse[static_cast<size_t>(Coarser(low_ + static_cast<int32_t>(i), by) - low)] += counts_[i];
  counts_ = std::move(coarse);
  low_ = low;
}

// Makes room for both ends, at a scale at which there is.
void ExponentialSum::Cover(int32_t low, int32_t high) {
  if (!counts_.empty()) {
    low = std::min(low, low_);
    high = std::max(high, low_ + static_cast<int32_t>(counts_.size()) - 1);
  }
  int by = 0;
  while (Coarser(high, by) - Coarser(low, by) >= static_cast<int32_t>(kWindow)) ++by;
  CoarsenTo(scale_ - by);
  low = Coarser(low, by);
  high = Coarser(high, by);
  if (counts_.empty()) low_ = low;
  counts_.insert(counts_.begin(), static_cast<size_t>(low_ - low), 0);
  low_ = low;
  counts_.resize(static_cast<size_t>(high - low) + 1);
}

void ExponentialSum::Add(int scale, int32_t offset, std::span<const uint64_t> counts) {
  const auto some = [](uint64_t count) { return count != 0; };
  const auto begin = std::find_if(counts.begin(), counts.end(), some);
  if (begin == counts.end()) return;
  const auto last = std::find_if(counts.rbegin(), counts.rend(), some);
  const int32_t first = static_cast<int32_t>(begin - counts.begin());
  const int32_t end = static_cast<int32_t>(counts.rend() - last);
  CoarsenTo(scale);
  int by = scale - scale_;
  Cover(Coarser(offset + first, by), Coarser(offset + end - 1, by));
  by = scale - scale_;
  for (int32_t i = first; i < end; ++i)
    counts_[static_cast<size_t>(Coarser(offset + i, by) - low_)] += counts[static_cast<size_t>(i)];
}

}  // namespace gpulens::instruments
