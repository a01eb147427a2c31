// Replies of a reader process of pages, true and broken: exposition_testing::TryReplies describes the input.
// Fuzz inputs: 20'000 (each reads several pages)
#include "wire/exposition/page_reply_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gpulens::exposition_testing::TryReplies({reinterpret_cast<const char*>(data), size});
  return 0;
}
