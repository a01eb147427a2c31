// Any value of the variables gives a list without control bytes, or an error.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "sdk/export/otlp_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = gpulens::sdk::ParseKeyValues(text);
  if (!read) {
    CHECK(read.status().code == gpulens::Code::kInvalidArgument && !read.status().detail.empty());
    return 0;
  }
  CHECK((*read).size() <= 128);
  for (const auto& [key, value] : *read) {
    CHECK(!key.empty());
    for (const std::string* word : {&key, &value}) {
      for (char c : *word) CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    }
  }
  return 0;
}
