// Decimal texts of integers wider than int64_t. Exact; pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpulens::ledger {

// value / 10^decimals without trailing zeros: WideText(-6'880'000'000'000, 12) is "-6.88". At most 38
// decimals.
std::string WideText(__int128 value, int decimals = 0);
// With exactly `shown` decimals, rounded half to even, at most `decimals` of them: RoundedText(1'250, 3, 1)
// is "1.2". `grouped`: "1,204.50".
std::string RoundedText(__int128 value, int decimals, int shown, bool grouped = false);
// An integer: an optional minus and at most 38 digits. None for another text.
std::optional<__int128> ParseWide(std::string_view text) noexcept;

}  // namespace gpulens::ledger
