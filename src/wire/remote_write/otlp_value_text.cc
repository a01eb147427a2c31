#include "wire/remote_write/otlp_value_text.h"

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "wire/otlp/proto_cursor.h"

namespace gpulens::remote_write_out {
namespace {

enum PairField : uint32_t { kKeyField = 1, kValueField };
enum AnyField : uint32_t { kText = 1, kBool, kInt, kDouble, kArray, kMap, kBytes };

// The one of its fields that counts: the last.
bool Last(std::string_view message, ProtoField& out) noexcept {
  ProtoCursor cursor(message);
  ProtoField field;
  bool any = false;
  while (cursor.Next(field)) {
    if (field.number < kText || field.number > kBytes) continue;
    out = field;
    any = true;
  }
  return any;
}

template <class Number>
void AppendDigits(std::string& out, Number number) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, end);
}

void AppendDouble(std::string& out, std::string_view bytes) {
  double value = 0;
  if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  if (std::isnan(value)) out += "NaN";
  else if (std::isinf(value)) out += value > 0 ? "Infinity" : "-Infinity";
  else AppendDigits(out, value);
}

void AppendBase64(std::string& out, std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[at + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
}

void AppendJson(std::string& out, std::string_view message);

void AppendList(std::string& out, std::string_view list) {
  out += '[';
  ProtoCursor cursor(list);
  ProtoField field;
  for (bool first = true; cursor.Next(field);) {
    if (field.number != 1 || field.wire != WireType::kBytes) continue;
    if (!first) out += ',';
    first = false;
    AppendJson(out, field.bytes);
  }
  out += ']';
}

void AppendMap(std::string& out, std::string_view map) {
  out += '{';
  ProtoCursor cursor(map);
  ProtoField pair, field;
  for (bool first = true; cursor.Next(pair);) {
    if (pair.number != 1 || pair.wire != WireType::kBytes) continue;
    if (!first) out += ',';
    first = false;
    std::string_view key, value;
    for (ProtoCursor parts(pair.bytes); parts.Next(field);) {
      if (field.wire != WireType::kBytes) continue;
      if (field.number == 1) key = field.bytes;
      else if (field.number == 2) value = field.bytes;
    }
    AppendJsonString(out, key);
    out += ':';
    AppendJson(out, value);
  }
  out += '}';
}

// But for text and bytes, which JSON puts in quotes.
void AppendPlain(std::string& out, const ProtoField& field) {
  switch (field.number) {
    case kBool: out += field.value != 0 ? "true" : "false"; break;
    case kInt: AppendDigits(out, static_cast<int64_t>(field.value)); break;
    case kDouble: AppendDouble(out, field.bytes); break;
    case kArray: AppendList(out, field.bytes); break;
    case kMap: AppendMap(out, field.bytes); break;
    default: break;
  }
}

void AppendJson(std::string& out, std::string_view message) {
  ProtoField field;
  if (!Last(message, field)) {
    out += "null";
  } else if (field.number == kText) {
    AppendJsonString(out, field.bytes);
  } else if (field.number == kBytes) {
    out += '"';
    AppendBase64(out, field.bytes);
    out += '"';
  } else {
    AppendPlain(out, field);
  }
}

}  // namespace

bool IsGood(otlp_in::MessageShape shape, std::string_view message, bool& readable) noexcept {
  const otlp_in::Finding finding = otlp_in::CheckMessage(shape, message);
  readable = finding.validity != otlp_in::Validity::kBroken;
  return finding.good();
}

bool ReadKeyValue(std::string_view message, std::string_view& key, std::string_view& value) noexcept {
  key = value = {};
  ProtoCursor cursor(message);
  for (ProtoField field; cursor.Next(field);) {
    if (field.wire != WireType::kBytes) continue;
    if (field.number == kKeyField) key = field.bytes;
    else if (field.number == kValueField) value = field.bytes;
  }
  return !key.empty();
}

std::string_view ValueText(std::string_view message, std::string& room) {
  ProtoField field;
  if (!Last(message, field)) return {};
  if (field.number == kText) return field.bytes;
  room.clear();
  if (field.number == kBytes) AppendBase64(room, field.bytes);
  else AppendPlain(room, field);
  return room;
}

}  // namespace gpulens::remote_write_out
