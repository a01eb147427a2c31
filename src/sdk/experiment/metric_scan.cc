#include "sdk/experiment/metric_scan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/parse.h"
#include "store/experiments/run_rows.h"

namespace gpulens::metric_lines {
namespace {

constexpr std::string_view kMetricWords[] = {
    "loss",     "losses",     "acc",  "accuracy", "ppl",    "perplexity", "lr",     "norm",
    "gradnorm", "mfu",        "hfu",  "f1",       "bleu",   "rouge",      "auc",    "map",
    "mae",      "mse",        "rmse", "reward",   "return", "precision",  "recall", "iou",
    "dice",     "psnr",       "ssim", "fid",      "wer",    "cer",        "score",  "kl",
    "entropy",  "throughput", "top",  "nll",      "bpb",    "rate"};
constexpr std::string_view kStepWords[] = {"step", "global_step", "globalstep",
                                           "iter", "iteration",   "update"};
constexpr std::string_view kNoMetricWords[] = {
    "port",       "pid",       "line",  "lineno", "seed",      "rank", "local_rank",
    "world_size", "version",   "ts",    "time",   "timestamp", "date", "http",
    "https",      "localhost", "cuda",  "gpu",    "device",    "id",   "errno",
    "code",       "warning",   "error", "info",   "debug",     "at",   "eta"};

template <size_t N>
bool IsOneOf(std::string_view word, const std::string_view (&words)[N]) noexcept {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view each) { return EqualsIgnoringCase(each, word); });
}

// Takes nan, inf or infinity, as separate words.
std::optional<ScannedNumber> TakeSpecial(std::string_view& text, double sign) noexcept {
  struct Special {
    std::string_view word;
    double value;
  };
  constexpr Special kSpecials[] = {{"infinity", std::numeric_limits<double>::infinity()},
                                   {"inf", std::numeric_limits<double>::infinity()},
                                   {"nan", std::numeric_limits<double>::quiet_NaN()}};
  for (const Special& special : kSpecials) {
    if (!EqualsIgnoringCase(text.substr(0, special.word.size()), special.word)) continue;
    std::string_view rest = text.substr(special.word.size());
    if (!rest.empty() && (IsLetter(rest.front()) || IsDigit(rest.front()))) continue;
    text = rest;
    return ScannedNumber{sign * special.value, false};
  }
  return std::nullopt;
}

size_t Digits(std::string_view text, size_t at) noexcept {
  while (at < text.size() && IsDigit(text[at])) ++at;
  return at;
}

// Returns the last part without trailing digits: loss of train/loss, acc of val_acc@5.
std::string_view LastPart(std::string_view word) noexcept {
  while (!word.empty() && (IsDigit(word.back()) || word.back() == '@')) word.remove_suffix(1);
  size_t at = word.find_last_of("_/.-@");
  return at == std::string_view::npos ? word : word.substr(at + 1);
}

constexpr int kMostDepth = 4;
// Number of braces tried as the beginning of a dictionary.
constexpr int kMostTries = 8;

class DictionaryReader {
 public:
  DictionaryReader(std::string_view text, ParsedLine& line) : rest_(text), line_(line) {}

  // Parses a dictionary, which begins with '{'.
  bool Dictionary(const std::string& prefix, int depth) {
    if (depth > kMostDepth || !Take('{')) return false;
    if (Take('}')) return true;
    do {
      if (Peek() == '}') break;  // a comma behind the last
      std::string key = prefix;
      if (!Text(key) || !Take(':') || !Member(key, depth)) return false;
    } while (Take(','));
    return Take('}');
  }

 private:
  char Peek() {
    TakeBlanks(rest_);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Takes a text in single or double quotes and appends it; escaped characters are taken literally.
  bool Text(std::string& out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_.front() != quote) {
      if (rest_.front() == '\\') rest_.remove_prefix(1);
      if (rest_.empty()) return false;
      out += rest_.front();
      rest_.remove_prefix(1);
    }
    return Take(quote);
  }
  bool Member(const std::string& key, int depth) {
    const char c = Peek();
    if (c == '{') return Dictionary(key + "/", depth + 1);
    if (c == '[' || c == '(') return Skip(depth + 1);
    if (c == '\'' || c == '"') {
      // Some programs print numbers as texts.
      std::string text;
      if (!Text(text)) return false;
      std::string_view all = text;
      auto number = TakeNumber(all);
      if (number && all.empty()) AddPair(line_, key, *number);
      return true;
    }
    if (auto number = TakeWrapped(rest_)) {
      AddPair(line_, key, *number);
      return true;
    }
    return !TakeWord(rest_).empty();  // True, None, null …
  }
  // Skips a list or tuple.
  bool Skip(int depth) {
    if (depth > kMostDepth) return false;
    const char close = Peek() == '[' ? ']' : ')';
    rest_.remove_prefix(1);
    std::string ignored;
    while (Peek() != close) {
      const char c = Peek();
      if (c == '\0') return false;
      if (c == '[' || c == '(') {
        if (!Skip(depth + 1)) return false;
      } else if (c == '\'' || c == '"') {
        if (!Text(ignored)) return false;
      } else {
        rest_.remove_prefix(1);
      }
    }
    return Take(close);
  }

  std::string_view rest_;
  ParsedLine& line_;
};

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

void TakeBlanks(std::string_view& text) noexcept {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
}

std::optional<ScannedNumber> TakeNumber(std::string_view& text) noexcept {
  std::string_view rest = text;
  const bool minus = rest.starts_with('-');
  if (minus || rest.starts_with('+')) rest.remove_prefix(1);
  size_t end = Digits(rest, 0);
  size_t digits = end;
  bool whole = true;
  if (end < rest.size() && rest[end] == '.') {
    size_t after = Digits(rest, end + 1);
    digits += after - end - 1;
    if (digits != 0) end = after, whole = false;
  }
  if (digits == 0) {
    auto special = TakeSpecial(rest, minus ? -1 : 1);
    if (special) text = rest;
    return special;
  }
  if (end < rest.size() && (rest[end] == 'e' || rest[end] == 'E')) {
    size_t sign = end + 1 < rest.size() && (rest[end + 1] == '+' || rest[end + 1] == '-') ? 1 : 0;
    size_t after = Digits(rest, end + 1 + sign);
    if (after > end + 1 + sign) end = after, whole = false;
  }
  double value = 0;
  // A number out of range is 0 or infinity by the sign of its exponent, as it was in the program that printed
  // it.
  auto [at, error] = std::from_chars(rest.data(), rest.data() + end, value);
  if (error == std::errc::result_out_of_range) {
    size_t exponent = rest.substr(0, end).find_first_of("eE");
    bool tiny = exponent != std::string_view::npos && rest.substr(exponent + 1).starts_with('-');
    value = tiny ? 0 : std::numeric_limits<double>::infinity();
  } else if (error != std::errc{} || at != rest.data() + end) {
    return std::nullopt;
  }
  text = rest.substr(end);
  return ScannedNumber{minus ? -value : value, whole};
}

std::optional<ScannedNumber> TakeWrapped(std::string_view& text) noexcept {
  std::string_view rest = text;
  std::string_view word = TakeWord(rest);
  const bool wraps = !word.empty() && rest.starts_with('(') &&
                     (word == "tensor" || word == "array" || word.find("float") != std::string_view::npos ||
                      word.find("int") != std::string_view::npos);
  if (!wraps) return TakeNumber(text);
  rest.remove_prefix(1);
  auto number = TakeNumber(rest);
  size_t close = rest.find(')');
  if (!number || close == std::string_view::npos) return std::nullopt;
  text = rest.substr(close + 1);
  return number;
}

std::string_view TakeWord(std::string_view& text) noexcept {
  if (text.empty() || !IsLetter(text.front())) return {};
  size_t end = 1;
  while (end < text.size()) {
    const char c = text[end];
    const bool part = IsLetter(c) || IsDigit(c);
    const bool joint = (c == '.' || c == '/' || c == '-' || c == '@') && end + 1 < text.size() &&
                       (IsLetter(text[end + 1]) || IsDigit(text[end + 1]));
    if (!part && !joint) break;
    ++end;
  }
  std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

WordMeaning MeaningOf(std::string_view word) noexcept {
  if (IsOneOf(word, kStepWords)) return WordMeaning::kStep;
  if (EqualsIgnoringCase(word, "epoch")) return WordMeaning::kEpoch;
  if (IsOneOf(LastPart(word), kMetricWords)) return WordMeaning::kMetric;
  if (IsOneOf(word, kNoMetricWords)) return WordMeaning::kNoMetric;
  return WordMeaning::kAny;
}

bool IsAccuracy(std::string_view word) noexcept {
  std::string_view last = LastPart(word);
  return EqualsIgnoringCase(last, "acc") || EqualsIgnoringCase(last, "accuracy");
}

bool AddPair(ParsedLine& line, std::string_view key, ScannedNumber number) {
  if (!experiments::IsKey(key)) return false;
  const WordMeaning meaning = MeaningOf(key);
  const bool counts = std::abs(number.value) < 9e15;
  if (meaning == WordMeaning::kNoMetric) return true;
  if (meaning == WordMeaning::kStep) {
    if (counts && number.value == std::floor(number.value) && !line.step)
      line.step = static_cast<int64_t>(number.value);
    return true;
  }
  if (meaning == WordMeaning::kEpoch && number.whole && counts && !line.epoch)
    line.epoch = static_cast<int64_t>(number.value);
  for (const ParsedMetric& metric : line.metrics) {
    if (metric.key == key) return true;
  }
  if (line.metrics.size() == kMostMetrics) return false;
  line.metrics.push_back({std::string(key), number.value});
  return true;
}

bool TakeRate(std::string_view& text, double value, ParsedLine& line) {
  std::string_view rest = text;
  if (rest.size() > 1 && (rest[0] == 'k' || rest[0] == 'K' || rest[0] == 'M') && !IsLetter(rest[1])) {
    value *= rest[0] == 'M' ? 1e6 : 1e3;
    rest.remove_prefix(1);
  }
  TakeBlanks(rest);
  size_t end = 0;
  while (end < rest.size() && IsLetter(rest[end])) ++end;
  std::string_view unit = rest.substr(0, end);
  rest.remove_prefix(end);
  if (unit.empty() || unit.size() > 24 || !rest.starts_with('/')) return false;
  rest.remove_prefix(1);
  end = 0;
  while (end < rest.size() && IsLetter(rest[end])) ++end;
  std::string_view per = rest.substr(0, end);
  rest.remove_prefix(end);
  const bool per_second = per == "s" || per == "sec" || per == "second";
  const bool seconds_per = unit == "s" && (per == "it" || per == "iter" || per == "step");
  // Progress in bytes is a download.
  if ((!per_second && !seconds_per) || (unit.size() <= 3 && (unit.back() == 'B' || unit.back() == 'b')))
    return false;
  std::string name = seconds_per ? std::string(per) : LowerCase(unit);
  if (name == "it" || name == "iter" || name == "its") name = "iterations";
  if (name == "tok") name = "tokens";
  if (seconds_per && value > 0) value = 1 / value;
  text = rest;
  return AddPair(line, name + "_per_second", {value, false});
}

bool ParseDictionary(std::string_view text, ParsedLine& line) {
  for (int i = 0; i < kMostTries; ++i) {
    size_t at = text.find('{');
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at);
    ParsedLine found;
    if (DictionaryReader(text, found).Dictionary("", 0) && !found.empty()) {
      line = std::move(found);
      return true;
    }
    text.remove_prefix(1);
  }
  return false;
}

}  // namespace gpulens::metric_lines
