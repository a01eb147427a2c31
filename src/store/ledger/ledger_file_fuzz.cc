// The file of a ledger, made to harm: reading it ends, within bounds, and changes nothing; sums are
// those of its entries; the agent's writer adds to it or sets it aside. Its input:
// store/sqlite/hostile_file_testing.h. Fuzz inputs: 1'000
// Fuzz inputs: 200
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "store/ledger/ledger_file.h"
#include "store/ledger/ledger_testing.h"
#include "store/sqlite/hostile_file_testing.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

using namespace gpulens;
using namespace gpulens::ledger;

constexpr TestShape kShape{.gpus = 1, .accounts = 3, .hours = 26};
constexpr Instant kNow{.boot_ns = 1, .unix_ns = (kTestHour + 30 * 3600) * 1'000'000'000};

sqlite::HostileFile& File() {
  static sqlite::HostileFile file("ledger.db", [](const std::string& path) {
    auto writer = LedgerFile::Open({.path = path});
    return writer.ok() && (*writer)->Write(TestEntries(kShape), LedgerState(), kNow).ok();
  });
  return file;
}

// In a file that only statements have made, indexes are in order.
void CheckRows(const Result<std::vector<SumRow>>& rows, size_t keys, bool whole) {
  File().CheckError(rows.status());
  if (!rows) return;
  for (const SumRow& row : *rows) {
    CHECK(row.key.size() == keys);
    if (whole && &row != &rows->front()) CHECK((&row)[-1].key < row.key);
  }
}

void Read(bool whole) {
  auto file =
      LedgerFile::Open({.path = File().path(), .read_only = true, .longest = std::chrono::milliseconds(20)});
  File().CheckError(file.status());
  if (!file) return;
  File().CheckError((*file)->ReadState().status());
  File().CheckError((*file)->WrittenUnixNs().status());
  File().CheckError((*file)->Hours(kTestHour, kTestHour + 86'400).status());
  CheckRows((*file)->Sum({.by = {Dimension::kTenant, Dimension::kDay}}), 2, whole);
  CheckRows((*file)->Sum({.by = {Dimension::kHour}, .where = {{Dimension::kGpu, "GPU-00000000"}}}), 1, whole);
  Totals entries;
  const Status each = (*file)->ForEach(INT64_MIN, INT64_MAX, [&](const HourEntry& entry) {
    CHECK(entry.account);
    entries += entry.amounts;
    CHECK(!DayText(entry.hour_unix).empty());
    return Ok();
  });
  File().CheckError(each);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  return File().Mutate(data, size, most, seed, &LLVMFuzzerMutate);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const bool whole = File().Write({reinterpret_cast<const char*>(data), size});
  const std::string before = File().Bytes();
  Read(whole);
  CHECK(File().Bytes() == before);
  File().CheckNames({});
  {
    auto writer = LedgerFile::Open({.path = File().path(), .longest = std::chrono::milliseconds(20)});
    File().CheckError(writer.status());
    if (writer) {
      const Entry entry =
          TestEntries({.gpus = 1, .accounts = 2, .first_hour_unix = kTestHour + 36'000}).back();
      const Status written = (*writer)->Write({&entry, 1}, LedgerState(), kNow);
      File().CheckError(written);
      File().CheckError((*writer)->WrittenUnixNs().status());
      // It alone writes.
      CHECK(LedgerFile::Open({.path = File().path()}).status().code == Code::kUnavailable);
    }
  }
  File().CheckNames({".broken", ".lock"});
  sqlite::HostileFile::CheckMemory();
  return 0;
}
