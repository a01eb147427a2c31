#include "base/json.h"

#include <algorithm>
#include <cstring>

#include "base/stable_sort.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr unsigned kReplacement = 0xFFFD;

constexpr bool IsHigh(unsigned unit) noexcept { return unit >= 0xD800 && unit < 0xDC00; }
constexpr bool IsLow(unsigned unit) noexcept { return unit >= 0xDC00 && unit < 0xE000; }

// Number of bytes at the front that are neither a quote, a backslash nor a control byte, or fewer: eight at a
// time.
size_t PlainBytes(std::string_view text) noexcept {
  constexpr uint64_t kOnes = 0x0101010101010101u, kHigh = 0x8080808080808080u;
  // The high bit of each byte that is 0; bits above the first such byte may be set, too.
  const auto zeros = [](uint64_t word) { return (word - kOnes) & ~word & kHigh; };
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, sizeof word);
    if (zeros(word ^ kOnes * '"') | zeros(word ^ kOnes * '\\') | ((word - kOnes * 0x20) & ~word & kHigh))
      break;
  }
  return at;
}

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
  at_ += PlainBytes(text_.substr(at_));
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
    case kString:
      // As String() does, but what is not read is not copied.
      for (++at_; at_ < text_.size();) {
        at_ += PlainBytes(text_.substr(at_));
        if (at_ >= text_.size()) break;
        const char c = text_[at_++];
        if (c == '"') return true;
        if (static_cast<unsigned char>(c) < 0x20) return --at_, Fail("a control byte in a string");
        scratch_.clear();
        if (c == '\\' && !Escape()) return false;
      }
      return Fail("unterminated string");
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

Result<JsonDocument> JsonDocument::Parse(std::string_view text) {
  if (text.size() > kMaxBytes)
    return Status{Code::kExhausted, "JSON of " + std::to_string(text.size()) + " bytes"};
  JsonDocument document;
  JsonScanner json(text, kMaxDepth);
  if (document.Read(json, document.root_) && !json.AtEnd()) json.Fail("unexpected data after the end");
  if (!json.failed() && !IsUtf8(text)) json.Fail("not UTF-8");
  if (json.code() == Code::kExhausted) return Status{Code::kExhausted, "JSON is nested too deep"};
  if (json.failed())
    return Status{json.code(), "invalid JSON at byte " + std::to_string(json.at()) + ": " + json.what()};
  return document;
}

JsonDocument::Node JsonDocument::Store(std::string_view text, JsonScanner::Kind kind) {
  const Node node{
      .kind = kind, .at = static_cast<uint32_t>(texts_.size()), .size = static_cast<uint32_t>(text.size())};
  texts_ += text;
  return node;
}

bool JsonDocument::Read(JsonScanner& json, Node& out) {
  out.kind = json.Peek();
  std::string_view text;
  if (out.kind == JsonScanner::kString || out.kind == JsonScanner::kNumber) {
    if (!(out.kind == JsonScanner::kString ? json.String(text) : json.Number(text))) return false;
    out = Store(text, out.kind);
    return true;
  }
  const bool object = out.kind == JsonScanner::kObject;
  if (!object && out.kind != JsonScanner::kArray) return json.Word();
  if (!json.Enter()) return false;
  std::vector<Node> children;
  for (bool begun = false; object ? json.NextMember(begun, text) : json.NextItem(begun);) {
    const Node key = Store(object ? text : "", JsonScanner::kString);
    Node child;
    if (!Read(json, child)) return false;
    child.key_at = key.at;
    child.key_size = key.size;
    children.push_back(child);
  }
  if (object) SortMembers(children);
  out.at = static_cast<uint32_t>(nodes_.size());
  out.size = static_cast<uint32_t>(children.size());
  nodes_.insert(nodes_.end(), children.begin(), children.end());
  return !json.failed();
}

// Also leaves the last of the members with one key, at the place of the first.
void JsonDocument::SortMembers(std::vector<Node>& members) const {
  const auto less = [this](const Node& a, const Node& b) { return KeyOf(a) < KeyOf(b); };
  SortStably(members, less);
  size_t kept = 0;
  for (const Node& member : members) {
    if (kept == 0 || KeyOf(members[kept - 1]) != KeyOf(member)) {
      members[kept++] = member;
      continue;
    }
    const uint32_t first = members[kept - 1].key_at;
    members[kept - 1] = member;
    members[kept - 1].key_at = first;
  }
  members.resize(kept);
}

const JsonDocument::Node* JsonDocument::Find(std::string_view pointer) const {
  const Node* node = &root_;
  if (!pointer.empty() && pointer.front() != '/') return nullptr;
  std::string token;
  while (!pointer.empty()) {
    pointer.remove_prefix(1);
    token.clear();
    for (; !pointer.empty() && pointer.front() != '/'; pointer.remove_prefix(1)) {
      const bool escape = pointer.starts_with("~0") || pointer.starts_with("~1");
      token += escape ? pointer[1] == '0' ? '~' : '/' : pointer.front();
      if (escape) pointer.remove_prefix(1);
    }
    const auto children = nodes_.begin() + node->at;
    if (node->kind == JsonScanner::kArray) {
      const auto index = ParseInt<uint32_t>(token);
      if (!index || *index >= node->size) return nullptr;
      node = &children[*index];
    } else if (node->kind == JsonScanner::kObject) {
      const auto at = std::lower_bound(children, children + node->size, token,
                                       [this](const Node& a, std::string_view b) { return KeyOf(a) < b; });
      if (at == children + node->size || KeyOf(*at) != token) return nullptr;
      node = &*at;
    } else {
      return nullptr;
    }
  }
  return node;
}

const JsonDocument::Node* JsonDocument::Find(std::string_view pointer, JsonScanner::Kind kind) const {
  const Node* node = Find(pointer);
  return node && node->kind == kind ? node : nullptr;
}

std::optional<std::string> JsonDocument::Text(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kString);
  return node ? std::optional<std::string>(At(node->at, node->size)) : std::nullopt;
}

std::optional<double> JsonDocument::Number(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kNumber);
  return node ? ParseSaturated(At(node->at, node->size)) : std::nullopt;
}

std::optional<bool> JsonDocument::Truth(std::string_view pointer) const {
  if (Find(pointer, JsonScanner::kTrue)) return true;
  return Find(pointer, JsonScanner::kFalse) ? std::optional(false) : std::nullopt;
}

bool JsonDocument::IsNull(std::string_view pointer) const { return Find(pointer, JsonScanner::kNull); }

std::optional<std::vector<std::string>> JsonDocument::Names(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kObject);
  if (!node) return std::nullopt;
  std::vector<Node> members(nodes_.begin() + node->at, nodes_.begin() + node->at + node->size);
  // Stable: an empty key, which is sorted first, may be at the place of the next one.
  SortStably(members, [](const Node& a, const Node& b) { return a.key_at < b.key_at; });
  std::vector<std::string> names;
  for (const Node& member : members) names.emplace_back(KeyOf(member));
  return names;
}

size_t JsonDocument::Size(std::string_view pointer) const {
  const Node* node = Find(pointer, JsonScanner::kArray);
  return node ? node->size : 0;
}

}  // namespace gpulens
