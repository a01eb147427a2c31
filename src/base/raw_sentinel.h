// Bit patterns that C interfaces return for unknown numbers. To be checked on the raw reading: after scaling,
// or in a wider type, they look like numbers.
#pragma once

#include <cstdint>

namespace gpulens {

// A range of patterns. `any_sign`: also a sentinel in a signed field.
struct RawSentinel {
  unsigned width;  // bits
  uint64_t first, last;
  bool any_sign;
  const char* source;
};

inline constexpr RawSentinel kRawSentinels[] = {
    {8, 0xFF, 0xFF, false, "all bits set: AMD SMI, unsupported 8-bit fields"},
    {16, 0xFFFF, 0xFFFF, false, "all bits set: AMD gpu_metrics, unsupported 16-bit fields"},
    {32, 0xFFFFFFFF, 0xFFFFFFFF, false, "all bits set: NVML_VALUE_NOT_AVAILABLE, AMD SMI, 32 bits"},
    {32, 0x80000000, 0x80000000, true, "INT_MIN: a conversion that failed"},
    {32, 0x7FFFFFF0, 0x7FFFFFFF, true, "DCGM_INT32_BLANK and the reasons after it"},
    {64, UINT64_MAX, UINT64_MAX, false, "all bits set: NVML_VALUE_NOT_AVAILABLE, AMD SMI, 64 bits"},
    {64, uint64_t{1} << 63, uint64_t{1} << 63, true, "2^63 or INT64_MIN: a conversion that failed"},
    {64, 0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFFF, true,
     "DCGM_INT64_BLANK (9223372036854775792) and the reasons after it"},
};

// Whether the lower `width` bits (8, 16, 32 or 64) of a raw reading are a sentinel. All bits set is none in a
// signed field, where it is -1.
constexpr bool IsSentinel(uint64_t raw, unsigned width, bool is_signed = false) noexcept {
  uint64_t bits = width >= 64 ? raw : raw & ((uint64_t{1} << width) - 1);
  for (const RawSentinel& sentinel : kRawSentinels) {
    if (sentinel.width != width || (is_signed && !sentinel.any_sign)) continue;
    if (bits >= sentinel.first && bits <= sentinel.last) return true;
  }
  return false;
}

// The same for numbers of pages and CSV files, which are decimal. 2^47 and the 15 after it are
// DCGM_FP64_BLANK and its reasons; 2^63 and its neighbours become one double.
constexpr bool IsSentinel(double number) noexcept {
  constexpr double kFp64Blank = 140737488355328.0, kTwo63 = 9223372036854775808.0;
  return (number >= kFp64Blank && number <= kFp64Blank + 15) || number == kTwo63 || number == -kTwo63 ||
         number == 2 * kTwo63;
}

}  // namespace gpulens
