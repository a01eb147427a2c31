// What the simulated library shows: GPUs, their load over time, processes, and what goes wrong when.
// Everything is a function of time, so that two runs of one profile show the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "reader/simulated.h"
#include "sources/nvml/simulated/load_schedule.h"

namespace gpulens::nvml {

using reader::FakeRule;
using reader::FakeWhen;

struct NvmlRecording;

inline constexpr unsigned kMaxFakeGpus = 16;

// A GPU model, in round figures of real boards.

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

// The UUID of a board: FakeGpu::board.
std::string FakeGpuUuid(const FakeModel& model, unsigned board);

inline constexpr unsigned kMaxFakeMig = 8;  // MIG devices of one GPU, over all times.
inline constexpr unsigned kNoFakeInstance = ~0U;

// mig: [{gpu: 0, profile: 3g.40gb, instance: 1, compute: 0, load: 0.5, from: 0, to: 60}]
struct FakeMig {
  FakeWhen when;        // One GPU.
  std::string profile;  // "3g.40gb", "1c.3g.40gb"
  unsigned instance = 0, compute = 0;
  unsigned slices = 0, compute_slices = 0, gigabytes = 0;  // Of the profile.
  double load = -1;   // Busy share; below 0: that of the GPU, where a process runs in it.
  unsigned slot = 0;  // Among those of its GPU: its place in the library's list.
};

// vgpus: [{gpu: 0, id: 3251634213, type: NVIDIA L40S-8Q, vm: vm-7, memory: 4GiB, sm: 35}]
struct FakeVgpu {
  FakeWhen when;  // One GPU.
  unsigned id = 0;
  std::string type = "NVIDIA L40S-8Q", vm, driver = "580.95.05";
  double bytes = 0;
  unsigned sm = 0, memory = 0;  // %
  bool licensed = true;
};

// xids: [{gpu: 0, code: 79, at: 5}]; events: [{gpu: 0, type: ecc_uncorrected, data: 1, at: 5}]
struct FakeEvent {
  unsigned gpu = 0;
  uint64_t type = 0, data = 0;  // As in DeviceEvent.
  double at = 0;                // Seconds since the library was opened, or of a period.
  unsigned instance = kNoFakeInstance;

  friend bool operator==(const FakeEvent&, const FakeEvent&) = default;
};

// Busy share over time, 0 to 1. `Integral` is exact, so that energy is the integral of power.
struct FakeLoad {
  enum class Kind : uint8_t { kConstant, kSine, kSteps, kSchedule };
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
  LoadSchedule schedule;                                    // In thousandths.
  int64_t carried = 0;  // Thousandths x s that earlier changes of the schedule have added.
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
  // Not 0: times of rules are within a period of this many seconds, the first of which began at the boot of
  // the machine; counts add up over periods. 0: they are seconds since the library was opened.
  double period = 0;
  std::vector<FakeGpu> gpus;
  std::vector<FakeProcess> processes;
  std::vector<FakeFault> faults;
  std::vector<FakeRule> errors, hangs, throttles;
  std::vector<FakeMig> mig;
  std::vector<FakeVgpu> vgpus;
  std::vector<FakeEvent> events;
  std::vector<unsigned> boards;  // boards: [4, 7], which board each GPU is; no more than there are GPUs
  std::shared_ptr<const NvmlRecording> recording;  // Replayed in place of the model when not null.
  bool recording_holds = false;                    // At its end; else it repeats.
};

// A profile, or a recording, which is then replayed. kInvalidArgument names line and key.
Result<FakeProfile> ParseFakeProfile(const std::string& yaml);

// Eight busy H100: what --demo shows.
std::string_view DemoProfile() noexcept;

}  // namespace gpulens::nvml
