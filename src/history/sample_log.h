// Rows of bits in memory of fixed size, in segments: a row has the values of one group of series at one time.
// When there is no room, or when they are too old, the oldest segments are dropped. Each segment can be read
// without those before it, as its first rows carry what was known when it began. Not thread-safe; nothing
// allocates but the constructor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "history/bits.h"

namespace gpulens {

class SampleLog {
 public:
  struct Segment {
    uint64_t begin = 0;                 // position of its first row
    uint64_t samples = 0;               // without carried ones
    int64_t first_ms = 0, last_ms = 0;  // of its rows, without carried ones; only with rows
    uint32_t rows = 0;                  // likewise
  };
  struct Row {
    uint32_t group = 0;
    uint64_t at = 0;  // position
    BitReader bits;
  };

  // Segments end after `segment_ms`, or when they have used a part of the memory. Samples older than
  // `window_ms` are dropped with their segment.
  SampleLog(size_t bytes, int64_t window_ms);

  // Whether to begin a segment before the next row, and to carry what is known into it.
  bool WantsSegment(int64_t now_ms) const noexcept;
  // Begins one, and drops those that are too old.
  void BeginSegment(int64_t now_ms) noexcept;

  // The row's place; `most` is what it may need in bits. Ends the segments whose room is needed.
  BitWriter BeginRow(size_t most_bits) noexcept;
  void EndRow(const BitWriter& row, uint32_t group) noexcept;
  // The same for a row with samples at `ms`.
  void EndRow(const BitWriter& row, uint32_t group, int64_t ms, uint64_t samples) noexcept;

  // Positions only grow. That of the next row.
  uint64_t end() const noexcept { return end_; }
  // The oldest is first. `number` counts all segments that there were.
  uint64_t first_number() const noexcept { return first_number_; }
  uint64_t end_number() const noexcept { return first_number_ + count_; }
  const Segment& segment(uint64_t number) const noexcept { return segments_[number % segments_.size()]; }
  uint64_t samples() const noexcept { return samples_; }
  uint64_t used_bytes() const noexcept { return count_ == 0 ? 0 : end_ - segment(first_number_).begin; }
  size_t capacity() const noexcept { return capacity_; }
  size_t allocated() const noexcept { return capacity_ + kBitSlack + segments_.size() * sizeof(Segment); }
  // The bits that one row may need; more cannot be kept.
  size_t longest_row_bits() const noexcept { return capacity_; }

  // Calls `visit(Row)` for the rows of a segment up to a position.
  template <class Visit>
  void ForEachRow(uint64_t number, uint64_t until, Visit&& visit) const {
    const uint64_t stop = number + 1 < end_number() ? segment(number + 1).begin : end_;
    for (uint64_t at = segment(number).begin; at < stop && at < until;) {
      Row row{0, at, BitReader(nullptr, 0)};
      at = RowAt(at, row);
      visit(row);
    }
  }

 private:
  Segment& open() noexcept { return segments_[(end_number() - 1) % segments_.size()]; }
  void DropOldest() noexcept;
  // Fills the row that begins at or, at the end of the memory, behind `at`, and returns where the next one
  // begins.
  uint64_t RowAt(uint64_t at, Row& row) const noexcept;
  const uint8_t* At(uint64_t position) const noexcept { return memory_.get() + position % capacity_; }

  const size_t capacity_;
  const int64_t window_ms_, segment_ms_;
  const std::unique_ptr<uint8_t[]> memory_;
  std::vector<Segment> segments_;  // a ring
  uint64_t first_number_ = 0, count_ = 0;
  uint64_t end_ = 0, samples_ = 0;
  int64_t began_ms_ = 0;  // of the open segment
};

}  // namespace gpulens
