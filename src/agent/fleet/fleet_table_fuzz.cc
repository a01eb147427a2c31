// Fuzzes the table of nodes: any bytes, also those that receivers would refuse.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/fleet/fleet_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  ManualClock clock;
  FleetTable table(clock);
  table.Configure({.nodes = 2});
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (int i = 0; i < 2; ++i) {
    table.Observe(OtlpSignal::kMetrics, bytes);
    clock.Advance(std::chrono::seconds(15));
  }
  table.Read([](const auto& nodes, const auto&, int64_t now_ms) {
    if (nodes.size() > 2) std::abort();
    for (const FleetNode& node : nodes) {
      if (node.gpus.size() > FleetTable::kMostGpus || node.engines.size() > FleetTable::kMostEngines ||
          node.newest_ms > now_ms + 60'000 || node.instance.size() > FleetTable::kMostText)
        std::abort();
    }
  });
  return 0;
}
