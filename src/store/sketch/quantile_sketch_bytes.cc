// The bytes of a sketch:
//   version 1, zeros, the positive side, the negative side
//   side: how many buckets hold something; of the first its index (zigzag), of each further one its distance
//   from the one before, at least 1; each followed by its count, at least 1
// All numbers are varints (LEB128) in their shortest form.
#include <limits>

#include "store/sketch/quantile_sketch.h"

namespace gpulens {
namespace {

constexpr char kVersion = 1;
// Of any positive normal double at this scale.
constexpr int64_t kLeastIndex = -1022 * 64 - 1, kMostIndex = 1024 * 64 - 1;
// Of one sketch; far above any, far below where sums of sketches wrap.
constexpr uint64_t kMostCount = uint64_t{1} << 56;

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

bool TakeVarint(std::string_view& rest, uint64_t& value) noexcept {
  value = 0;
  for (int shift = 0; shift < 63 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return byte != 0 || shift == 0;
  }
  return false;
}

}  // namespace

void QuantileSketch::AppendSide(std::string& out, const Side& side) {
  uint64_t filled = 0;
  for (uint64_t n : side.counts) filled += n != 0 ? 1 : 0;
  AppendVarint(out, filled);
  int64_t before = 0;
  bool first = true;
  for (size_t i = 0; i < side.counts.size(); ++i) {
    if (side.counts[i] == 0) continue;
    const int64_t index = side.low + static_cast<int64_t>(i);
    if (first) AppendVarint(out, static_cast<uint64_t>(index) << 1 ^ static_cast<uint64_t>(index >> 63));
    else AppendVarint(out, static_cast<uint64_t>(index - before));
    AppendVarint(out, side.counts[i]);
    before = index;
    first = false;
  }
}

void QuantileSketch::AppendBytes(std::string& out) const {
  out += kVersion;
  AppendVarint(out, zeros_);
  AppendSide(out, positive_);
  AppendSide(out, negative_);
}

template <class Take>
bool QuantileSketch::ReadSide(std::string_view& rest, Take take) {
  uint64_t filled = 0;
  if (!TakeVarint(rest, filled) || filled > static_cast<uint64_t>(kMostBuckets)) return false;
  int64_t index = 0, first = 0;
  for (uint64_t i = 0; i < filled; ++i) {
    uint64_t step = 0, n = 0;
    if (!TakeVarint(rest, step) || !TakeVarint(rest, n) || n == 0 || n > kMostCount) return false;
    if (i == 0) {
      index = first = static_cast<int64_t>(step >> 1) ^ -static_cast<int64_t>(step & 1);
    } else {
      if (step == 0 || step >= static_cast<uint64_t>(kMostBuckets)) return false;
      index += static_cast<int64_t>(step);
    }
    if (index < kLeastIndex || index > kMostIndex || index - first >= kMostBuckets) return false;
    take(static_cast<int32_t>(index), n);
  }
  return true;
}

template <class Take>
bool QuantileSketch::Read(std::string_view bytes, Take take) {
  if (bytes.empty() || bytes.front() != kVersion) return false;
  bytes.remove_prefix(1);
  uint64_t zeros = 0;
  if (!TakeVarint(bytes, zeros) || zeros > kMostCount) return false;
  take(0, 0, zeros);
  return ReadSide(bytes, [&](int32_t index, uint64_t n) { take(1, index, n); }) &&
         ReadSide(bytes, [&](int32_t index, uint64_t n) { take(-1, index, n); }) && bytes.empty();
}

Status QuantileSketch::MergeBytes(std::string_view bytes) {
  // Read twice, so that bad ones leave nothing behind; the ends of both sides are known after the first time.
  struct Ends {
    int32_t low = std::numeric_limits<int32_t>::max(), high = std::numeric_limits<int32_t>::min();
  } ends[2];
  uint64_t total = 0;
  const bool good = Read(bytes, [&](int sign, int32_t index, uint64_t n) {
    // At most 4,097 counts of at most 2^56: this cannot wrap.
    total += n >> 13;
    if (sign == 0) return;
    Ends& side = ends[sign > 0 ? 0 : 1];
    side.low = std::min(side.low, index);
    side.high = std::max(side.high, index);
  });
  if (!good || total > kMostCount >> 13 || (count() >> 13) + total > kMostCount >> 13)
    return {Code::kDataLoss, "not a sketch, or one of a newer version"};
  if (ends[0].low <= ends[0].high) positive_.Cover(ends[0].low, ends[0].high);
  if (ends[1].low <= ends[1].high) negative_.Cover(ends[1].low, ends[1].high);
  static_cast<void>(Read(bytes, [&](int sign, int32_t index, uint64_t n) {
    if (sign == 0) zeros_ += n;
    else (sign > 0 ? positive_ : negative_).Add(index, n);
  }));
  return Ok();
}

}  // namespace gpulens
