#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "wire/otlp/otlp_answer.h"

// Whatever a receiver answers is read or refused, and what is shown of it can be shown.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (auto partial = gpulens::ReadOtlpAnswer(bytes)) {
    CHECK(partial->rejected >= 0 && partial->message.size() <= 500);
    CHECK(gpulens::IsUtf8(partial->message));
  }
  CHECK(gpulens::ReadOtlpError(bytes).size() <= 500);
  return 0;
}
