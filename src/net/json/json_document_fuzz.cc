// Whatever comes: no crash, bounded memory, and what is found was there.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/json/json_document.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto document = gpulens::JsonDocument::Parse(text);
  if (!document.ok()) return 0;
  size_t models = document->Size("/data");
  CHECK(models <= size);
  for (size_t i = 0; i < models && i < 4; ++i) {
    auto id = document->Text("/data/" + std::to_string(i) + "/id");
    if (id) CHECK(id->size() <= size * 4);
  }
  static_cast<void>(document->Number("/version"));
  return 0;
}
