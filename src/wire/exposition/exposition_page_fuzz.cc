// Reads any sequence of pages; after each one the ScrapedPage must equal a fresh parse.
// Input: one byte of format, then pages with a byte 0xFF between them.
// Fuzz inputs: 20'000 (each reads its page several times)
#include <cstdio>
#include <cstdlib>

#include "wire/exposition/exposition_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  if (size == 0) return 0;
  auto format = static_cast<ExpositionFormat>(data[0] % 3);
  ExpositionLimits limits;
  limits.samples = data[0] & 0x80 ? 3 : 100;
  limits.line_bytes = 4096;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  ScrapedPage page(limits);
  for (int pages = 0; pages < 16; ++pages) {
    size_t cut = rest.find('\xFF');
    std::string_view body = rest.substr(0, cut);
    (void)page.Update(body, format);
    std::string difference = exposition_testing::Difference(page, body, format, limits);
    if (!difference.empty()) {
      std::fprintf(stderr, "page %d: %s\n", pages, difference.c_str());
      std::abort();
    }
    // The same page again is the steady path, and must not change anything.
    uint64_t generation = page.generation();
    (void)page.Update(body, format);
    difference = exposition_testing::Difference(page, body, format, limits);
    if (!difference.empty() || page.generation() != generation) {
      std::fprintf(stderr, "page %d again: %s\n", pages, difference.c_str());
      std::abort();
    }
    if (cut == std::string_view::npos) break;
    rest.remove_prefix(cut + 1);
  }
  return 0;
}
