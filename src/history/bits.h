// Bits in bytes, the lowest first. Both may touch eight bytes behind the last one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpulens {

static_assert(std::endian::native == std::endian::little);

inline constexpr size_t kBitSlack = 8;  // bytes behind the end that are read and written

class BitWriter {
 public:
  explicit BitWriter(uint8_t* at) noexcept : begin_(at), at_(at) {}

  // `count` up to 56; higher bits of `bits` are 0.
  void Put(uint64_t bits, unsigned count) noexcept {
    held_ |= bits << used_;
    used_ += count;
    std::memcpy(at_, &held_, sizeof held_);
    at_ += used_ / 8;
    held_ >>= used_ & ~7u;
    used_ &= 7;
  }
  void PutWide(uint64_t bits) noexcept {
    Put(bits & 0xFFFFFFFF, 32);
    Put(bits >> 32, 32);
  }
  // Elias' gamma code of 1 to 2^32: short for small numbers. Contains a bit that is 1.
  void PutGamma(uint64_t number) noexcept {
    const unsigned more = static_cast<unsigned>(std::bit_width(number)) - 1;
    Put(uint64_t{1} << more, more + 1);
    Put(number & ((uint64_t{1} << more) - 1), more);
  }
  // The length in 6 bits, then the bits below the highest.
  void PutSized(uint64_t number) noexcept {
    const unsigned width = static_cast<unsigned>(std::bit_width(number));
    Put(width > 63 ? 63 : width, 6);
    if (width > 62) return PutWide(number);
    if (width > 1) Put(number & 0xFFFFFFFF & ((uint64_t{1} << (width - 1)) - 1), width > 32 ? 32 : width - 1);
    if (width > 33) Put(number >> 32 & ((uint64_t{1} << (width - 33)) - 1), width - 33);
  }
  // Bytes so far; the last one is filled with zeros.
  size_t bytes() const noexcept { return static_cast<size_t>(at_ - begin_) + (used_ > 0 ? 1 : 0); }

 private:
  uint8_t* begin_;
  uint8_t* at_;
  uint64_t held_ = 0;
  unsigned used_ = 0;
};

class BitReader {
 public:
  BitReader(const uint8_t* data, size_t bytes) noexcept : data_(data), end_(bytes * 8) {}

  uint64_t Take(unsigned count) noexcept {
    const uint64_t bits = Peek() & ((uint64_t{1} << count) - 1);
    at_ += count;
    return bits;
  }
  uint64_t TakeWide() noexcept {
    const uint64_t low = Take(32);
    return low | Take(32) << 32;
  }
  uint64_t TakeGamma() noexcept {
    const unsigned more = static_cast<unsigned>(std::countr_zero(Peek() | uint64_t{1} << 40));
    at_ += more + 1;
    return uint64_t{1} << more | Take(more);
  }
  uint64_t TakeSized() noexcept {
    const unsigned width = static_cast<unsigned>(Take(6));
    if (width == 63) return TakeWide();
    if (width < 2) return width;
    const uint64_t low = Take(width > 32 ? 32 : width - 1);
    const uint64_t high = width > 33 ? Take(width - 33) : 0;
    return low | high << 32 | uint64_t{1} << (width - 1);
  }
  // Takes ones up to a zero, which it takes, too, or up to `most` ones.
  unsigned TakeOnes(unsigned most) noexcept {
    const unsigned ones = static_cast<unsigned>(std::countr_one(Peek()));
    if (ones >= most) return at_ += most, most;
    return at_ += ones + 1, ones;
  }
  // Whether only the zeros that fill the last byte are left.
  bool AtEnd() const noexcept {
    return at_ >= end_ || (end_ - at_ < 8 && (Peek() & ((uint64_t{1} << (end_ - at_)) - 1)) == 0);
  }
  bool passed_end() const noexcept { return at_ > end_; }

 private:
  uint64_t Peek() const noexcept {  // at least 57 bits are valid
    uint64_t word;
    std::memcpy(&word, data_ + at_ / 8, sizeof word);
    return word >> (at_ & 7);
  }

  const uint8_t* data_;
  size_t at_ = 0, end_;
};

}  // namespace gpulens
