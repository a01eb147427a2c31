#include "history/sample_log.h"

#include <algorithm>

#include "base/check.h"

namespace gpulens {
namespace {

constexpr size_t kMostSegments = 64;
constexpr size_t kSegmentsInMemory = 24, kSegmentsInWindow = 16;
// In front of each row: the bytes of its bits, and its group. A row of 0 bytes: the next one is at the begin
// of the memory.
constexpr size_t kMostHead = 8;

size_t WriteNumberAt(uint8_t* at, uint64_t number) noexcept {
  size_t size = 0;
  for (; number >= 128; number >>= 7) at[size++] = static_cast<uint8_t>(number | 128);
  at[size++] = static_cast<uint8_t>(number);
  return size;
}
uint64_t ReadNumberAt(const uint8_t*& at) noexcept {
  uint64_t number = 0;
  for (unsigned shift = 0;; shift += 7) {
    const uint8_t byte = *at++;
    number |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return number;
  }
}

}  // namespace

SampleLog::SampleLog(size_t bytes, int64_t window_ms)
    : capacity_(bytes),
      window_ms_(window_ms),
      segment_ms_(window_ms / static_cast<int64_t>(kSegmentsInWindow)),
      memory_(std::make_unique_for_overwrite<uint8_t[]>(bytes + kBitSlack)),
      segments_(kMostSegments) {}

bool SampleLog::WantsSegment(int64_t now_ms) const noexcept {
  if (count_ == 0) return true;
  const Segment& last = segment(end_number() - 1);
  return end_ - last.begin >= capacity_ / kSegmentsInMemory || now_ms - began_ms_ >= segment_ms_;
}

void SampleLog::BeginSegment(int64_t now_ms) noexcept {
  while (count_ > 0) {
    const Segment& oldest = segment(first_number_);
    const bool old = oldest.rows == 0 || oldest.last_ms < now_ms - window_ms_;
    if (!old && count_ < segments_.size()) break;
    DropOldest();
  }
  ++count_;
  open() = {};
  open().begin = end_;
  began_ms_ = now_ms;
}

void SampleLog::DropOldest() noexcept {
  samples_ -= segment(first_number_).samples;
  ++first_number_;
  --count_;
}

BitWriter SampleLog::BeginRow(size_t most_bits) noexcept {
  const uint64_t most = most_bits / 8 + 1 + kMostHead;
  CHECK(most <= capacity_);
  if (const uint64_t left = capacity_ - end_ % capacity_; left < most) {
    memory_[end_ % capacity_] = 0;
    end_ += left;
  }
  while (count_ > 1 && end_ + most - segment(first_number_).begin > capacity_) DropOldest();
  CHECK(end_ + most - segment(first_number_).begin <= capacity_);
  return BitWriter(memory_.get() + end_ % capacity_ + kMostHead);
}

void SampleLog::EndRow(const BitWriter& row, uint32_t group) noexcept {
  uint8_t* at = memory_.get() + end_ % capacity_;
  const size_t bytes = row.bytes();
  uint8_t head[kMostHead + 4];
  size_t size = WriteNumberAt(head, bytes);
  size += WriteNumberAt(head + size, group);
  CHECK(bytes > 0 && size <= kMostHead);
  std::memcpy(at, head, size);
  std::memmove(at + size, at + kMostHead, bytes);
  end_ += size + bytes;
}

void SampleLog::EndRow(const BitWriter& row, uint32_t group, int64_t ms, uint64_t samples) noexcept {
  EndRow(row, group);
  Segment& segment = open();
  segment.first_ms = segment.rows == 0 ? ms : std::min(segment.first_ms, ms);
  segment.last_ms = segment.rows == 0 ? ms : std::max(segment.last_ms, ms);
  ++segment.rows;
  segment.samples += samples;
  samples_ += samples;
}

uint64_t SampleLog::RowAt(uint64_t at, Row& row) const noexcept {
  if (*At(at) == 0) at += capacity_ - at % capacity_;
  const uint8_t* head = At(at);
  const uint8_t* bits = head;
  const size_t bytes = ReadNumberAt(bits);
  row.group = static_cast<uint32_t>(ReadNumberAt(bits));
  row.at = at;
  row.bits = BitReader(bits, bytes);
  return at + static_cast<uint64_t>(bits - head) + bytes;
}

}  // namespace gpulens
