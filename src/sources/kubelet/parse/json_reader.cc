#include "sources/kubelet/parse/json_reader.h"

#include "base/parse.h"
#include "base/text.h"

namespace gpulens::kubelet {
namespace {

bool InWord(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '+' ||
         c == '.';
}

}  // namespace

void JsonReader::Fail(std::string_view why, Code code) {
  if (failed_) return;
  failed_ = true;
  why_ = {code, std::string(why) + " at byte " + std::to_string(at_)};
  at_ = text_.size();
}

Status JsonReader::Finish() {
  if (!failed_ && Peek() != '\0') Fail("unexpected data after the end");
  return why_;
}

// '\0' at the end; a NUL byte in the text is none that JSON has outside of strings.
char JsonReader::Peek() noexcept {
  while (at_ < text_.size()) {
    char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c == '\0' ? '\x01' : c;
    ++at_;
  }
  return '\0';
}

bool JsonReader::Enter(char open) {
  if (failed_) return false;
  if (Peek() != open) {
    Skip();
    return false;
  }
  if (++depth_ > kMostDepth) {
    Fail("nested too deep", Code::kExhausted);
    return false;
  }
  ++at_;
  return true;
}

// Whether another member or element follows.
bool JsonReader::Next(bool first, char close) {
  if (failed_) return false;
  char c = Peek();
  if (c == close) {
    ++at_;
    --depth_;
    return false;
  }
  if (first) return true;
  if (c != ',') {
    Fail("no comma");
    return false;
  }
  ++at_;
  return true;
}

bool JsonReader::NextKey(bool first, std::string& room, std::string_view& key) {
  if (!Next(first, '}')) return false;
  if (Peek() != '"') {
    Fail("no key");
    return false;
  }
  key = String(&room);
  if (failed_) return false;
  if (Peek() != ':') {
    Fail("no colon");
    return false;
  }
  ++at_;
  Peek();  // so that a value that is not taken is seen by the place not having moved
  return true;
}

bool JsonReader::NextElement(bool first) {
  if (!Next(first, ']')) return false;
  Peek();
  return true;
}

std::optional<uint32_t> JsonReader::Hex4() {
  if (text_.size() - at_ < 4) return std::nullopt;
  auto number = ParseInt<uint16_t>(text_.substr(at_, 4), 16);
  if (number) at_ += 4;
  return number;
}

bool JsonReader::Escape(std::string* room) {
  if (at_ >= text_.size()) return false;
  constexpr std::string_view kLetters = "\"\\/bfnrt", kBytes = "\"\\/\b\f\n\r\t";
  char c = text_[at_++];
  if (size_t i = kLetters.find(c); i != std::string_view::npos) {
    if (room) *room += kBytes[i];
    return true;
  }
  if (c != 'u') return false;
  auto point = Hex4();
  if (!point) return false;
  if (*point >= 0xD800 && *point < 0xDC00 && text_.substr(at_, 2) == "\\u") {
    size_t before = at_;
    at_ += 2;
    auto low = Hex4();
    if (low && *low >= 0xDC00 && *low < 0xE000) point = 0x10000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
    else at_ = before;
  }
  if (*point >= 0xD800 && *point < 0xE000) point = 0xFFFD;
  if (room) AppendUtf8(*room, *point);
  return true;
}

std::string_view JsonReader::String(std::string* room) {
  size_t begin = ++at_;
  bool decoded = false;
  while (at_ < text_.size()) {
    size_t stop = text_.find_first_of("\"\\", at_);
    if (stop == std::string_view::npos) break;
    std::string_view plain = text_.substr(at_, stop - at_);
    if (text_[stop] == '"') {
      at_ = stop + 1;
      if (!room) return {};
      if (decoded) room->append(plain);
      std::string_view whole = decoded ? std::string_view(*room) : text_.substr(begin, stop - begin);
      if (!IsUtf8(whole)) return Fail("no UTF-8"), std::string_view{};
      return whole;
    }
    if (room) {
      if (!decoded) room->clear();
      room->append(plain);
    }
    decoded = true;
    at_ = stop + 1;
    if (!Escape(room)) return Fail("bad escape"), std::string_view{};
  }
  Fail("a string without an end");
  return {};
}

std::string_view JsonReader::Word() {
  Peek();
  size_t begin = at_;
  while (at_ < text_.size() && InWord(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::string_view JsonReader::Text() {
  if (failed_) return {};
  if (Peek() == '"') return String(&room_);
  Skip();
  return {};
}

std::optional<double> JsonReader::Number() {
  char c = Peek();
  if (failed_) return std::nullopt;
  if (c != '-' && (c < '0' || c > '9')) {
    Skip();
    return std::nullopt;
  }
  auto number = ParseDouble(Word());
  if (!number) Fail("no number");
  return number;
}

std::optional<uint64_t> JsonReader::Unsigned() {
  char c = Peek();
  if (failed_) return std::nullopt;
  if (c < '0' || c > '9') {
    Skip();
    return std::nullopt;
  }
  std::string_view word = Word();
  if (!ParseDouble(word)) Fail("no number");
  return ParseInt<uint64_t>(word);
}

std::optional<bool> JsonReader::Bool() {
  char c = Peek();
  if (c != 't' && c != 'f') {
    Skip();
    return std::nullopt;
  }
  Skip();
  if (failed_) return std::nullopt;
  return c == 't';
}

void JsonReader::Skip() {
  if (failed_) return;
  char c = Peek();
  if (c == '{') return Object([](std::string_view) {});
  if (c == '[') return Array([] {});
  if (c == '"') {
    String(nullptr);
    return;
  }
  std::string_view word = Word();
  if (word == "true" || word == "false" || word == "null") return;
  if (word.empty() || (c != '-' && (c < '0' || c > '9')) || !ParseDouble(word)) Fail("no value");
}

}  // namespace gpulens::kubelet
