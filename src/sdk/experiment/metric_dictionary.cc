// Dictionaries of Python and objects of JSON, which differ in quotes and words alone.
#include "sdk/experiment/metric_scan.h"

namespace gpulens::metric_lines {
namespace {

constexpr int kMostDepth = 4;
// Braces that are tried until one begins a dictionary.
constexpr int kMostTries = 8;

class Reader {
 public:
  Reader(std::string_view text, Line& line) : rest_(text), line_(line) {}

  // At a '{'.
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
  // A text in either quotes, appended without its escapes' meaning: an escaped character stands for itself.
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
      // Some print their numbers as texts.
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
  // A list or tuple, whatever is in it.
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
  Line& line_;
};

}  // namespace

bool ParseDictionary(std::string_view text, Line& line) {
  for (int i = 0; i < kMostTries; ++i) {
    size_t at = text.find('{');
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at);
    Line found;
    if (Reader(text, found).Dictionary("", 0) && !found.empty()) {
      line = std::move(found);
      return true;
    }
    text.remove_prefix(1);
  }
  return false;
}

}  // namespace gpulens::metric_lines
