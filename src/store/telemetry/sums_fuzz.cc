// Any bytes as a roll-up: accepted ones are encoded and accepted again, and rejected ones change nothing.
#include <cmath>

#include "base/check.h"
#include "store/telemetry/sums.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::telemetry::CallSums;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CallSums sums;
  std::string empty, again;
  sums.AppendBytes(empty);
  const bool good = sums.MergeBytes(bytes).ok();
  sums.AppendBytes(again);
  if (!good) CHECK(again == empty);
  // A sum of -0 is encoded as 0, so two outputs are compared, not an output with the input.
  CallSums retold;
  std::string reported;
  CHECK(retold.MergeBytes(again).ok());
  retold.AppendBytes(reported);
  CHECK(reported == again);
  const gpulens::InferenceSummary summary = sums.Summary("k");
  const auto& latency = summary.latency_seconds;
  CHECK(latency.n == 0 || (latency.min <= latency.p50 && latency.p50 <= latency.max));
  // Sums of sums may overflow to infinite, but they are sums.
  CallSums twice = sums;
  twice.Merge(sums);
  CHECK(twice.Summary("").calls == 2 * summary.calls);
  return 0;
}
