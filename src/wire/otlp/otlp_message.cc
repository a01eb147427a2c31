#include "wire/otlp/otlp_message.h"

#include <array>
#include <initializer_list>
#include <utility>

#include "base/text.h"

namespace gpulens::otlp_in {
namespace {

enum class Kind : uint8_t {
  kUnknown,  // passed on as it is
  kVarint,
  kFixed64,
  kFixed32,
  kText,
  kBytes,
  kId8,
  kId16,
  kFixed64s,  // repeated: packed, or one at a time
  kVarints,
  kMessage,
};

struct Rule {
  Kind kind = Kind::kUnknown;
  MessageShape child = MessageShape::kResource;
};

constexpr size_t kFields = 17;
using Rules = std::array<Rule, kFields>;

struct Row {
  uint32_t number;
  Kind kind;
  MessageShape child = MessageShape::kResource;
};

constexpr Rules Make(std::initializer_list<Row> rows) {
  Rules rules{};
  for (const Row& row : rows) rules[row.number] = {row.kind, row.child};
  return rules;
}

using enum Kind;
using enum MessageShape;

// In the order of MessageShape. The numbers are those of opentelemetry-proto 1.x.
constexpr Rules kTable[kShapes] = {
    // kResource
    Make({{1, kMessage, kKeyValue}, {2, kVarint}, {3, kMessage, kEntityRef}}),
    // kScope
    Make({{1, kText}, {2, kText}, {3, kMessage, kKeyValue}, {4, kVarint}}),
    // kKeyValue
    Make({{1, kText}, {2, kMessage, kAnyValue}}),
    // kAnyValue
    Make({{1, kText},
          {2, kVarint},
          {3, kVarint},
          {4, kFixed64},
          {5, kMessage, kArray},
          {6, kMessage, kKeyValueList},
          {7, kBytes}}),
    // kArray
    Make({{1, kMessage, kAnyValue}}),
    // kKeyValueList
    Make({{1, kMessage, kKeyValue}}),
    // kEntityRef
    Make({{1, kText}, {2, kText}, {3, kText}, {4, kText}}),
    // kExemplar
    Make({{2, kFixed64}, {3, kFixed64}, {4, kId8}, {5, kId16}, {6, kFixed64}, {7, kMessage, kKeyValue}}),
    // kBuckets
    Make({{1, kVarint}, {2, kVarints}}),
    // kQuantile
    Make({{1, kFixed64}, {2, kFixed64}}),
    // kSpanEvent
    Make({{1, kFixed64}, {2, kText}, {3, kMessage, kKeyValue}, {4, kVarint}}),
    // kSpanLink
    Make({{1, kId16}, {2, kId8}, {3, kText}, {4, kMessage, kKeyValue}, {5, kVarint}, {6, kFixed32}}),
    // kSpanStatus
    Make({{2, kText}, {3, kVarint}}),
    // kNumberPoint
    Make({{2, kFixed64},
          {3, kFixed64},
          {4, kFixed64},
          {5, kMessage, kExemplar},
          {6, kFixed64},
          {7, kMessage, kKeyValue},
          {8, kVarint}}),
    // kHistogramPoint
    Make({{2, kFixed64},
          {3, kFixed64},
          {4, kFixed64},
          {5, kFixed64},
          {6, kFixed64s},
          {7, kFixed64s},
          {8, kMessage, kExemplar},
          {9, kMessage, kKeyValue},
          {10, kVarint},
          {11, kFixed64},
          {12, kFixed64}}),
    // kExponentialPoint
    Make({{1, kMessage, kKeyValue},
          {2, kFixed64},
          {3, kFixed64},
          {4, kFixed64},
          {5, kFixed64},
          {6, kVarint},
          {7, kFixed64},
          {8, kMessage, kBuckets},
          {9, kMessage, kBuckets},
          {10, kVarint},
          {11, kMessage, kExemplar},
          {12, kFixed64},
          {13, kFixed64},
          {14, kFixed64}}),
    // kSummaryPoint
    Make({{2, kFixed64},
          {3, kFixed64},
          {4, kFixed64},
          {5, kFixed64},
          {6, kMessage, kQuantile},
          {7, kMessage, kKeyValue},
          {8, kVarint}}),
    // kLogRecord
    Make({{1, kFixed64},
          {2, kVarint},
          {3, kText},
          {5, kMessage, kAnyValue},
          {6, kMessage, kKeyValue},
          {7, kVarint},
          {8, kFixed32},
          {9, kId16},
          {10, kId8},
          {11, kFixed64},
          {12, kText}}),
    // kSpan
    Make({{1, kId16},
          {2, kId8},
          {3, kText},
          {4, kId8},
          {5, kText},
          {6, kVarint},
          {7, kFixed64},
          {8, kFixed64},
          {9, kMessage, kKeyValue},
          {10, kVarint},
          {11, kMessage, kSpanEvent},
          {12, kVarint},
          {13, kMessage, kSpanLink},
          {14, kVarint},
          {15, kMessage, kSpanStatus},
          {16, kFixed32}}),
    // kResourceList
    Make({{1, kMessage, kResource}, {2, kBytes}, {3, kText}}),
    // kScopeList
    Make({{1, kMessage, kScope}, {2, kBytes}, {3, kText}}),
    // kMetric
    Make({{1, kText},
          {2, kText},
          {3, kText},
          {5, kBytes},
          {7, kBytes},
          {9, kBytes},
          {10, kBytes},
          {11, kBytes},
          {12, kMessage, kKeyValue}}),
    // kData
    Make({{1, kBytes}, {2, kVarint}, {3, kVarint}}),
};

constexpr Finding kWrongType = {Validity::kBroken, "a field has a wire type other than that of OTLP"};
constexpr Finding kCutOff = {Validity::kBroken, "the request is not a protobuf message"};
constexpr Finding kNoText = {Validity::kBad, "a text is not valid UTF-8"};
constexpr Finding kNoId = {Validity::kBad, "a trace id or span id has a wrong length"};
constexpr Finding kTooDeep = {Validity::kBad, "values nest too deeply"};

bool AreVarints(std::string_view packed) noexcept {
  ProtoCursor cursor(packed);
  uint64_t value = 0;
  while (!cursor.at_end())
    if (!cursor.Varint(value)) return false;
  return true;
}

Finding CheckId(const ProtoField& field, size_t size) noexcept {
  if (field.wire != WireType::kBytes) return kWrongType;
  return field.bytes.empty() || field.bytes.size() == size ? Finding{} : kNoId;
}

}  // namespace

namespace {

template <class Word>
Word Load(const char* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Whether all bytes are below 0x80. The last load overlaps the one before.
inline bool IsAscii(std::string_view text) noexcept {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  const char* at = text.data();
  const char* const end = at + text.size();
  if (text.size() >= 8) {
    uint64_t seen = Load<uint64_t>(end - 8);
    for (; end - at > 8; at += 8) seen |= Load<uint64_t>(at);
    return (seen & kHighBits) == 0;
  }
  if (text.size() >= 4) return ((Load<uint32_t>(at) | Load<uint32_t>(end - 4)) & uint32_t{0x80808080}) == 0;
  unsigned char seen = 0;
  for (; at != end; ++at) seen |= static_cast<unsigned char>(*at);
  return seen < 0x80;
}

}  // namespace

bool IsText(std::string_view text) noexcept { return IsAscii(text) || IsUtf8(text); }

namespace {

// An AnyValue that is a short text, whose bytes are still to be looked at, or a number. No list, nothing
// twice.
inline bool IsUsualValue(std::string_view value, bool& is_text) noexcept {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(value[i]); };
  is_text = false;
  if (value.size() < 2) return false;
  switch (at(0)) {
    case 0x0a: is_text = true; return at(1) < 0x80 && value.size() == 2 + size_t{at(1)};
    case 0x10:  // a truth value, or an integer of as many bytes as it has
    case 0x18: {
      size_t last = 1;
      while (last < value.size() && at(last) >= 0x80) ++last;
      return last + 1 == value.size() && last < 10;
    }
    case 0x21: return value.size() == 9;
    default: return false;
  }
}

}  // namespace

// Nine of ten attributes are a short key with a short text or a number. Most writers put the key first, and
// the Collector's the value.
std::string_view UsualPair(std::string_view pair) noexcept {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(pair[i]); };
  if (pair.size() < 6 || at(1) >= 0x80) return {};
  const size_t second = 2 + size_t{at(1)};
  if (second + 2 > pair.size() || at(second + 1) >= 0x80 || second + 2 + at(second + 1) != pair.size())
    return {};
  std::string_view key = pair.substr(2, second - 2), value = pair.substr(second + 2);
  if (at(0) == 0x12 && at(second) == 0x0a) std::swap(key, value);
  else if (at(0) != 0x0a || at(second) != 0x12) return {};
  bool is_text = false;
  if (!IsUsualValue(value, is_text)) return {};
  return IsAscii(is_text ? pair : key) ? key : std::string_view();
}

uint32_t AttributesField(MessageShape item) noexcept {
  switch (item) {
    case kHistogramPoint:
    case kSpan: return 9;
    case kExponentialPoint: return 1;
    case kLogRecord: return 6;
    default: return 7;
  }
}

Finding CheckField(MessageShape shape, const ProtoField& field, int depth) noexcept {
  if (field.number >= kFields) return {};
  const Rule rule = kTable[static_cast<size_t>(shape)][field.number];
  switch (rule.kind) {
    case kUnknown: return {};
    case kVarint: return field.wire == WireType::kVarint ? Finding{} : kWrongType;
    case kFixed64: return field.wire == WireType::kFixed64 ? Finding{} : kWrongType;
    case kFixed32: return field.wire == WireType::kFixed32 ? Finding{} : kWrongType;
    case kBytes: return field.wire == WireType::kBytes ? Finding{} : kWrongType;
    case kId8: return CheckId(field, 8);
    case kId16: return CheckId(field, 16);
    case kText:
      if (field.wire != WireType::kBytes) return kWrongType;
      return IsText(field.bytes) ? Finding{} : kNoText;
    case kFixed64s:
      if (field.wire == WireType::kFixed64) return {};
      if (field.wire != WireType::kBytes) return kWrongType;
      return field.bytes.size() % 8 == 0 ? Finding{} : kCutOff;
    case kVarints:
      if (field.wire == WireType::kVarint) return {};
      if (field.wire != WireType::kBytes) return kWrongType;
      return AreVarints(field.bytes) ? Finding{} : kCutOff;
    case kMessage: break;
  }
  if (field.wire != WireType::kBytes) return kWrongType;
  if (depth == 0) return kTooDeep;
  return CheckMessage(rule.child, field.bytes, depth - 1);
}

Finding CheckMessage(MessageShape shape, std::string_view bytes, int depth) noexcept {
  ProtoCursor cursor(bytes);
  ProtoField field;
  Finding worst;
  while (cursor.Next(field)) {
    const Finding found = CheckField(shape, field, depth);
    if (found.validity == Validity::kBroken) return found;
    if (worst.good()) worst = found;
  }
  return cursor.broken() ? kCutOff : worst;
}

}  // namespace gpulens::otlp_in
