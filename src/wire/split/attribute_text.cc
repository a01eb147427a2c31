#include "wire/split/attribute_text.h"

#include <cmath>
#include <cstring>

#include "base/number_text.h"
#include "base/text.h"
#include "wire/otlp/otlp_message.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens::split {
namespace {

enum ValueField : uint32_t {
  kText = 1,
  kBool = 2,
  kInt = 3,
  kDouble = 4,
  kArray = 5,
  kKeyValues = 6,
  kRawBytes = 7
};
constexpr uint32_t kKeyField = 1, kValueField = 2, kListElement = 1;

// Returns the field of the oneof that is set: the last one. False: malformed, or no field is set.
bool ReadAnyValue(std::string_view message, ProtoField& out) noexcept {
  ProtoCursor cursor(message);
  ProtoField field;
  bool set = false;
  while (cursor.Next(field)) {
    if (field.number < kText || field.number > kRawBytes) continue;
    const bool varint = field.number == kBool || field.number == kInt;
    const WireType wire = varint                    ? WireType::kVarint
                          : field.number == kDouble ? WireType::kFixed64
                                                    : WireType::kBytes;
    if (field.wire != wire) return false;
    out = field;
    set = true;
  }
  return set && !cursor.broken();
}

void AppendDouble(std::string& out, std::string_view bytes) {
  double value;
  std::memcpy(&value, bytes.data(), sizeof value);
  char text[kNumberBytes];
  out.append(text, WriteNumber(text, value));
}

void AppendInt(std::string& out, uint64_t value) {
  char text[kNumberBytes];
  out.append(text, WriteInteger(text, static_cast<int64_t>(value)));
}

bool AppendJson(std::string& out, const ProtoField& value, int depth);

bool AppendElement(std::string& out, std::string_view any_value, int depth) {
  ProtoField field;
  return ReadAnyValue(any_value, field) && AppendJson(out, field, depth);
}

bool AppendList(std::string& out, const ProtoField& list, int depth) {
  if (depth == 0) return false;
  const bool object = list.number == kKeyValues;
  out += object ? '{' : '[';
  ProtoCursor cursor(list.bytes);
  ProtoField element;
  bool first = true;
  while (cursor.Next(element)) {
    if (element.number != kListElement) continue;
    if (element.wire != WireType::kBytes) return false;
    if (!first) out += ',';
    first = false;
    if (!object) {
      if (!AppendElement(out, element.bytes, depth - 1)) return false;
      continue;
    }
    KeyValueView pair;
    if (!ReadKeyValue(element.bytes, pair)) return false;
    AppendJsonString(out, pair.key);
    out += ':';
    if (!AppendElement(out, pair.value, depth - 1)) return false;
  }
  out += object ? '}' : ']';
  return !cursor.broken();
}

bool AppendJson(std::string& out, const ProtoField& value, int depth) {
  switch (value.number) {
    case kText: AppendJsonString(out, value.bytes); return true;
    case kBool: out += value.value != 0 ? "true" : "false"; return true;
    case kInt: AppendInt(out, value.value); return true;
    case kDouble: AppendDouble(out, value.bytes); return true;
    case kArray:
    case kKeyValues: return AppendList(out, value, depth);
    default: return false;
  }
}

}  // namespace

bool ReadKeyValue(std::string_view message, KeyValueView& out) noexcept {
  ProtoCursor cursor(message);
  ProtoField field;
  out = {};
  while (cursor.Next(field)) {
    if (field.number != kKeyField && field.number != kValueField) continue;
    if (field.wire != WireType::kBytes) return false;
    (field.number == kKeyField ? out.key : out.value) = field.bytes;
  }
  return !cursor.broken();
}

bool AttributeText(std::string_view any_value, std::string& room, std::string_view& out) {
  ProtoField field;
  if (!ReadAnyValue(any_value, field)) return false;
  if (field.number == kText) return out = field.bytes, true;
  room.clear();
  if (!AppendJson(room, field, otlp_in::kDeepest)) return false;
  return out = room, true;
}

}  // namespace gpulens::split
