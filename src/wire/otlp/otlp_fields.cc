#include "wire/otlp/otlp_fields.h"

#include <bit>
#include <protozero/pbf_writer.hpp>
#include <variant>

#include "base/text.h"

namespace gpulens::otlp {
namespace {

constexpr uint32_t kLengthDelimited = 2;
static_assert(std::endian::native == std::endian::little, "fixed fields are copied as they lie in memory");

void AppendAnyValue(std::string& out, const AttributeSet::Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return AppendText(out, kString, *text);
  if (const auto* yes = std::get_if<bool>(&value)) return AppendNumber(out, kBool, *yes ? 1 : 0);
  if (const auto* whole = std::get_if<int64_t>(&value))
    return AppendNumber(out, kInt, static_cast<uint64_t>(*whole));
  AppendFixed(out, kDouble, std::get<double>(value));
}

}  // namespace

void AppendNumber(std::string& out, uint32_t field, uint64_t value) {
  protozero::pbf_writer(out).add_uint64(field, value);
}

void AppendFixed(std::string& out, uint32_t field, uint64_t value) {
  protozero::pbf_writer(out).add_fixed64(field, value);
}

void AppendFixed(std::string& out, uint32_t field, double value) {
  protozero::pbf_writer(out).add_double(field, value);
}

void AppendBytes(std::string& out, uint32_t field, std::string_view bytes) {
  protozero::pbf_writer(out).add_bytes(field, bytes.data(), bytes.size());
}

void AppendText(std::string& out, uint32_t field, std::string_view text) {
  std::string room;
  AppendBytes(out, field, ValidUtf8(text, room));
}

void AppendAttribute(std::string& out, uint32_t field, std::string_view key,
                     const AttributeSet::Value& value) {
  std::string any, pair;
  AppendAnyValue(any, value);
  AppendText(pair, kKey, key);
  AppendBytes(pair, kValue, any);
  AppendBytes(out, field, pair);
}

void AppendAttributes(std::string& out, uint32_t field, const AttributeSet& attributes) {
  for (auto [key, value] : attributes) AppendAttribute(out, field, key, value);
}

size_t Nesting::Open(uint32_t field) {
  protozero::add_varint_to_buffer(&out_, field << 3 | uint32_t{kLengthDelimited});
  out_.append(kLengthBytes, '\0');
  return out_.size() - kLengthBytes;
}

void Nesting::Close(size_t length_at) noexcept {
  size_t size = out_.size() - length_at - kLengthBytes;
  char* at = out_.data() + length_at;
  for (size_t i = 0; i + 1 < kLengthBytes; ++i, size >>= 7) at[i] = static_cast<char>(size | 0x80);
  at[kLengthBytes - 1] = static_cast<char>(size & 0x7f);
}

}  // namespace gpulens::otlp
