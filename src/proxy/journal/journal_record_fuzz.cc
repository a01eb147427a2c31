// Any bytes as the body of a record of the journal: what is decoded is encoded again to the same bytes,
// within its limits.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "proxy/journal/journal_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto head = HeadOfEntry(body);
  const auto entry = DecodeEntry(body);
  if (!entry) return 0;
  CHECK(head.has_value() && head->kind == entry->kind);
  if (entry->kind == JournalKind::kProgress) {
    CHECK(head->id == entry->progress.id);
    CHECK(EncodeEntry(entry->progress) == body);
    return 0;
  }
  CHECK(head->id == entry->record.id);
  CHECK(EncodeEntry(entry->kind, entry->record) == body);
  CHECK(entry->record.attempts.size() <= kMostAttempts && entry->record.budgets.size() <= kMostBudgets);
  CHECK(entry->record.model_requested.size() <= kMostChargeText);
  return 0;
}
