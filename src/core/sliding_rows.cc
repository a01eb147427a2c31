#include "core/sliding_rows.h"

#include <algorithm>

namespace gpulens {

// Twice as many rows, and the oldest at the start.
void SlidingRows::Grow() {
  size_t rows = std::min(std::max<size_t>(2, 2 * from_ns_.size()), rows_max_);
  std::rotate(from_ns_.begin(), from_ns_.begin() + static_cast<ptrdiff_t>(first_), from_ns_.end());
  std::rotate(cells_.begin(), cells_.begin() + static_cast<ptrdiff_t>(first_ * width_), cells_.end());
  first_ = 0;
  from_ns_.reserve(rows);
  cells_.reserve(rows * width_);
  from_ns_.resize(rows);
  cells_.resize(rows * width_);
}

std::span<double> SlidingRows::Push(int64_t from_ns) {
  if (size_ == from_ns_.size() && size_ < rows_max_) Grow();
  if (size_ == from_ns_.size()) {
    first_ = (first_ + 1) % from_ns_.size();
    --size_;
  }
  from_ns_[Place(size_)] = from_ns;
  ++size_;
  std::span<double> row = Last();
  std::fill(row.begin(), row.end(), 0.0);
  return row;
}

void SlidingRows::Expire(int64_t since_ns) noexcept {
  while (size_ > 1 && from_ns(0) < since_ns) {
    first_ = (first_ + 1) % from_ns_.size();
    --size_;
  }
}

void SlidingRows::Reset(size_t width) {
  first_ = size_ = 0;
  if (width == width_) return;
  width_ = width;
  cells_.resize(from_ns_.size() * width);
}

void SlidingRows::Sum(std::span<double> out) const noexcept {
  std::fill(out.begin(), out.end(), 0.0);
  for (size_t i = 0; i < size_; ++i) {
    std::span<const double> row = (*this)[i];
    for (size_t k = 0; k < row.size(); ++k) out[k] += row[k];
  }
}

}  // namespace gpulens
