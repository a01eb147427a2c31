// A file of keys is written by hand. What is accepted is within the limits, and each key is read back from
// its own line; no text is a valid key of another's file.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "proxy/admission/keys.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::proxy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = KeyTable::Parse(text, "f");
  if (!table) {
    CHECK(table.error().detail.starts_with("f:"));
    CHECK(KeyTable().Verify(text, 0).outcome == KeyOutcome::kUnknown);
    return 0;
  }
  for (const VirtualKey& key : table->keys()) {
    CHECK(!key.id.empty() && key.id.size() <= 32 && !key.tenant.empty() && table->Find(key.id) == &key);
    for (const VirtualKey::OwnBudget& budget : key.own_budgets) {
      CHECK(budget.limit_pico >= 0 && budget.limit_pico <= kMostLimitPico);
      const int64_t start = budget.window.StartOf(1'790'000'000'000'000'000);
      CHECK(budget.window.EndOf(start) > start);
    }
    const auto again = KeyTable::Parse(std::string(kKeyColumns) + "\n" + KeyLine(key), "f");
    CHECK(again && again->keys().size() == 1 && again->keys()[0] == key);
    CHECK(table->Verify("gpl_" + key.id + "_" + std::string(43, 'A'), 0).outcome == KeyOutcome::kUnknown);
  }
  return 0;
}
