#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <protozero/pbf_writer.hpp>

#include "base/json_scanner.h"
#include "base/parse.h"
#include "base/text.h"
#include "wire/otlp/otlp_json.h"

namespace gpulens {
namespace {

std::optional<uint64_t> DoubleBits(std::string_view text) noexcept {
  std::optional<double> value;
  if (text == "NaN") value = std::numeric_limits<double>::quiet_NaN();
  else if (text == "Infinity") value = std::numeric_limits<double>::infinity();
  else if (text == "-Infinity") value = -std::numeric_limits<double>::infinity();
  else if (text.find_first_not_of("0123456789+-.eE") == text.npos) value = ParseDouble(text);
  if (!value) return {};
  return std::bit_cast<uint64_t>(*value);
}

template <class T>
std::optional<uint64_t> IntegerBits(std::string_view text) noexcept {
  const auto value = JsonInteger<T>(text);
  return value ? std::optional(static_cast<uint64_t>(*value)) : std::nullopt;
}

// The value of a number field, as its varint or its fixed bytes have it.
std::optional<uint64_t> Bits(const OtlpField& field, std::string_view text) noexcept {
  switch (field.type) {
    case OtlpType::kEnum:
      for (size_t i = 0; i < field.names.size(); ++i) {
        if (field.names[i] == text) return i;
      }
      return IntegerBits<int32_t>(text);
    case OtlpType::kInt32: return IntegerBits<int32_t>(text);
    case OtlpType::kSint32: {
      const auto fits = IntegerBits<int32_t>(text);
      if (!fits) return {};
      return protozero::encode_zigzag32(static_cast<int32_t>(*fits));
    }
    case OtlpType::kUint32:
    case OtlpType::kFixed32: return IntegerBits<uint32_t>(text);
    case OtlpType::kInt64:
    case OtlpType::kSfixed64: return IntegerBits<int64_t>(text);
    case OtlpType::kUint64:
    case OtlpType::kFixed64: return IntegerBits<uint64_t>(text);
    default: return DoubleBits(text);
  }
}

bool FromHex(std::string_view text, std::string& out) {
  out.clear();
  if (text.size() % 2 != 0) return false;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexDigit(text[i]), low = HexDigit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    out += static_cast<char>(high << 4 | low);
  }
  return true;
}

int Base64Digit(char c) noexcept {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

bool FromBase64(std::string_view text, std::string& out) {
  out.clear();
  const size_t full = text.size();
  while (text.ends_with('=')) text.remove_suffix(1);
  if (full - text.size() > 2 || (full != text.size() && full % 4 != 0) || text.size() % 4 == 1) return false;
  uint32_t group = 0;
  int bits = 0;
  for (char c : text) {
    const int digit = Base64Digit(c);
    if (digit < 0) return false;
    group = (group << 6 | static_cast<uint32_t>(digit)) & 0xFFFF;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out += static_cast<char>(group >> bits & 0xFF);
  }
  return true;
}

class Reader {
 public:
  Reader(std::string_view json, size_t most, std::string& out)
      : scan_(json, 2 * kOtlpMostDepth), most_(most), out_(out) {}

  Status Read(OtlpMessage message) {
    if (Object(message, 1) && !scan_.AtEnd()) scan_.Fail("unexpected data after the end");
    if (!scan_.failed()) return Ok();
    return {scan_.code(), "not OTLP in JSON, byte " + std::to_string(scan_.at()) + ": " + scan_.what()};
  }

 private:
  bool Fits() { return out_.size() <= most_ || scan_.Fail("larger than the limit", Code::kExhausted); }

  void Tag(const OtlpField& field, OtlpWire wire) {
    protozero::add_varint_to_buffer(&out_, field.number << 3 | static_cast<uint32_t>(wire));
  }
  // The length of what is inside is known at its end; nearly always it takes one byte.
  size_t Open(const OtlpField& field) {
    Tag(field, OtlpWire::kDelimited);
    out_ += '\0';
    return out_.size();
  }
  void Close(size_t begin) {
    std::array<char, 10> varint;
    size_t length = out_.size() - begin, digits = 0;
    for (; length >= 0x80; length >>= 7) varint[digits++] = static_cast<char>(length | 0x80);
    out_[begin - 1] = digits == 0 ? static_cast<char>(length) : varint[0];
    if (digits == 0) return;
    varint[digits++] = static_cast<char>(length);
    out_.insert(begin, varint.data() + 1, digits - 1);
  }

  bool Object(OtlpMessage message, size_t depth) {
    if (scan_.Peek() != JsonScanner::kObject) return scan_.Fail("expected an object");
    if (depth > kOtlpMostDepth) return scan_.Fail("nested too deep", Code::kExhausted);
    if (!scan_.Enter()) return false;
    std::string_view key;
    for (bool begun = false; scan_.NextMember(begun, key);) {
      const OtlpField* field = FindOtlpField(message, key);
      if (!(field ? Field(*field, depth) : scan_.Skip())) return false;
    }
    return !scan_.failed();
  }

  bool Field(const OtlpField& field, size_t depth) {
    if (scan_.Peek() == JsonScanner::kNull) return scan_.Word();
    if (!field.repeated) return Value(field, depth);
    if (scan_.Peek() != JsonScanner::kArray) return scan_.Fail("expected an array");
    if (!scan_.Enter()) return false;
    const bool packed = WireOf(field.type) != OtlpWire::kDelimited;
    const size_t before = out_.size(), begin = packed ? Open(field) : 0;
    for (bool begun = false; scan_.NextItem(begun);) {
      if (!(packed ? Number(field, true) : Value(field, depth))) return false;
    }
    if (packed && out_.size() == begin) out_.resize(before);
    else if (packed) Close(begin);
    return !scan_.failed();
  }

  bool Value(const OtlpField& field, size_t depth) {
    if (WireOf(field.type) != OtlpWire::kDelimited) return Number(field, false);
    if (field.type == OtlpType::kMessage) {
      const size_t begin = Open(field);
      if (!Object(field.message, depth + 1)) return false;
      Close(begin);
      return Fits();
    }
    std::string_view text;
    if (!scan_.String(text)) return false;
    if (field.type == OtlpType::kHexBytes) {
      if (!FromHex(text, decoded_)) return scan_.Fail("not a hexadecimal id");
      text = decoded_;
    } else if (field.type == OtlpType::kBytes) {
      if (!FromBase64(text, decoded_)) return scan_.Fail("not base64");
      text = decoded_;
    }
    if (text.empty() && field.oneof == 0 && !field.repeated) return true;
    Tag(field, OtlpWire::kDelimited);
    protozero::add_varint_to_buffer(&out_, text.size());
    out_ += text;
    return Fits();
  }

  // `bare`: one of a packed list.
  bool Number(const OtlpField& field, bool bare) {
    std::optional<uint64_t> bits;
    std::string_view text;
    const JsonScanner::Kind kind = scan_.Peek();
    if (field.type == OtlpType::kBool) {
      if (kind != JsonScanner::kTrue && kind != JsonScanner::kFalse)
        return scan_.Fail("expected true or false");
      if (!scan_.Word()) return false;
      bits = kind == JsonScanner::kTrue;
    } else {
      if (!(kind == JsonScanner::kString ? scan_.String(text) : scan_.Number(text))) return false;
      bits = Bits(field, text);
      // Another version's name: as a field that we do not know.
      if (!bits && field.type == OtlpType::kEnum && kind == JsonScanner::kString) return true;
      if (!bits) return scan_.Fail("a number that does not fit");
    }
    if (*bits == 0 && field.oneof == 0 && !bare) return true;
    const OtlpWire wire = WireOf(field.type);
    if (!bare) Tag(field, wire);
    if (wire == OtlpWire::kVarint) protozero::add_varint_to_buffer(&out_, *bits);
    else out_.append(reinterpret_cast<const char*>(&*bits), wire == OtlpWire::kFixed32 ? 4 : 8);
    return Fits();
  }

  JsonScanner scan_;
  const size_t most_;
  std::string& out_;
  std::string decoded_;
};

}  // namespace

Status OtlpFromJson(OtlpMessage message, std::string_view json, size_t most_bytes, std::string& out) {
  out.clear();
  if (!IsUtf8(json)) return {Code::kDataLoss, "not OTLP in JSON: not UTF-8"};
  Status status = Reader(json, most_bytes, out).Read(message);
  if (!status) out.clear();
  return status;
}

}  // namespace gpulens
