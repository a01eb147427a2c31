// Facts of the AMD GPUs that the simulated library can show. Round figures of real boards; nothing here is
// used when a real library is read.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpulens::amdsmi {

struct FakeModel {
  std::string_view key, name, vbios;
  unsigned target;  // gfx942 as the kernel numbers it: 90402
  unsigned device_id, compute_units;
  uint64_t vram_mib, visible_mib;
  unsigned idle_w, cap_w, min_cap_w;
  unsigned idle_clock, max_clock, memory_clock, soc_clock, fabric_clock;  // MHz
  unsigned idle_temperature, busy_temperature;                            // Cel, of the hotspot
  unsigned pcie_generation, pcie_width;
  unsigned links, stacks, vcn, jpeg;
  uint64_t ecc_blocks;  // Bits of those with RAS on.
  bool edge, fan, current_power, partitions, residency;
};

// Null when there is no such model ("MI300X").
const FakeModel* FindFakeModel(std::string_view key) noexcept;
// "MI250X, …" for messages.
std::string_view FakeModelNames() noexcept;

}  // namespace gpulens::amdsmi
