#include <algorithm>
#include <cmath>

#include "base/parse.h"
#include "cli/compare/comparison.h"

namespace gpulens::compare {
namespace {

struct Unit {
  std::string_view name;
  double scale;
  bool rounded;  // the tool makes this unit of a finer one
};
constexpr Unit kUnits[] = {
    {"", 1, false},        {"%", 0.01, true},     {"W", 1, true},         {"mW", 1e-3, true},
    {"C", 1, false},       {"MHz", 1, false},     {"MiB", 1 << 20, true}, {"KiB", 1 << 10, true},
    {"MB", 1 << 20, true}, {"GB", 1 << 30, true}, {"GiB", 1 << 30, true}, {"KB/s", 1024, true},
    {"us", 1e-6, true},    {"ms", 1e-3, true},    {"x", 1, false},        {"bank(s)", 1, false},
    {"mV", 1e-3, true},    {"V", 1, true},        {"J", 1, true},         {"RPM", 1, false},
    {"GT/s", 1, false},    {"B", 1, false},
};

}  // namespace

std::optional<ToolNumber> ParseToolNumber(std::string_view text) {
  text = Trim(text);
  // A performance state.
  if (text.size() > 1 && text.front() == 'P' && text.find_first_not_of("0123456789", 1) == text.npos) {
    text.remove_prefix(1);
  }
  size_t end = std::min(text.find_first_not_of("-0123456789."), text.size());
  std::string_view digits = text.substr(0, end), unit = Trim(text.substr(end));
  std::optional<double> value = ParseDouble(digits);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  size_t point = digits.find('.');
  int decimals = point == digits.npos ? 0 : static_cast<int>(digits.size() - point - 1);
  for (const Unit& known : kUnits) {
    if (known.name != unit) continue;
    double last = known.rounded || decimals > 0 ? known.scale * std::pow(10, -decimals) : 0;
    return ToolNumber{*value * known.scale, known.scale, last, unit};
  }
  return std::nullopt;
}

std::optional<double> GenerationOf(std::string_view text) {
  constexpr double kSpeeds[] = {2.5, 5, 8, 16, 32, 64};
  std::optional<ToolNumber> number = ParseToolNumber(text);
  if (!number) return std::nullopt;
  for (size_t i = 0; i < std::size(kSpeeds); ++i) {
    if (number->value == kSpeeds[i]) return static_cast<double>(i + 1);
  }
  return std::nullopt;
}

namespace {

// The text without the brackets that some versions of nvidia-smi print around it.
std::string_view WithoutBrackets(std::string_view text) noexcept {
  text = Trim(text);
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return text;
  return text.substr(1, text.size() - 2);
}

template <size_t N>
bool IsOneOf(std::string_view text, const std::string_view (&words)[N]) noexcept {
  return std::find(std::begin(words), std::end(words), WithoutBrackets(text)) != std::end(words);
}

constexpr std::string_view kNoValueWords[] = {"",          "N/A",          "Not Supported", "Not Available",
                                              "Not Found", "Uninitialized"};
constexpr std::string_view kFailureWords[] = {"ERR!", "Unknown Error", "GPU is lost",
                                              "GPU access blocked by the operating system",
                                              "GPU requires reset"};

}  // namespace

bool SaysFailure(std::string_view text) noexcept { return IsOneOf(text, kFailureWords); }

std::string_view ReasonOfNoValue(std::string_view text) noexcept {
  if (WithoutBrackets(text) == "Insufficient Permissions") return "the tool has no permission to read it";
  if (WithoutBrackets(text) == "Requested functionality has been deprecated")
    return "the tool no longer reads it";
  return {};
}

bool SaysNoValue(std::string_view text) noexcept {
  return IsOneOf(text, kNoValueWords) || SaysFailure(text) || !ReasonOfNoValue(text).empty();
}

}  // namespace gpulens::compare
