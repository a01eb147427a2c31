// The page /api/why from a program that is not to be trusted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cli/why/why_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto page = gpulens::ParseWhyPage(text)) {
    if (page->wait_seconds < 0 || page->wait_seconds > 3600) std::abort();
    if (gpulens::WhyText(*page, "x").empty()) std::abort();
  }
  return 0;
}
