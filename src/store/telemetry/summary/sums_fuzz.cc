// Any bytes as a roll-up: what is taken is told again and taken again, and what is not leaves nothing.
#include <cmath>

#include "base/check.h"
#include "store/telemetry/summary/sums.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::telemetry::Sums;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Sums sums;
  std::string empty, again;
  sums.AppendBytes(empty);
  const bool good = sums.MergeBytes(bytes).ok();
  sums.AppendBytes(again);
  if (!good) CHECK(again == empty);
  // A sum of -0 is told as 0, so what was told is compared, not what was given.
  Sums retold;
  std::string reported;
  CHECK(retold.MergeBytes(again).ok());
  retold.AppendBytes(reported);
  CHECK(reported == again);
  const gpulens::InferenceSummary summary = sums.Summary("k");
  const auto& latency = summary.latency_seconds;
  CHECK(latency.n == 0 || (latency.min <= latency.p50 && latency.p50 <= latency.max));
  // Sums of sums may overflow to infinite, but they are sums.
  Sums twice = sums;
  twice.Merge(sums);
  CHECK(twice.Summary("").calls == 2 * summary.calls);
  return 0;
}
