#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/otlp/otlp_json.h"

// The first byte selects the message that the others are. Output in JSON is read back, and further round
// trips change nothing.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  if (size == 0) return 0;
  const auto message = static_cast<OtlpMessage>(data[0] % 7);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  std::string json, first, again, second;
  if (!OtlpToJson(message, bytes, json).ok()) return 0;
  CHECK(json.size() <= 16 * bytes.size() + 2);
  CHECK(OtlpFromJson(message, json, SIZE_MAX, first).ok());
  CHECK(OtlpToJson(message, first, again).ok());
  CHECK(OtlpFromJson(message, again, SIZE_MAX, second).ok());
  CHECK(first == second);
  return 0;
}
