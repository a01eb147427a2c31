#include "sdk/experiment/metric_lines.h"

#include <algorithm>

#include "base/parse.h"
#include "sdk/experiment/metric_scan.h"

namespace gpulens::metric_lines {
namespace {

// Words before a known one that name it more closely: "train" of "train loss".
constexpr size_t kMostWords = 2;

// Removes the colour codes of a terminal.
std::string WithoutEscapes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      out += text[i];
      continue;
    }
    if (i + 1 >= text.size() || text[i + 1] != '[') continue;
    for (i += 2; i < text.size() && !(text[i] >= 0x40 && text[i] <= 0x7e);) ++i;
  }
  return out;
}

// Takes a unit of time after a number and returns its seconds; 0: there is none.
double TakeTimeUnit(std::string_view& text) noexcept {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  constexpr Unit kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3},
                             {"sec", 1},   {"s", 1},     {"min", 60},  {"h", 3600}};
  for (const Unit& unit : kUnits) {
    if (!text.starts_with(unit.name)) continue;
    std::string_view rest = text.substr(unit.name.size());
    if (!rest.empty() && (IsLetter(rest.front()) || IsDigit(rest.front()) || rest.front() == '/')) continue;
    text = rest;
    return unit.seconds;
  }
  return 0;
}

// Finds names and numbers in free text, word by word.
class PairReader {
 public:
  PairReader(std::string_view text, ParsedLine& line) : rest_(text), line_(line) {}

  void Read() {
    bool blanks = true;
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (IsBlank(c)) {
        // A tab or two blanks separate pairs.
        if (c == '\t' || (rest_.size() > 1 && IsBlank(rest_[1]))) Begin();
        TakeBlanks(rest_);
        blanks = true;
        continue;
      }
      if (IsLetter(c)) {
        Word();
      } else if (blanks && (IsDigit(c) || c == '+' || c == '-' || c == '.')) {
        Loose();
      } else {
        rest_.remove_prefix(1);
        Begin();
      }
      blanks = false;
    }
  }

 private:
  void Begin() noexcept { words_ = 0, many_ = false; }

  // A number without a key: perhaps a rate.
  void Loose() {
    Begin();
    auto number = TakeNumber(rest_);
    if (!number) {
      rest_.remove_prefix(1);
      return;
    }
    double value = number->value;
    // 1,234,567: groups of three.
    while (number->whole && rest_.size() >= 4 && rest_[0] == ',' && IsDigit(rest_[1]) && IsDigit(rest_[2]) &&
           IsDigit(rest_[3]) && (rest_.size() == 4 || !IsDigit(rest_[4]))) {
      std::string_view three = rest_.substr(1, 3);
      value = value * 1000 + static_cast<double>(ParseInt<int>(three).value_or(0));
      rest_.remove_prefix(4);
    }
    if (!TakeRate(rest_, value, line_)) SkipNumber();
  }
  // Skips the rest of a text that only begins like a number: 12:30:01, 1.2.3, 0x1f, 2026-11-22.
  void SkipNumber() noexcept {
    while (!rest_.empty() && !IsBlank(rest_.front()) && rest_.front() != ',' && rest_.front() != ')' &&
           rest_.front() != ']')
      rest_.remove_prefix(1);
  }

  void Word() {
    const bool first = words_ == 0 && !many_;
    std::string_view word = TakeWord(rest_);
    const WordMeaning meaning = MeaningOf(word);
    std::string_view after = rest_;
    TakeBlanks(after);
    const bool blank = after.size() != rest_.size();
    if (after.starts_with("://")) {
      SkipNumber();
      return Begin();
    }
    if (after.starts_with('=') || after.starts_with(':')) {
      const bool equals = after.front() == '=';
      after.remove_prefix(1);
      if (equals && after.starts_with('=')) return Begin();
      std::string_view value = after;
      TakeBlanks(value);
      const bool known = meaning != WordMeaning::kAny && meaning != WordMeaning::kNoMetric;
      // "localhost:8080" and "file.py:12" are no pairs, "Found: 5 files" is a sentence.
      const bool spaced = value.size() != after.size();
      if (known || equals || (first && spaced)) {
        rest_ = value;
        if (!Value(word, meaning, !known && !equals)) SkipNumber();
        return Begin();
      }
      rest_ = after;
      SkipNumber();
      return Begin();
    }
    if (meaning == WordMeaning::kMetric || meaning == WordMeaning::kStep || meaning == WordMeaning::kEpoch) {
      // "loss 0.3", "Epoch [3/10]", "step #5".
      std::string_view value = after;
      const bool position = meaning != WordMeaning::kMetric;
      if (position && !value.empty() &&
          (value.front() == '[' || value.front() == '(' || value.front() == '#'))
        value.remove_prefix(1);
      if ((blank || value.size() != after.size()) && !value.empty() && !IsLetter(value.front())) {
        std::string_view before = rest_;
        rest_ = value;
        if (Value(word, meaning, false)) return Begin();
        rest_ = before;
      }
    }
    Remember(word);
  }

  void Remember(std::string_view word) noexcept {
    if (words_ == kMostWords) many_ = true;
    if (words_ < kMostWords) key_words_[words_++] = word;
  }

  // Takes the number at the front with its unit. `strict`: only an end may follow.
  bool Value(std::string_view word, WordMeaning meaning, bool strict) {
    std::string_view rest = rest_;
    auto number = TakeWrapped(rest);
    if (!number) return false;
    std::string key = KeyOf(word, meaning);
    const bool position = meaning == WordMeaning::kStep || meaning == WordMeaning::kEpoch;
    if (rest.starts_with('/') && rest.size() > 1 && IsDigit(rest[1])) {
      rest.remove_prefix(1);
      auto whole = TakeNumber(rest);
      if (!whole) return false;
      if (!position) {
        if (!IsAccuracy(word) || !(whole->value > 0)) return false;
        *number = {number->value / whole->value, false};
      }
    } else if (double seconds = TakeTimeUnit(rest); seconds > 0) {
      key += "_seconds";
      number->value *= seconds;
    } else if (rest.starts_with('%')) {
      rest.remove_prefix(1);
    } else {
      // There is a key, so the unit is not needed for a name.
      ParsedLine ignored;
      std::string_view unit = rest;
      if (TakeRate(unit, 1, ignored)) {
        AddPair(line_, key, *number);
        TakeRate(rest, number->value, line_);
        rest_ = rest;
        return true;
      }
    }
    if (!Ends(rest, strict)) return false;
    AddPair(line_, key, *number);
    rest_ = rest;
    return true;
  }

  static bool Ends(std::string_view rest, bool strict) noexcept {
    if (rest.empty()) return true;
    const char c = rest.front();
    if (IsLetter(c) || IsDigit(c)) return false;
    const bool joined = rest.size() > 1 && IsDigit(rest[1]) && (c == '.' || c == ':' || c == '-' || c == '/');
    if (joined) return false;
    if (!strict || !IsBlank(c)) return true;
    TakeBlanks(rest);
    return rest.empty() || !(IsLetter(rest.front()) || IsDigit(rest.front()));
  }

  // "Train Loss" is train_loss; step and epoch keep their names whatever precedes them.
  std::string KeyOf(std::string_view word, WordMeaning meaning) const {
    std::string key;
    if (meaning == WordMeaning::kMetric && !many_) {
      for (size_t i = 0; i < words_; ++i) key += LowerCase(key_words_[i]) + "_";
    }
    return key + LowerCase(word);
  }

  std::string_view rest_;
  ParsedLine& line_;
  std::string_view key_words_[kMostWords];
  size_t words_ = 0;
  bool many_ = false;  // more words than that: a sentence, not a name
};

// Parses the text after a bar: " 12/100 [00:01<00:09, 9.5it/s, loss=0.3]", or without a total "123it [00:05,
// 24it/s]".
bool ParseBarCount(std::string_view text, ParsedLine& line) {
  TakeBlanks(text);
  auto at = TakeNumber(text);
  if (!at || !at->whole || at->value >= 9e15) return false;
  double total = 0;
  if (text.starts_with('/')) {
    text.remove_prefix(1);
    auto all = TakeNumber(text);
    if (!all || !all->whole || all->value >= 9e15) return false;
    total = all->value;
  } else if (text.starts_with("it")) {
    text.remove_prefix(2);
  } else {
    return false;
  }
  TakeBlanks(text);
  size_t close = text.rfind(']');
  if (!text.starts_with('[') || close == std::string_view::npos) return false;
  std::string_view inside = text.substr(1, close - 1);
  line.bar = true;
  line.at = static_cast<int64_t>(at->value), line.total = static_cast<int64_t>(total);
  TakeUntil(inside, ',');  // the times
  std::string_view rate = Trim(TakeUntil(inside, ','));
  if (auto number = TakeNumber(rate)) TakeRate(rate, number->value, line);
  ParsePairs(inside, line);
  return true;
}

constexpr size_t kMostBars = 16;

}  // namespace

void ParsePairs(std::string_view text, ParsedLine& line) { PairReader(text, line).Read(); }

bool ParseBar(std::string_view text, ParsedLine& line) {
  ParsedLine found;
  size_t percent = text.find("%|");
  std::string_view before;
  if (percent != std::string_view::npos) {
    size_t bar = text.find('|', percent + 2);
    if (bar == std::string_view::npos || !ParseBarCount(text.substr(bar + 1), found)) return false;
    before = text.substr(0, percent);
  } else {
    size_t count = text.find("it [");
    if (count == std::string_view::npos) return false;
    size_t begin = count;
    while (begin > 0 && IsDigit(text[begin - 1])) --begin;
    if (!ParseBarCount(text.substr(begin), found)) return false;
    before = text.substr(0, begin);
  }
  // "Epoch 3:  45%": the title of the bar may contain the epoch.
  ParsedLine title;
  ParsePairs(before, title);
  if (title.epoch) {
    found.epoch = title.epoch;
    AddPair(found, "epoch", {static_cast<double>(*title.epoch), true});
  }
  line = std::move(found);
  return true;
}

ParsedLine ParseLine(std::string_view text) {
  ParsedLine line;
  if (text.empty() || text.size() > kMostLineBytes) return line;
  std::string plain;
  if (text.find('\x1b') != std::string_view::npos) {
    plain = WithoutEscapes(text);
    text = plain;
  }
  if (ParseDictionary(text, line) || ParseBar(text, line)) return line;
  if (text.find("%|") != std::string_view::npos) return line;  // another progress bar, of a download
  ParsePairs(text, line);
  return line;
}

void LineSplitter::Add(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (held_.size() + piece.size() > kMostLineBytes) too_long_ = true;
    if (end == std::string_view::npos) {
      if (!too_long_) held_ += piece;
      return;
    }
    if (!too_long_) {
      if (held_.empty()) {
        if (!piece.empty()) on_line(piece);
      } else {
        held_ += piece;
        on_line(held_);
      }
    }
    held_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void LineSplitter::Finish(const OnLine& on_line) {
  if (!held_.empty() && !too_long_) on_line(held_);
  held_.clear();
  too_long_ = false;
}

// Returns nothing when the bar did not move.
std::optional<int64_t> MetricTracker::StepOfBar(const ParsedLine& line) {
  auto bar =
      std::find_if(bars_.begin(), bars_.end(), [&](const Bar& each) { return each.total == line.total; });
  if (bar == bars_.end()) {
    if (bars_.size() == kMostBars) bars_.erase(bars_.begin());
    bar = bars_.insert(bars_.end(), Bar{.total = line.total});
  }
  if (line.at == bar->at) return std::nullopt;
  if (line.at < bar->at) bar->base += line.total != 0 ? line.total : bar->at;
  bar->at = line.at;
  return bar->base + line.at;
}

std::optional<int64_t> MetricTracker::StepOf(const ParsedLine& line) {
  if (line.step) step_ = line.step;
  if (line.epoch) epoch_ = line.epoch;
  if (line.step) return line.step;
  return step_ ? step_ : epoch_;
}

void MetricTracker::Add(std::string_view text, const OnPoint& on_point) {
  const ParsedLine line = ParseLine(text);
  std::optional<int64_t> step;
  if (line.bar && !line.step) {
    step = StepOfBar(line);
    if (!step) return;
  } else {
    step = StepOf(line);
  }
  for (const ParsedMetric& metric : line.metrics) on_point(metric.key, metric.value, step);
}

}  // namespace gpulens::metric_lines
