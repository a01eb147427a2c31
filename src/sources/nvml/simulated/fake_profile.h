// What the simulated library shows: GPUs, their load over time, processes, and what goes wrong when.
// Everything is a function of time, so that two runs of one profile show the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/nvml/simulated/fake_models.h"
#include "sources/nvml/simulated/fake_parts.h"

namespace gpulens::nvml {

struct Recording;

inline constexpr unsigned kMaxFakeGpus = 16;

// Busy share over time, 0 to 1. `Integral` is exact, so that energy is the integral of power.
struct FakeLoad {
  enum class Kind : uint8_t { kConstant, kSine, kSteps };
  struct Step {
    double seconds, level;
  };

  double At(double seconds) const noexcept;
  double Integral(double seconds) const noexcept;  // From 0.
  // The mean of the `window` before; of what there is of it near 0.
  double Mean(double seconds, double window) const noexcept;

  Kind kind = Kind::kConstant;
  double level = 0, amplitude = 0, period = 60, phase = 0;  // Sine: period in s, phase in periods.
  std::vector<Step> steps;                                  // Repeated for ever.
};

struct FakeProcess {
  FakeWhen when;
  unsigned pid = 0;  // On all GPUs: pid + index.
  enum class Type : uint8_t { kCompute, kGraphics, kMps } type = Type::kCompute;
  double bytes = 0, swing = 0, period = 60;  // bytes + swing × sine
  unsigned mig_instance = kNoFakeInstance, compute_instance = 0;
  // %; those that are not given follow the load of the GPU.
  unsigned sm = kNoFakeInstance, memory_use = kNoFakeInstance, encoder = 0, decoder = 0;
};

struct FakeFault {
  enum class Counter : uint8_t {
    kEccCorrected,
    kEccUncorrected,
    kRemappedCorrectable,
    kRemappedUncorrectable,
    kRemapPending,
    kRemapFailure,
    kRetiredSingle,
    kRetiredDouble,
    kPcieReplay,
    kLinksDown,
    kLinkReplay,  // On the first link.
    kPcieCorrectable,
    kSramUncorrected,  // The first exceeds the threshold.
    kBanksUsed,        // Banks that have few spare rows left.
    kInforomCorrupt,
    kFabricPending,  // The registration does not come to its end.
    kFabricDegraded,
    kConfidential,  // Confidential computing is on.
    kEncoderSessions,
  } counter = Counter::kEccCorrected;
  FakeWhen when;  // Counts from when.from on.
  unsigned amount = 1;
};

struct FakeRule {
  FakeWhen when;
  std::string call;   // A symbol, or "*" for every call that takes a GPU.
  int code = 0;       // An error: what is answered.
  uint64_t nth = 0;   // Only the nth call, when not 0.
  uint64_t mask = 0;  // A throttle: reasons added.
};

struct FakeGpu {
  FakeLoad load;
  double nvlink_share = 0.5, pcie_share = 0.1;  // Of the full rate, at full load.
  bool mig = false, ecc = true, unified_only = false;
  unsigned fans = 0;
  unsigned board = 0;  // Which board it is: uuid, serial number and bus address follow it, not the index.
};

struct FakeProfile {
  const FakeModel* model = nullptr;
  std::string driver_version, library_version;
  int cuda_version = 0;
  int numa_node = -1;         // GB200: nodes of the GPUs' memory begin here.
  bool pcie_counters = true;  // Fields 197 and 198 exist.
  bool remapped_rows = true;  // Else retired pages, as before Ampere.
  bool memory_v2 = true;
  std::vector<std::string> missing;  // Symbols that FakeNvmlLookup does not find.
  std::vector<FakeGpu> gpus;
  std::vector<FakeProcess> processes;
  std::vector<FakeFault> faults;
  std::vector<FakeRule> errors, hangs, throttles;
  FakeParts parts;
  std::shared_ptr<const Recording> recording;  // What is replayed in place of the model; null: nothing.
  bool recording_holds = false;                // At its end; else it begins anew.
};

// A profile, or a recording, which is then replayed. kInvalidArgument names line and key.
Result<FakeProfile> ParseFakeProfile(const std::string& yaml);

// Eight busy H100: what --demo shows.
std::string_view DemoProfile() noexcept;

}  // namespace gpulens::nvml
