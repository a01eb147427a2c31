// A hostile NVML reader process: whatever its messages are, in whatever order, the table of GPUs, their
// slices, processes and events stay within their bounds, and nothing is from the future. See
// reader/hostile_reader_testing.h.
// Fuzz inputs: 500
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "reader/hostile_reader_testing.h"
#include "sources/nvml/nvml_source.h"

namespace {

using namespace gpulens;

void CheckGpus(const nvml::GpuVendorState& state, const reader::HostileReader& hostile) {
  const int64_t now = hostile.now().boot_ns;
  CHECK(state.gpus().size() == hostile.table().devices().size());
  for (const nvml::Gpu& gpu : state.gpus()) {
    CHECK(gpu.processes.size() <= nvml::kMaxProcesses && gpu.slices.shares.size() <= nvml::kMaxProcesses);
    CHECK(gpu.processes_boot_ns >= 0 && gpu.processes_boot_ns <= now);
    CHECK(gpu.slices.shares_boot_ns >= 0 && gpu.slices.shares_boot_ns <= now);
    // One list of each kind.
    CHECK(gpu.slices.list.size() <= 2 * nvml::kMaxSlices);
    const auto same = [](const nvml::GpuSlice& a, const nvml::GpuSlice& b) { return a.key == b.key; };
    CHECK(std::adjacent_find(gpu.slices.list.begin(), gpu.slices.list.end(), same) == gpu.slices.list.end());
    for (const nvml::GpuSlice& slice : gpu.slices.list) {
      CHECK(slice.key.kind != nvml::SliceKind::kWhole && slice.facts.size() <= nvml::kMaxSliceFacts);
      for (const auto& value : slice.values) CHECK(value.boot_ns >= 0 && value.boot_ns <= now);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  reader::InputBytes in({data, size});
  nvml::GpuVendorState state;
  reader::HostileReader hostile(nvml::NvmlVendor(), state);
  std::vector<nvml::DeviceEvent> events;
  uint64_t taken = 0;
  for (int steps = 0; !in.empty() && steps < 64; ++steps) {
    hostile.Step(in);
    hostile.CheckTable();
    CheckGpus(state, hostile);
    if (steps % 8 != 0) continue;
    state.TakeEvents(events);
    taken += events.size();
    CHECK(taken + state.events_dropped() == state.events());  // each once, or counted
    for (const nvml::DeviceEvent& event : events)
      CHECK(event.boot_ns >= 0 && event.boot_ns <= hostile.now().boot_ns);
  }
  return 0;
}
