// Exports of providers come from outside. What is accepted has counts and amounts within their limits,
// buckets within what the file covers, and is read the same twice.
#include <cstdlib>

#include "pricing/usage_export.h"

namespace {

using namespace gpulens;
using namespace gpulens::pricing;

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const UsageExportOptions options{.name = "f", .zone_s = 3600};
  const auto read = ReadUsageExport(text, options);
  if (!read) {
    Require(read.error().code == Code::kInvalidArgument || read.error().code == Code::kExhausted);
    Require(read.error().detail.starts_with("f:"));
    return 0;
  }
  Require(read->rows.size() <= kMostUsageRows);
  constexpr Int128 kMost = Int128{1'000'000'000'000'000} * 4 * kPicoPerUsd;
  for (const UsageRow& row : read->rows) {
    Require(row.begin_s <= row.end_s && row.begin_s >= read->begin_s && row.end_s <= read->end_s);
    Require(row.amounts.known != 0 && (row.amounts.known & ~read->known) == 0);
    for (size_t i = 0; i < kUsageMeasures; ++i) {
      const auto measure = static_cast<UsageMeasure>(i);
      const Int128 amount = row.amounts[measure];
      Require(amount <= kMost && amount >= (measure == UsageMeasure::kPico ? -kMost : 0));
      if (!row.amounts.Knows(measure)) Require(amount == 0);
    }
    Require(UsageModelStem(UsageModelStem(row.model)).size() <= row.model.size());
  }
  const auto again = ReadUsageExport(text, options);
  Require(again && again->rows == read->rows);
  return 0;
}
