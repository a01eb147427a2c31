#include "wire/otlp/otlp_json.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/check.h"
#include "base/json.h"
#include "base/number_text.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr size_t kMostFields = 16, kMostOneofs = 4;

// Thrown and caught in this file alone, like the exceptions of protozero.
struct TooMuch {
  const char* what;
};

// protozero's name of it.
constexpr pbf_wire_type WireTypeOf(OtlpType type) noexcept {
  return static_cast<pbf_wire_type>(WireOf(type));
}

// Fields of another wire type are as unknown ones.
bool Fits(const OtlpField& field, pbf_wire_type type) noexcept {
  return type == WireTypeOf(field.type) || (field.repeated && type == pbf_wire_type::length_delimited);
}

template <class T>
void AppendNumberText(std::string& out, T value) {
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof text, value);
  CHECK(error == std::errc{});
  out.append(text, static_cast<size_t>(end - text));
}

template <class T>
void AppendQuoted(std::string& out, T value) {
  out += '"';
  AppendNumberText(out, value);
  out += '"';
}

void AppendDouble(std::string& out, double value) {
  if (std::isnan(value)) out += "\"NaN\"";
  else if (std::isinf(value)) out += value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  else AppendNumberText(out, value);
}

class OtlpJsonWriter {
 public:
  OtlpJsonWriter(std::string& out, size_t protobuf_bytes) : out_(out), merges_left_(protobuf_bytes) {}

  void Object(OtlpMessage message, std::string_view bytes, size_t depth) {
    if (depth > kOtlpMostDepth) throw TooMuch{"is nested too deep"};
    const std::span<const OtlpField> fields = OtlpFields(message);
    Found found;
    FindFields(fields, bytes, found);
    out_ += '{';
    bool first = true;
    for (size_t i = 0; i < fields.size(); ++i) {
      if (found.times[i] == 0) continue;
      if (!first) out_ += ',';
      first = false;
      out_ += '"';
      out_ += fields[i].name;
      out_ += "\":";
      if (fields[i].repeated) List(fields[i], bytes, depth);
      else if (fields[i].type != OtlpType::kMessage || found.times[i] == 1)
        Value(fields[i], found.last[i], depth);
      else Merged(fields[i], bytes, found.all[i] - found.times[i], depth);
    }
    out_ += '}';
  }

 private:
  // By field of a message, in the order of its table.
  struct Found {
    std::array<uint32_t, kMostFields> times{}, all{};  // that count; of a oneof: since another one was chosen
    std::array<pbf_reader, kMostFields> last;          // at the last one's value
    std::array<size_t, kMostOneofs> chosen{};          // field + 1
  };

  static void FindFields(std::span<const OtlpField> fields, std::string_view bytes, Found& found) {
    pbf_reader reader(bytes.data(), bytes.size());
    for (; reader.next(); reader.skip()) {
      size_t i = 0;
      while (i < fields.size() && fields[i].number != reader.tag()) ++i;
      if (i == fields.size() || !Fits(fields[i], reader.wire_type())) continue;
      if (fields[i].oneof != 0) {
        size_t& chosen = found.chosen[fields[i].oneof];
        if (chosen != 0 && chosen != i + 1) found.times[chosen - 1] = 0;
        chosen = i + 1;
      }
      ++found.times[i];
      ++found.all[i];
      found.last[i] = reader;
    }
  }

  // Writes a message in several pieces, which is their concatenation.
  void Merged(const OtlpField& field, std::string_view bytes, uint32_t skip, size_t depth) {
    std::string merged;
    pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      const bool is_it = reader.tag() == field.number && Fits(field, reader.wire_type());
      if (!is_it || skip > 0) {
        skip -= is_it ? 1 : 0;
        reader.skip();
        continue;
      }
      const protozero::data_view piece = reader.get_view();
      if (piece.size() > merges_left_) throw TooMuch{"has too many messages in pieces"};
      merges_left_ -= piece.size();
      merged.append(piece.data(), piece.size());
    }
    Object(field.message, merged, depth + 1);
  }

  void List(const OtlpField& field, std::string_view bytes, size_t depth) {
    out_ += '[';
    const size_t start = out_.size();
    pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      if (reader.tag() != field.number || !Fits(field, reader.wire_type())) {
        reader.skip();
        continue;
      }
      if (reader.wire_type() == pbf_wire_type::length_delimited &&
          WireTypeOf(field.type) != reader.wire_type()) {
        Packed(field, reader.get_view(), start);
        continue;
      }
      if (out_.size() != start) out_ += ',';
      Value(field, reader, depth);
    }
    out_ += ']';
  }

  // Writes packed numbers.
  void Packed(const OtlpField& field, protozero::data_view packed, size_t start) {
    const char* at = packed.data();
    const char* const end = at + packed.size();
    while (at != end) {
      if (out_.size() != start) out_ += ',';
      if (WireTypeOf(field.type) == pbf_wire_type::varint) {
        Number(field.type, protozero::decode_varint(&at, end));
        continue;
      }
      const size_t width = WireTypeOf(field.type) == pbf_wire_type::fixed32 ? 4 : 8;
      if (static_cast<size_t>(end - at) < width) throw protozero::end_of_buffer_exception{};
      uint64_t bits = 0;
      std::memcpy(&bits, at, width);
      at += width;
      Number(field.type, bits);
    }
  }

  // Writes the value at the reader and advances it.
  void Value(const OtlpField& field, pbf_reader& reader, size_t depth) {
    switch (WireTypeOf(field.type)) {
      case pbf_wire_type::varint: return Number(field.type, reader.get_uint64());
      case pbf_wire_type::fixed32: return Number(field.type, reader.get_fixed32());
      case pbf_wire_type::fixed64: return Number(field.type, reader.get_fixed64());
      default: break;
    }
    const protozero::data_view view = reader.get_view();
    const std::string_view bytes(view.data(), view.size());
    switch (field.type) {
      case OtlpType::kMessage: return Object(field.message, bytes, depth + 1);
      case OtlpType::kString: return AppendJsonString(out_, bytes);
      default: break;
    }
    out_ += '"';
    if (field.type == OtlpType::kBytes) AppendBase64(out_, bytes);
    else AppendHex(out_, bytes);
    out_ += '"';
  }

  void Number(OtlpType type, uint64_t bits) {
    switch (type) {
      case OtlpType::kBool: out_ += bits != 0 ? "true" : "false"; return;
      case OtlpType::kEnum:
      case OtlpType::kInt32: return AppendNumberText(out_, static_cast<int32_t>(bits));
      case OtlpType::kSint32:
        return AppendNumberText(out_, protozero::decode_zigzag32(static_cast<uint32_t>(bits)));
      case OtlpType::kUint32:
      case OtlpType::kFixed32: return AppendNumberText(out_, static_cast<uint32_t>(bits));
      case OtlpType::kInt64:
      case OtlpType::kSfixed64: return AppendQuoted(out_, static_cast<int64_t>(bits));
      case OtlpType::kUint64:
      case OtlpType::kFixed64: return AppendQuoted(out_, bits);
      default: return AppendDouble(out_, std::bit_cast<double>(bits));
    }
  }

  std::string& out_;
  size_t merges_left_;
};

}  // namespace

Status OtlpToJson(OtlpMessage message, std::string_view protobuf, std::string& out) {
  out.clear();
  try {
    OtlpJsonWriter(out, protobuf.size()).Object(message, protobuf, 1);
    return Ok();
  } catch (const protozero::exception& error) {
    out.clear();
    return {Code::kDataLoss, std::string("no OTLP: ") + error.what()};
  } catch (const TooMuch& error) {
    out.clear();
    return {Code::kExhausted, std::string("the OTLP message ") + error.what};
  }
}

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

class OtlpJsonReader {
 public:
  OtlpJsonReader(std::string_view json, size_t most, std::string& out)
      : scan_(json, 2 * kOtlpMostDepth), most_(most), out_(out) {}

  Status Read(OtlpMessage message) {
    if (Object(message, 1) && !scan_.AtEnd()) scan_.Fail("unexpected data after the end");
    if (!scan_.failed()) return Ok();
    return {scan_.code(), "not OTLP in JSON, byte " + std::to_string(scan_.at()) + ": " + scan_.what()};
  }

 private:
  bool Fits() { return out_.size() <= most_ || scan_.Fail("larger than the limit", Code::kExhausted); }

  void Tag(const OtlpField& field, WireType wire) {
    protozero::add_varint_to_buffer(&out_, field.number << 3 | static_cast<uint32_t>(wire));
  }
  // The length of what is inside is known at its end; nearly always it takes one byte.
  size_t Open(const OtlpField& field) {
    Tag(field, WireType::kBytes);
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
    const bool packed = WireOf(field.type) != WireType::kBytes;
    const size_t before = out_.size(), begin = packed ? Open(field) : 0;
    for (bool begun = false; scan_.NextItem(begun);) {
      if (!(packed ? Number(field, true) : Value(field, depth))) return false;
    }
    if (packed && out_.size() == begin) out_.resize(before);
    else if (packed) Close(begin);
    return !scan_.failed();
  }

  bool Value(const OtlpField& field, size_t depth) {
    if (WireOf(field.type) != WireType::kBytes) return Number(field, false);
    if (field.type == OtlpType::kMessage) {
      const size_t begin = Open(field);
      if (!Object(field.message, depth + 1)) return false;
      Close(begin);
      return Fits();
    }
    std::string_view text;
    if (!scan_.String(text)) return false;
    if (field.type == OtlpType::kHexBytes) {
      decoded_.resize(text.size() / 2);
      if (!FromHex(text, decoded_.data(), decoded_.size())) return scan_.Fail("not a hexadecimal id");
      text = decoded_;
    } else if (field.type == OtlpType::kBytes) {
      if (!FromBase64(text, decoded_)) return scan_.Fail("not base64");
      text = decoded_;
    }
    if (text.empty() && field.oneof == 0 && !field.repeated) return true;
    Tag(field, WireType::kBytes);
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
    const WireType wire = WireOf(field.type);
    if (!bare) Tag(field, wire);
    if (wire == WireType::kVarint) protozero::add_varint_to_buffer(&out_, *bits);
    else out_.append(reinterpret_cast<const char*>(&*bits), wire == WireType::kFixed32 ? 4 : 8);
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
  Status status = OtlpJsonReader(json, most_bytes, out).Read(message);
  if (!status) out.clear();
  return status;
}

namespace otlp {
namespace {

// Finds the field of the oneof that is set: the last one. False: malformed, or no field is set.
bool ReadAnyValue(std::string_view message, ProtoField& out) noexcept {
  ProtoCursor cursor(message);
  ProtoField field;
  bool set = false;
  while (cursor.Next(field)) {
    const OtlpField* known = FindOtlpField(OtlpMessage::kAnyValue, field.number);
    if (!known) continue;
    if (field.wire != WireOf(known->type)) return false;
    out = field;
    set = true;
  }
  return set && !cursor.broken();
}

class ValueWriter {
 public:
  ValueWriter(std::string& out, ValueStyle style) : out_(out), label_(style == ValueStyle::kLabel) {}

  // `quoted`: as JSON, which puts text and bytes in quotes.
  bool Value(const ProtoField& value, int depth, bool quoted) {
    switch (value.number) {
      case kString: AppendJsonString(out_, value.bytes); return true;
      case kBool: out_ += value.value != 0 ? "true" : "false"; return true;
      case kInt: AppendNumberText(out_, static_cast<int64_t>(value.value)); return true;
      case kDouble: Double(AsFixed<double>(value.bytes)); return true;
      case kArray:
      case kKeyValues: return List(value, depth);
      default: break;
    }
    if (!label_) return false;
    if (quoted) out_ += '"';
    AppendBase64(out_, value.bytes);
    if (quoted) out_ += '"';
    return true;
  }

 private:
  void Double(double value) {
    char text[kNumberBytes];
    if (!label_) out_.append(text, WriteNumber(text, value));
    else if (std::isinf(value)) out_ += value > 0 ? "Infinity" : "-Infinity";
    else if (std::isnan(value)) out_ += "NaN";
    else AppendNumberText(out_, value);
  }

  bool Element(std::string_view any_value, int depth) {
    ProtoField field;
    if (ReadAnyValue(any_value, field)) return Value(field, depth, true);
    if (label_) out_ += "null";
    return label_;
  }

  bool List(const ProtoField& list, int depth) {
    if (depth == 0) return false;
    const bool object = list.number == kKeyValues;
    out_ += object ? '{' : '[';
    ProtoCursor cursor(list.bytes);
    ProtoField element;
    for (bool first = true; cursor.Next(element);) {
      if (element.number != kListElement) continue;
      if (element.wire != WireType::kBytes) return false;
      if (!first) out_ += ',';
      first = false;
      KeyValueView pair{{}, element.bytes};
      if (object) {
        if (!ReadKeyValue(element.bytes, pair)) return false;
        AppendJsonString(out_, pair.key);
        out_ += ':';
      }
      if (!Element(pair.value, depth - 1)) return false;
    }
    out_ += object ? '}' : ']';
    return !cursor.broken();
  }

  std::string& out_;
  const bool label_;
};

}  // namespace

bool ReadKeyValue(std::string_view message, KeyValueView& out) noexcept {
  ProtoCursor cursor(message);
  ProtoField field;
  out = {};
  while (cursor.Next(field)) {
    if (field.number != kKey && field.number != kValue) continue;
    if (field.wire != WireType::kBytes) return false;
    (field.number == kKey ? out.key : out.value) = field.bytes;
  }
  return !cursor.broken();
}

bool ValueText(std::string_view any_value, ValueStyle style, std::string& room, std::string_view& out) {
  ProtoField field;
  if (!ReadAnyValue(any_value, field)) return false;
  if (field.number == kString) return out = field.bytes, true;
  room.clear();
  if (!ValueWriter(room, style).Value(field, kDeepest, false)) return false;
  return out = room, true;
}

}  // namespace otlp

}  // namespace gpulens
