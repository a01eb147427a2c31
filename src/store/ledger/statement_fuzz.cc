// Any bytes as a statement: what is accepted has totals that its entries add up to, and is accepted again.
#include "base/check.h"
#include "store/ledger/statement.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::ledger::StatementReader;
  if (size == 0) return 0;
  std::FILE* file = ::fmemopen(const_cast<uint8_t*>(data), size, "r");
  CHECK(file != nullptr);
  StatementReader reader(file);
  gpulens::ledger::Totals sums;
  gpulens::Status status = reader.Begin();
  while (status) {
    auto entry = reader.Next();
    if (!entry) status = entry.error();
    if (!entry || !*entry) break;
    sums += (*entry)->amounts;
  }
  if (status) {
    gpulens::ledger::Totals reported = reader.usage().sums;
    reported += reader.corrections().sums;
    CHECK(reported == sums);
  } else {
    CHECK(status.detail.starts_with("line "));
  }
  std::fclose(file);
  return 0;
}
