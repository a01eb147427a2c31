// Rows of numbers that were counted from one moment to the next, over a sliding window, in one flat buffer.
//
// Two rows of a histogram with 24 bounds are 2 × (8 + 26 × 8) bytes: what a window costs is rows × width × 8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpulens {

// A plain value; not thread-safe. Allocates while it grows to the number of rows that its window needs, at
// most `rows_max`, and never again.
class SlidingRows {
 public:
  SlidingRows(size_t width, size_t rows_max) : width_(width), rows_max_(rows_max ? rows_max : 1) {}

  size_t width() const noexcept { return width_; }
  size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  // When the i-th oldest row begins; it ends where the next one begins.
  int64_t from_ns(size_t i) const noexcept { return from_ns_[Place(i)]; }
  std::span<const double> operator[](size_t i) const noexcept {
    return {cells_.data() + Place(i) * width_, width_};
  }

  // A row of zeros after the others, to be filled in. The oldest leaves when there are too many.
  std::span<double> Push(int64_t from_ns);
  // The newest row; there must be one.
  std::span<double> Last() noexcept { return {cells_.data() + Place(size_ - 1) * width_, width_}; }
  // Rows that began before `since_ns` leave, but the newest one stays.
  void Expire(int64_t since_ns) noexcept;
  // No rows, of a width that may be another one.
  void Reset(size_t width);
  // Adds up all rows; `out` is as wide as one.
  void Sum(std::span<double> out) const noexcept;

  size_t memory_bytes() const noexcept {
    return cells_.capacity() * sizeof(double) + from_ns_.capacity() * sizeof(int64_t);
  }

 private:
  size_t Place(size_t i) const noexcept { return (first_ + i) % from_ns_.size(); }
  void Grow();

  size_t width_;
  size_t rows_max_;
  std::vector<double> cells_;
  std::vector<int64_t> from_ns_;
  size_t first_ = 0, size_ = 0;
};

}  // namespace gpulens
