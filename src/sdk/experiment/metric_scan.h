// The pieces that lines are read by: numbers, words, and what they mean.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sdk/experiment/metric_lines.h"

namespace gpulens::metric_lines {

constexpr bool IsDigit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool IsLetter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool IsBlank(char c) noexcept { return c == ' ' || c == '\t'; }

// A number at the front of `text`, which is taken off: decimal, scientific, nan, inf; signed.
struct ScannedNumber {
  double value = 0;
  bool whole = false;  // digits alone
};
std::optional<ScannedNumber> TakeNumber(std::string_view& text) noexcept;
// The same in what Python prints around it: tensor(0.3, device='cuda:0'), np.float64(0.3).
std::optional<ScannedNumber> TakeWrapped(std::string_view& text) noexcept;
void TakeBlanks(std::string_view& text) noexcept;
// A word: letters, digits, _ and, between them, . / - @. Empty when there is none.
std::string_view TakeWord(std::string_view& text) noexcept;

enum class Meaning : uint8_t {
  kAny,       // nothing known
  kMetric,    // loss, accuracy, lr …, also as the last part: train_loss, eval/acc
  kStep,      // step, iter …
  kEpoch,     // epoch
  kNoMetric,  // port, pid, line …: a number, but of no interest
};
Meaning MeaningOf(std::string_view word) noexcept;
// Whether it counts right ones, so that 9823/10000 is a ratio.
bool IsAccuracy(std::string_view word) noexcept;

std::string LowerCase(std::string_view text);
// Adds the pair by what its key means. False: it is one too many, or has no key.
bool AddPair(ParsedLine& line, std::string_view key, ScannedNumber number);

// Parts of a line; each returns whether it found what it looks for.
bool ParseDictionary(std::string_view text, ParsedLine& line);
bool ParseBar(std::string_view text, ParsedLine& line);
void ParsePairs(std::string_view text, ParsedLine& line);
// A rate behind a number, "it/s", " samples/sec", of which the unit is taken off; "s/it" is turned round.
bool TakeRate(std::string_view& text, double value, ParsedLine& line);

}  // namespace gpulens::metric_lines
