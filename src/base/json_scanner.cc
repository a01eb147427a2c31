#include "base/json_scanner.h"

#include "base/text.h"

namespace gpulens {
namespace {

constexpr unsigned kReplacement = 0xFFFD;

constexpr bool IsHigh(unsigned unit) noexcept { return unit >= 0xD800 && unit < 0xDC00; }
constexpr bool IsLow(unsigned unit) noexcept { return unit >= 0xDC00 && unit < 0xE000; }

}  // namespace

bool JsonScanner::Fail(const char* what, Code code) noexcept {
  if (!what_) what_ = what, code_ = code;
  return false;
}

Status JsonScanner::Finish() {
  if (!failed() && !AtEnd()) Fail("unexpected data after the end");
  return failed() ? Status{code_, std::string(what_) + " at byte " + std::to_string(at_)} : Ok();
}

bool JsonScanner::CheckUtf8(std::string_view text) noexcept { return IsUtf8(text) || Fail("no UTF-8"); }

std::string_view JsonScanner::Text() {
  std::string_view text;
  if (Peek() != kString) return Skip(), text;
  return String(text) && CheckUtf8(text) ? text : std::string_view();
}

std::optional<double> JsonScanner::Double() {
  std::string_view text;
  if (Peek() != kNumber) return Skip(), std::nullopt;
  return Number(text) ? ParseDouble(text) : std::nullopt;
}

std::optional<uint64_t> JsonScanner::Unsigned() {
  std::string_view text;
  if (Peek() != kNumber) return Skip(), std::nullopt;
  return Number(text) ? ParseInt<uint64_t>(text) : std::nullopt;
}

std::optional<bool> JsonScanner::Bool() {
  const Kind kind = Peek();
  if (!Skip() || (kind != kTrue && kind != kFalse)) return std::nullopt;
  return kind == kTrue;
}

void JsonScanner::Blank() noexcept {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
    ++at_;
  }
}

bool JsonScanner::Take(char c) noexcept {
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

JsonScanner::Kind JsonScanner::Peek() noexcept {
  Blank();
  if (failed() || at_ >= text_.size()) return kNothing;
  const char c = text_[at_];
  switch (c) {
    case '{': return kObject;
    case '[': return kArray;
    case '"': return kString;
    case 't': return kTrue;
    case 'f': return kFalse;
    case 'n': return kNull;
    default: return c == '-' || (c >= '0' && c <= '9') ? kNumber : kNothing;
  }
}

bool JsonScanner::Enter() noexcept {
  const Kind kind = Peek();
  if (kind != kObject && kind != kArray) return Fail("neither an object nor an array");
  if (++depth_ > max_depth_) return Fail("nested too deep", Code::kExhausted);
  ++at_;
  return true;
}

bool JsonScanner::More(bool& begun, char close) noexcept {
  Blank();
  if (failed()) return false;
  if (Take(close)) {
    --depth_;
    return false;
  }
  if (begun && !Take(',')) return Fail("no comma");
  begun = true;
  return true;
}

bool JsonScanner::NextMember(bool& begun, std::string_view& key) {
  if (!More(begun, '}') || !String(key)) return false;
  Blank();
  return Take(':') || Fail("no colon");
}

bool JsonScanner::String(std::string_view& out) {
  if (Peek() != kString) return Fail("no text");
  const size_t start = ++at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '"') {
      out = text_.substr(start, at_++ - start);
      return true;
    }
    if (c == '\\') break;
    if (static_cast<unsigned char>(c) < 0x20) return Fail("a control byte in a string");
    ++at_;
  }
  scratch_.assign(text_, start, at_ - start);
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') {
      out = scratch_;
      return true;
    }
    if (static_cast<unsigned char>(c) < 0x20) return Fail("a control byte in a string");
    if (c != '\\') scratch_ += c;
    else if (!Escape()) return false;
  }
  return Fail("unterminated string");
}

bool JsonScanner::CodeUnit(unsigned& unit) noexcept {
  const auto value = ParseInt<uint16_t>(text_.substr(at_, 4), 16);
  if (!value || text_.size() - at_ < 4) return Fail("not a code point");
  at_ += 4;
  unit = *value;
  return true;
}

// Half a surrogate pair becomes U+FFFD.
bool JsonScanner::Escape() {
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (at_ >= text_.size()) return Fail("unterminated string");
  const char c = text_[at_++];
  if (c != 'u') {
    const size_t which = kFrom.find(c);
    if (which == kFrom.npos) return Fail("an unknown escape");
    scratch_ += kTo[which];
    return true;
  }
  unsigned unit = 0;
  if (!CodeUnit(unit)) return false;
  while (IsHigh(unit) && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    unsigned low = 0;
    if (!CodeUnit(low)) return false;
    if (IsLow(low)) {
      AppendUtf8(scratch_, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
      return true;
    }
    AppendUtf8(scratch_, kReplacement);
    unit = low;
  }
  AppendUtf8(scratch_, IsHigh(unit) || IsLow(unit) ? kReplacement : unit);
  return true;
}

bool JsonScanner::Digits() noexcept {
  const size_t start = at_;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
  return at_ != start || Fail("no digit");
}

bool JsonScanner::Number(std::string_view& out) noexcept {
  if (Peek() != kNumber) return Fail("no number");
  const size_t start = at_;
  Take('-');
  if (!Take('0') && !Digits()) return false;
  if (Take('.') && !Digits()) return false;
  if (Take('e') || Take('E')) {
    if (!Take('+')) Take('-');
    if (!Digits()) return false;
  }
  out = text_.substr(start, at_ - start);
  return true;
}

bool JsonScanner::Word() noexcept {
  Blank();
  if (failed()) return false;
  for (std::string_view word : {"true", "false", "null"}) {
    if (text_.substr(at_, word.size()) != word) continue;
    at_ += word.size();
    return true;
  }
  return Fail("no value");
}

bool JsonScanner::Skip() {
  std::string_view text;
  switch (Peek()) {
    case kString: return String(text);
    case kNumber: return Number(text);
    case kObject:
      if (!Enter()) return false;
      for (bool begun = false; NextMember(begun, text);) {
        if (!Skip()) return false;
      }
      return !failed();
    case kArray:
      if (!Enter()) return false;
      for (bool begun = false; NextItem(begun);) {
        if (!Skip()) return false;
      }
      return !failed();
    default: return Word();
  }
}

bool JsonScanner::AtEnd() noexcept {
  Blank();
  return at_ == text_.size();
}

}  // namespace gpulens
