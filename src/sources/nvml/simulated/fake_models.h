// Facts of the GPU models that the simulated library can show. Round figures of real boards; nothing
// here is used when a real library is read.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpulens::nvml {

// FakeModel::architecture, as the library numbers them.
inline constexpr unsigned kVolta = 5, kTuring = 6, kAmpere = 7, kAda = 8, kHopper = 9, kBlackwell = 10;

struct FakeModel {
  std::string_view key, name, vbios, inforom;
  unsigned architecture, cc_major, cc_minor;
  unsigned device_id, subsystem_id;
  uint64_t memory_mib, reserved_mib, bar1_mib;
  unsigned bus_width;
  unsigned idle_mw, limit_mw, min_limit_mw;
  unsigned idle_clock, max_clock, memory_clock, video_clock;  // MHz
  unsigned idle_temperature, busy_temperature;                // Cel
  unsigned pcie_gen, pcie_width;
  unsigned links, link_version, link_mb_per_s;
  unsigned fans, idle_state;
  bool mig, coherent;
  bool consumer = false;  // No ECC, no repair of memory, no fabric.
};

// Null when there is no such model ("H100").
const FakeModel* FindFakeModel(std::string_view key) noexcept;
// "A100, H100, …" for messages.
std::string_view FakeModelNames() noexcept;

}  // namespace gpulens::nvml
