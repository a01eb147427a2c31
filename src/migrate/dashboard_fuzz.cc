// Whatever the file is: no crash, and no more text than there was.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "migrate/queries.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::migrate;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  FoundQueries found;
  static_cast<void>(FindInDashboard(text, "f", found).ok());
  static_cast<void>(FindInRules(text, "f", found).ok());
  CHECK(found.queries.size() <= size);
  for (const FoundQuery& query : found.queries) CHECK(query.text.size() <= 3 * size);
  return 0;
}
