// Scanners for metric_lines.h: numbers, words and their meaning.
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

struct ScannedNumber {
  double value = 0;
  bool whole = false;  // only digits
};
// Takes a number from the front of `text`: decimal, scientific, nan or inf, with an optional sign.
std::optional<ScannedNumber> TakeNumber(std::string_view& text) noexcept;
// Takes a number as Python prints it: also tensor(0.3, device='cuda:0') and np.float64(0.3).
std::optional<ScannedNumber> TakeWrapped(std::string_view& text) noexcept;
void TakeBlanks(std::string_view& text) noexcept;
// Takes a word: letters, digits, _ and, between them, . / - @. Returns "" when there is none.
std::string_view TakeWord(std::string_view& text) noexcept;

enum class WordMeaning : uint8_t {
  kAny,       // an unknown word
  kMetric,    // loss, accuracy, lr …, also as the last part: train_loss, eval/acc
  kStep,      // step, iter …
  kEpoch,     // epoch
  kNoMetric,  // port, pid, line …: a number that is not a metric
};
WordMeaning MeaningOf(std::string_view word) noexcept;
// Whether the word is an accuracy, so that 9823/10000 is a ratio.
bool IsAccuracy(std::string_view word) noexcept;

std::string LowerCase(std::string_view text);
// Adds the pair by the meaning of its key. Returns false if the line is full or the key is invalid.
bool AddPair(ParsedLine& line, std::string_view key, ScannedNumber number);

// Parse a part of a line. Return whether it was found.
bool ParseDictionary(std::string_view text, ParsedLine& line);
bool ParseBar(std::string_view text, ParsedLine& line);
void ParsePairs(std::string_view text, ParsedLine& line);
// Takes the unit of a rate after a number, "it/s" or " samples/sec", and adds the rate; "s/it" is inverted.
bool TakeRate(std::string_view& text, double value, ParsedLine& line);

}  // namespace gpulens::metric_lines
