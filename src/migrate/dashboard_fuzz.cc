// Whatever the file is: no crash, and not more than was there, or, where aliases repeat it, than the limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "migrate/queries.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::migrate;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  FoundQueries found, rules;
  static_cast<void>(FindInDashboard(text, "f", found).ok());
  CHECK(found.queries.size() <= size);
  for (const FoundQuery& query : found.queries) CHECK(query.text.size() <= 3 * size);
  static_cast<void>(FindInRules(text, "f", rules).ok());
  CHECK(rules.queries.size() <= kMaxQueries);
  size_t bytes = 0;
  for (const FoundQuery& query : rules.queries) bytes += query.text.size() + query.legend.size();
  CHECK(bytes <= kMaxRuleTexts);
  return 0;
}
