// What the simulated AMD SMI library shows: GPUs, their load over time, processes, and what goes wrong when.
// Everything is a function of time, so that two runs of one profile show the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "reader/simulated.h"

namespace gpulens::amdsmi {

using reader::FakeRule;
using reader::FakeWhen;

inline constexpr unsigned kMaxFakeGpus = 8;

// A GPU model, in round figures of real boards.
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

// Busy share over time, 0 to 1: level + amplitude × sine. `Integral` is exact, so that energy is the
// integral of power.
struct FakeLoad {
  double At(double seconds) const noexcept;
  double Integral(double seconds) const noexcept;  // From 0.

  double level = 0, amplitude = 0, period = 60, phase = 0;  // Period in s, phase in periods.
};

struct FakeProcess {
  FakeWhen when;
  unsigned pid = 0;  // On all GPUs: pid + index.
  std::string name = "python3";
  double bytes = 0, host_bytes = 0;
  unsigned compute_units = 0;
};

struct FakeErrors {
  FakeWhen when;  // Counts from when.from on.
  unsigned block = 0;
  enum class Type : uint8_t { kCorrectable, kUncorrectable, kDeferred } type = Type::kCorrectable;
  unsigned amount = 1;
};

struct FakePages {
  FakeWhen when;
  unsigned amount = 1;
  bool pending = false;
};

struct FakeThrottle {
  FakeWhen when;
  enum class Cause : uint8_t { kPower, kSocket, kProchot, kMemory, kVr, kCount } cause = Cause::kPower;
};

struct FakeProfile {
  const FakeModel* model = nullptr;
  std::vector<FakeLoad> gpus;
  unsigned major = 26, minor = 2, release = 1;  // Of the library.
  std::string driver_version = "6.14.14";
  std::string compute_partition = "SPX", memory_partition = "NPS1";
  unsigned partitions = 1;           // Of each GPU, from compute_partition.
  double resolution = 15.259;        // uJ in one count of the energy counter.
  double xgmi_share = 0.4;           // Of the full rate, at full load.
  bool millidegrees = false;         // Temperatures as older libraries wrote them.
  bool watts = false;                // Power caps as the host of virtual machines writes them.
  unsigned link_down = ~0U;          // The link that is down, on every GPU.
  std::vector<std::string> missing;  // Symbols that FakeAmdsmiLookup does not find.
  std::vector<FakeProcess> processes;
  std::vector<FakeErrors> ecc;
  std::vector<FakePages> pages;
  std::vector<FakeThrottle> throttles;
  std::vector<FakeRule> errors, hangs;
  std::vector<FakeWhen> lost;  // Every call about the GPU fails as it does when the device is gone.
};

// kInvalidArgument names line and key.
Result<FakeProfile> ParseFakeProfile(const std::string& yaml);

// Eight busy MI300X: what is shown when GPULENS_FAKE_AMDSMI names no file.
std::string_view DefaultProfile() noexcept;

}  // namespace gpulens::amdsmi
