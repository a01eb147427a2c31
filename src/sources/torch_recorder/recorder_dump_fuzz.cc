// Whatever comes: no crash, bounded memory and time, and what is found in dumps is of these dumps.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "sources/torch_recorder/pickle_json.h"
#include "sources/torch_recorder/recorder_dump.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::torch_recorder;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto json = PickleAsJson(bytes);
  CHECK(!json.ok() || json->size() <= (64u << 10) + 33 * size + 64);
  auto dump = ParseRecorderDump(bytes);
  if (!dump.ok()) return 0;
  CHECK(dump->entries.size() <= size);
  // The same rank, and another one that called half of it.
  RecorderDump half = *dump;
  half.entries.resize(half.entries.size() / 2);
  dump->rank = 0, half.rank = 1;
  const RecorderDump both[]{*std::move(dump), std::move(half)};
  const RecorderFinding finding = FindFirstMismatch(both);
  for (const int rank : finding.culprits) CHECK(rank == 0 || rank == 1);
  for (const int rank : finding.waiting) CHECK(rank == 0 || rank == 1);
  return 0;
}
