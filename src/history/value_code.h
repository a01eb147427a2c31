// Code of the values of one series: scaled whole numbers, of which only the distance to what was expected is
// written, in as many bits as its size usually needs. Values that come as expected are not written at all.
// Writer and reader keep the same state. Plain values, without locks.
#pragma once

#include <cstdint>

#include "history/bits.h"

namespace gpulens {

// A value as a whole number and a power of ten, or as the bits of a double where that is not close enough: of
// a gauge to 7 digits, of a counter to a millionth of its last increase. Where that would be less than the
// counter's value before, the value before stays.
struct ScaledValue {
  int64_t number = 0;
  int8_t digits = 0;  // behind the point; negative: zeros before it
  bool raw = false;   // `number` has the bits of the double
};

double ValueOf(const ScaledValue& value) noexcept;

struct ValueState {
  ScaledValue last;
  int64_t expected_step = 0;  // of counters: what the next value is more
  uint64_t spread = 0;        // eight times the usual distance to what was expected
  bool present = false;       // false: there is no value since a gap, or yet
  bool stale = false;
  bool counter = false;

  // The next value, if it comes as expected.
  int64_t Expected() const noexcept {
    return static_cast<int64_t>(static_cast<uint64_t>(last.number) + static_cast<uint64_t>(expected_step));
  }
};

// Bits that one value needs at most, in a row and in a carried row.
inline constexpr size_t kMostValueBits = 160, kMostCarriedBits = 192;

// Scales a finite value, by the digits of the state's last one where they do. `increase`: of a counter,
// the last one that was not 0; 0: none yet.
ScaledValue Scale(double value, const ValueState& state, double increase) noexcept;

// Whether a counter that did not fall would be less than its last value, which was rounded up to fewer
// digits.
inline bool FallsByCode(const ValueState& state, const ScaledValue& value) noexcept {
  return state.counter && state.present && ValueOf(value) < ValueOf(state.last);
}

// Whether a present value that is neither stale nor a reset need not be written.
inline bool ComesAsExpected(const ValueState& state, const ScaledValue& value) noexcept {
  return state.present && value.number == state.Expected() && value.digits == state.last.digits &&
         value.raw == state.last.raw;
}
inline void Advance(ValueState& state) noexcept { state.last.number = state.Expected(); }

// One value that does not come as expected.
struct CodedValue {
  ScaledValue value;
  bool gap = false, stale = false, reset = false;
};
void WriteValue(BitWriter& out, ValueState& state, const CodedValue& value) noexcept;
// Returns whether the value is a reset.
bool ReadValue(BitReader& in, ValueState& state) noexcept;

// The whole state of a present value, at the begin of a segment. Its spread is rounded, on both sides.
void WriteState(BitWriter& out, ValueState& state) noexcept;
void ReadState(BitReader& in, ValueState& state) noexcept;

}  // namespace gpulens
