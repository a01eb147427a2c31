#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/otlp/otlp_json.h"

// The first byte selects the message that the others are. Accepted input becomes OTLP of a bounded size,
// which can be written as JSON again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  if (size == 0) return 0;
  const auto message = static_cast<OtlpMessage>(data[0] % 7);
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string protobuf, json, again;
  if (!OtlpFromJson(message, text, 4096, protobuf).ok()) {
    CHECK(protobuf.empty());
    return 0;
  }
  CHECK(protobuf.size() <= 4096);
  // Duplicate keys are messages in pieces, which have a limit.
  const Status status = OtlpToJson(message, protobuf, json);
  CHECK(status.ok() || status.code == Code::kExhausted);
  if (!status.ok()) return 0;
  CHECK(OtlpFromJson(message, json, SIZE_MAX, protobuf).ok());
  CHECK(OtlpToJson(message, protobuf, again).ok());
  CHECK(again == json);
  return 0;
}
