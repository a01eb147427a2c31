#include "history/value_code.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace gpulens {
namespace {

constexpr int kMostDigits = 15, kFewestDigits = -12;
constexpr double kPowers[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                              1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
constexpr double kLargest = 9e15;  // below 2^53: a double has each whole number up to it
constexpr double kGaugePrecision = 5e-8, kCounterPrecision = 1e-6, kFirstPrecision = 5e-13;
constexpr double kDoublePrecision = 2e-16;
// A gauge's number is not made longer than this by digits that another value needed.
constexpr double kLongGauge = 1e10;

constexpr unsigned kMostOnes = 12;
constexpr uint64_t kUsualSpread = 64;
constexpr uint64_t kLargestDistance = uint64_t{1} << 52;

uint64_t ZigZag(int64_t value) noexcept {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) noexcept {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}
int64_t Difference(int64_t a, int64_t b) noexcept {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t Sum(int64_t a, int64_t b) noexcept {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

unsigned LowBits(uint64_t spread) noexcept { return static_cast<unsigned>(std::bit_width(spread >> 4)); }

// Learns from a value that was written.
void Learn(ValueState& state, int64_t next) noexcept {
  const uint64_t distance = ZigZag(Difference(next, state.Expected()));
  state.spread = state.spread - (state.spread >> 3) + std::min(distance, kLargestDistance);
  if (state.counter) {
    const int64_t step = Difference(next, state.last.number);
    const int64_t error = Difference(step, state.expected_step);
    state.expected_step =
        step == 0 || (error > -4 && error < 4) ? step : Sum(state.expected_step, error >> 2);
  }
  state.last.number = next;
}

void Restart(ValueState& state) noexcept {
  state.expected_step = 0;
  state.spread = kUsualSpread;
}

void WriteScaled(BitWriter& out, const ScaledValue& value) noexcept {
  out.Put(value.raw, 1);
  if (value.raw) return out.PutWide(static_cast<uint64_t>(value.number));
  out.Put(static_cast<uint64_t>(value.digits - kFewestDigits), 5);
  out.PutSized(ZigZag(value.number));
}
ScaledValue ReadScaled(BitReader& in) noexcept {
  ScaledValue value;
  value.raw = in.Take(1) != 0;
  if (value.raw) {
    value.number = static_cast<int64_t>(in.TakeWide());
  } else {
    value.digits = static_cast<int8_t>(static_cast<int>(in.Take(5)) + kFewestDigits);
    value.number = UnZigZag(in.TakeSized());
  }
  return value;
}

// A value that follows a known one in the same scale teaches as others do.
void TakeScaled(ValueState& state, const ScaledValue& value, bool counter, bool reset) noexcept {
  const bool follows = state.present && !reset && !value.raw && !state.last.raw &&
                       value.digits == state.last.digits && counter == state.counter;
  state.counter = counter;
  if (follows) Learn(state, value.number);
  else Restart(state);
  state.last = value;
  state.present = true;
}

double Shifted(double value, int digits) noexcept {
  return digits >= 0 ? value * kPowers[digits] : value / kPowers[-digits];
}

// False: too long, or not within `slack`.
bool TryDigits(double value, int digits, double slack, ScaledValue& out) noexcept {
  const double shifted = Shifted(value, digits);
  if (!(std::abs(shifted) < kLargest)) return false;
  const double whole = std::nearbyint(shifted);
  if (!(std::abs(Shifted(whole, -digits) - value) <= slack)) return false;
  out.number = static_cast<int64_t>(whole);
  out.digits = static_cast<int8_t>(digits);
  return true;
}

}  // namespace

double ValueOf(const ScaledValue& value) noexcept {
  if (value.raw) return std::bit_cast<double>(value.number);
  return Shifted(static_cast<double>(value.number), -value.digits);
}

ScaledValue Scale(double value, const ValueState& state, double increase) noexcept {
  ScaledValue out;
  const double size = std::abs(value);
  const double slack = !state.counter ? size * kGaugePrecision
                       : increase > 0 ? std::max(increase * kCounterPrecision, size * kDoublePrecision)
                                      : size * kFirstPrecision;
  if (state.present && !state.last.raw && TryDigits(value, state.last.digits, slack, out) &&
      (state.counter || std::abs(static_cast<double>(out.number)) < kLongGauge))
    return out;
  for (int digits = size >= 1e8 && !state.counter ? kFewestDigits : 0; digits <= kMostDigits; ++digits) {
    if (TryDigits(value, digits, slack, out)) return out;
  }
  out.raw = true;
  out.digits = 0;
  out.number = std::bit_cast<int64_t>(value);
  return out;
}

void WriteValue(BitWriter& out, ValueState& state, const CodedValue& coded) noexcept {
  const ScaledValue& value = coded.value;
  const bool in_scale = state.present && !coded.gap && !coded.reset && coded.stale == state.stale &&
                        !value.raw && !state.last.raw && value.digits == state.last.digits;
  if (in_scale) {
    const uint64_t distance = ZigZag(Difference(value.number, state.Expected())) - 1;  // 0 is not written
    const unsigned low = LowBits(state.spread);
    const uint64_t high = distance >> low;
    if (high < kMostOnes) {
      out.Put((uint64_t{1} << high) - 1, static_cast<unsigned>(high) + 1);
      out.Put(distance & ((uint64_t{1} << low) - 1), low);
      return Learn(state, value.number);
    }
  }
  out.Put((uint64_t{1} << kMostOnes) - 1, kMostOnes);
  out.Put(coded.gap, 1);
  if (coded.gap) {
    state.present = state.stale = false;
    return;
  }
  out.Put(coded.stale, 1);
  out.Put(coded.reset, 1);
  out.Put(state.counter, 1);
  WriteScaled(out, value);
  TakeScaled(state, value, state.counter, coded.reset);
  state.stale = coded.stale;
}

bool ReadValue(BitReader& in, ValueState& state) noexcept {
  const unsigned high = in.TakeOnes(kMostOnes);
  if (high < kMostOnes) {
    const unsigned low = LowBits(state.spread);
    const uint64_t distance = (uint64_t{high} << low | in.Take(low)) + 1;
    Learn(state, Sum(state.Expected(), UnZigZag(distance)));
    return false;
  }
  if (in.Take(1) != 0) {
    state.present = state.stale = false;
    return false;
  }
  const bool stale = in.Take(1) != 0, reset = in.Take(1) != 0, counter = in.Take(1) != 0;
  TakeScaled(state, ReadScaled(in), counter, reset);
  state.stale = stale;
  return reset;
}

void WriteState(BitWriter& out, ValueState& state) noexcept {
  out.Put(state.stale, 1);
  out.Put(state.counter, 1);
  WriteScaled(out, state.last);
  out.Put(state.expected_step != 0, 1);
  if (state.expected_step != 0) out.PutSized(ZigZag(state.expected_step));
  const unsigned low = LowBits(state.spread);
  out.Put(low, 6);
  state.spread = low == 0 ? 0 : uint64_t{1} << (low + 3);
}

void ReadState(BitReader& in, ValueState& state) noexcept {
  state.stale = in.Take(1) != 0;
  state.counter = in.Take(1) != 0;
  state.last = ReadScaled(in);
  state.expected_step = in.Take(1) != 0 ? UnZigZag(in.TakeSized()) : 0;
  const unsigned low = static_cast<unsigned>(in.Take(6));
  state.spread = low == 0 ? 0 : uint64_t{1} << (low + 3);
  state.present = true;
}

}  // namespace gpulens
