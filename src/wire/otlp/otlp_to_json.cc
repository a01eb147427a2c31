#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "base/check.h"
#include "base/text.h"
#include "wire/otlp/otlp_json.h"

namespace gpulens {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr size_t kMostFields = 16, kMostOneofs = 4;
constexpr char kHex[] = "0123456789abcdef";
constexpr char kBase64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// Thrown and caught in this file alone, as what protozero throws is.
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

void AppendBase64(std::string& out, std::string_view bytes) {
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t here = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < here ? static_cast<uint8_t>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= here ? kBase64[group >> (18 - 6 * k) & 63] : '=';
  }
}

class Walk {
 public:
  Walk(std::string& out, size_t protobuf_bytes) : out_(out), merges_left_(protobuf_bytes) {}

  void Object(OtlpMessage message, std::string_view bytes, size_t depth) {
    if (depth > kOtlpMostDepth) throw TooMuch{"is nested too deep"};
    const std::span<const OtlpField> fields = OtlpFields(message);
    Found found;
    Look(fields, bytes, found);
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
    std::array<pbf_reader, kMostFields> last;          // stands at the last one's value
    std::array<size_t, kMostOneofs> chosen{};          // field + 1
  };

  static void Look(std::span<const OtlpField> fields, std::string_view bytes, Found& found) {
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

  // A message in several pieces is what they make behind one another.
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

  // Numbers behind one another without tags.
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

  // The value at which the reader stands, which then stands behind it.
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
    if (field.type == OtlpType::kBytes) {
      AppendBase64(out_, bytes);
    } else {
      for (char c : bytes) {
        out_ += kHex[static_cast<uint8_t>(c) >> 4];
        out_ += kHex[c & 15];
      }
    }
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
    Walk(out, protobuf.size()).Object(message, protobuf, 1);
    return Ok();
  } catch (const protozero::exception& error) {
    out.clear();
    return {Code::kDataLoss, std::string("no OTLP: ") + error.what()};
  } catch (const TooMuch& error) {
    out.clear();
    return {Code::kExhausted, std::string("the OTLP message ") + error.what};
  }
}

}  // namespace gpulens
