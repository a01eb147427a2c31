// Whatever comes: no crash, bounded memory, and what is found was there.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"

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
  const auto names = document->Names("");
  CHECK(!names || names->size() <= size);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    // Found again by its pointer, where it needs no escapes.
    if (name.find_first_of("~/") != std::string::npos) continue;
    const std::string pointer = "/" + name;
    CHECK(!document->IsNull(pointer) || !document->Truth(pointer));
    CHECK(!document->Truth(pointer) || !document->Integer(pointer));
    CHECK(!document->Integer(pointer) || document->Number(pointer));
  }
  return 0;
}
