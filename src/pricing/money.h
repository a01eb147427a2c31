// Amounts of money as integers of picodollars (10^-12 USD), and their texts. Pure functions and plain values;
// no locks. An amount that does not fit is an error: nothing here wraps or saturates.
//
// A price is an integer of micro-dollars per 1,000,000 units, so units x price is a whole number of
// picodollars and a charge needs no rounding. An int64 holds 9.2 million USD, enough for one request; sums
// are 128 bits wide. The currency is that of the price file. "USD" and "$" are names for it: nothing is
// converted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gpulens::pricing {

__extension__ typedef __int128 Int128;

inline constexpr int64_t kPicoPerMicro = 1'000'000;
inline constexpr int64_t kPicoPerUsd = 1'000'000'000'000;

// None where the result does not fit.
constexpr std::optional<int64_t> AddPico(int64_t a, int64_t b) noexcept {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}
// `units` at `price` micro-dollars per 1,000,000 of them, exactly. None for a negative factor and where the
// result does not fit.
constexpr std::optional<int64_t> PicoOf(int64_t units, int64_t price) noexcept {
  int64_t pico = 0;
  if (units < 0 || price < 0 || __builtin_mul_overflow(units, price, &pico)) return std::nullopt;
  return pico;
}

// A positive fraction, such as the multiplier of a price or the share of a fee.
struct Ratio {
  int64_t numerator = 1;
  int64_t denominator = 1;  // above 0

  bool operator==(const Ratio&) const = default;
};
// "11/10", "1.1" and "2"; exactly. Up to 9 digits on each side of "/" and up to 9 digits of a decimal. None
// for another text, for a sign, and for a denominator of 0. 0 is allowed.
std::optional<Ratio> ParseRatio(std::string_view text) noexcept;
// `amount` x `by`, rounded half up (2.5 becomes 3). None for a negative amount and where it does not fit.
std::optional<int64_t> Scaled(int64_t amount, Ratio by) noexcept;

// A sum of picodollars. 10^19 charges fit, so Add cannot overflow in a run.
class PicoSum {
 public:
  constexpr PicoSum() noexcept = default;
  constexpr explicit PicoSum(Int128 pico) noexcept : pico_(pico) {}

  constexpr void Add(int64_t pico) noexcept { pico_ += pico; }
  constexpr void Add(PicoSum other) noexcept { pico_ += other.pico_; }
  constexpr Int128 pico() const noexcept { return pico_; }

  // The sum is micros() x 10^6 + remainder(): the micro-dollars rounded down, and 0 to 999,999 picodollars.
  // These two numbers are what is stored. micros() is also the value of a counter of charged micro-dollars:
  // taken of the whole sum, it never drifts. Sums beyond 9.2 x 10^12 USD have no micros.
  constexpr std::optional<int64_t> micros() const noexcept {
    const Int128 down = (pico_ - remainder()) / kPicoPerMicro;
    if (down > INT64_MAX || down < INT64_MIN) return std::nullopt;
    return static_cast<int64_t>(down);
  }
  constexpr int32_t remainder() const noexcept {
    const auto rest = static_cast<int32_t>(pico_ % kPicoPerMicro);
    return rest < 0 ? rest + static_cast<int32_t>(kPicoPerMicro) : rest;
  }
  // The reverse. None unless `remainder` is 0 to 999,999.
  static constexpr std::optional<PicoSum> Of(int64_t micros, int32_t remainder) noexcept {
    if (remainder < 0 || remainder >= kPicoPerMicro) return std::nullopt;
    return PicoSum(Int128{micros} * kPicoPerMicro + remainder);
  }

  constexpr bool operator==(const PicoSum&) const noexcept = default;

 private:
  Int128 pico_ = 0;
};

// Micro-dollars with their remainder as six decimals: 1,760,000,000 picodollars are "1760.000000", -1 is
// "-0.000001".
std::string MicrosText(PicoSum sum);
// The reverse: an optional minus, 1 to 26 digits, and all six decimals. None for another text.
std::optional<PicoSum> ParseMicros(std::string_view text) noexcept;

// Dollars, exactly: at least two decimals, at most twelve, no zeros after the second that mean nothing:
// "0.00176", "12.50", "-0.000000000001".
std::string UsdText(PicoSum sum);
// The reverse: an optional minus, digits, at most one point with up to 12 decimals behind it. None for
// another text and for more than 18 digits before the point.
std::optional<PicoSum> ParseUsd(std::string_view text) noexcept;

// For statements: the sum in the currency's minor unit (`decimals` of 0 to 12; 2: cents), halves to the even
// one.
Int128 MinorUnits(PicoSum sum, int decimals) noexcept;
// Minor units as text: MinorText(1234, 2) is "12.34".
std::string MinorText(Int128 minor, int decimals);
// The minor units that a statement of these lines needs in one line "rounding", so that its lines add up to
// its total, which is the rounded sum of them all.
Int128 RoundingLine(std::span<const PicoSum> lines, int decimals) noexcept;

}  // namespace gpulens::pricing
