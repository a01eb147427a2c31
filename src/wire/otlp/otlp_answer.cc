#include "wire/otlp/otlp_answer.h"

#include <algorithm>
#include <protozero/pbf_reader.hpp>

#include "base/text.h"

namespace gpulens {
namespace {

constexpr uint32_t kPartialSuccess = 1, kRejected = 1, kErrorMessage = 2, kStatusMessage = 2;
constexpr size_t kLongestMessage = 500;

std::string Message(protozero::data_view bytes) {
  std::string text;
  AppendPrintable(text, std::string_view(bytes.data(), std::min(bytes.size(), kLongestMessage)));
  if (text.size() > kLongestMessage) text.resize(kLongestMessage);
  return text;
}

OtlpPartialSuccess ReadPartial(protozero::pbf_reader reader) {
  OtlpPartialSuccess partial;
  while (reader.next()) {
    if (reader.tag() == kRejected && reader.wire_type() == protozero::pbf_wire_type::varint) {
      partial.rejected = std::max<int64_t>(0, reader.get_int64());
    } else if (reader.tag() == kErrorMessage &&
               reader.wire_type() == protozero::pbf_wire_type::length_delimited) {
      partial.message = Message(reader.get_view());
    } else {
      reader.skip();
    }
  }
  return partial;
}

}  // namespace

std::optional<OtlpPartialSuccess> ReadOtlpAnswer(std::string_view bytes) {
  OtlpPartialSuccess partial;
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      const bool message = reader.wire_type() == protozero::pbf_wire_type::length_delimited;
      if (reader.tag() == kPartialSuccess && message) partial = ReadPartial(reader.get_message());
      else reader.skip();
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return partial;
}

std::string ReadOtlpError(std::string_view bytes) {
  try {
    protozero::pbf_reader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      const bool message = reader.wire_type() == protozero::pbf_wire_type::length_delimited;
      if (reader.tag() == kStatusMessage && message) return Message(reader.get_view());
      reader.skip();
    }
  } catch (const protozero::exception&) {
    return {};
  }
  return {};
}

}  // namespace gpulens
