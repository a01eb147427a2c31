// Whatever the query is: places are inside of it, and what is written again can be read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "migrate/check.h"
#include "migrate/promql.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::migrate;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto parts = ReadQuery(text);
  if (!parts) return 0;
  for (const Selector& selector : parts->selectors) {
    CHECK(selector.name.end <= size && selector.braces.end <= size && selector.value.end <= size);
    CHECK(selector.name_matcher < static_cast<int>(selector.matchers.size()));
  }
  for (const LabelUse& use : parts->labels) CHECK(use.at.begin < use.at.end && use.at.end <= size);
  for (const Exporter& exporter : AllExporters()) {
    Needs needs;
    const CheckedQuery checked = CheckQuery(exporter, {"f", "t", "p", text, text}, needs);
    if (checked.verdict != Verdict::kChanges || checked.replacement.size() > kMaxQueryBytes) continue;
    const auto again = ReadQuery(checked.replacement);
    CHECK(again || again.error().code == gpulens::Code::kExhausted);  // one pair of parentheses too many
  }
  return 0;
}
