// The simulated machine: which profile holds now, what each GPU shows at a moment, and the gate that
// every call passes, where errors and hangs are put in.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "sources/nvml/reader_protocol.h"
#include "sources/nvml/simulated/fake_profile.h"
#include "sources/nvml/simulated/fault_watch.h"

namespace gpulens::nvml {

// Counters that grow with the load.
enum class FakeFlow : uint8_t { kEnergyMillijoules, kNvlinkTx, kNvlinkRx, kPcieTx, kPcieRx, kCount };
inline constexpr size_t kFakeFlows = static_cast<size_t>(FakeFlow::kCount);

// One GPU at one moment.
struct FakeView {
  const FakeProfile* profile = nullptr;
  const FakeModel* model = nullptr;
  const FakeGpu* gpu = nullptr;
  const FakeMig* mig = nullptr;    // the MIG device; null: the GPU
  unsigned index = 0;              // As numbered in the profile: rules and faults go by it.
  unsigned shown_index = 0;        // As numbered since the library was opened.
  double seconds = 0;              // What loads go by: since the boot of the machine.
  double busy = 0, busy_mean = 0;  // Now; over the last second.
  double since_open = 0;           // Seconds since the library was opened.
  double rule_seconds = 0;         // What rules go by: the same, or those of the profile's period.
  double periods = 0;              // Of the profile, that have passed.
  int64_t unix_us = 0;
  unsigned power_mw = 0, power_mean_mw = 0;
  unsigned temperature = 0, core_temperature = 0;  // the second is of its sensor
  unsigned utilization = 0;                        // %, as reported
  unsigned clock = 0;
  uint64_t reasons = 0;
  uint64_t used = 0, free = 0, reserved = 0, total = 0;
  std::array<uint64_t, kFakeFlows> flows{};  // mJ and bytes
  std::vector<GpuProcess> processes;
  FaultScript faults;
  int64_t boot_ns = 0;

  // Memory, clock and state, from the load above.
  void Fill();
  unsigned MeanPower() const noexcept;  // mW
  unsigned Faults(FakeFault::Counter counter) const noexcept;
  uint64_t ThrottledNs(uint64_t mask) const noexcept;
  unsigned LinksUp() const noexcept;
  // At any time, the past too.
  double BusyAt(double at_boot_seconds) const noexcept;
  unsigned PowerAt(double at_boot_seconds) const noexcept;  // mW
  unsigned ClockOf(double at_busy) const noexcept;          // MHz, when nothing throttles
};

// Thread-safe. A hang sleeps without the lock.
class FakeWorld final : public reader::FakeMachine<FakeProfile, kMaxFakeGpus> {
 public:
  FakeWorld();
  static FakeWorld& Get();

  // In place of GPULENS_FAKE_NVML, for tests in this process. `clock` outlives its use; null: the machine's.
  Status Use(const std::string& yaml, const Clock* clock);
  // Faults in place of those of the file that GPULENS_FAKE_NVML_FAULTS names, for tests in this process.
  void UseFaults(std::vector<LiveFault> faults);
  // Those of now.
  FaultScript faults();
  int64_t boot_ns() const noexcept;

  // The profile that holds, read from GPULENS_FAKE_NVML when there is none yet; null when it is no good.
  std::shared_ptr<const FakeProfile> Load();
  // nvmlInit: reads the profile named by GPULENS_FAKE_NVML, else the demo; starts the time of rules.
  int Open();
  Instant Now() const noexcept;  // By its clock.
  // Seconds since the library was opened.
  double OpenFor() const noexcept;

  // Counts the call; then waits while it is to hang, and answers the code it is to fail with. `gpu` -1:
  // a call that takes none.
  int Enter(const char* call, int gpu);
  // False when the index is no GPU. By the profile's numbers.
  bool View(unsigned index, FakeView& out);
  // Between the library's numbers and the profile's, as they were when it was opened; -1: no such GPU.
  int SlotOf(unsigned shown_index) const noexcept;
  // How many GPUs a library that is opened now would find.
  unsigned Count();

 private:
  struct GpuMemory {
    std::array<double, kFakeFlows> base{};  // What another profile has counted before this one.
  };

  double Flow(const FakeProfile& profile, unsigned index, FakeFlow flow, double seconds) const;
  void Replace(FakeProfile profile) override;
  void ReloadWhenChanged();
  void Number();
  void FillAt(unsigned index, int64_t boot_ns, FakeView& out) const;
  void ApplyFaults(FakeView& view) const;

  std::array<GpuMemory, kMaxFakeGpus> memory_;
  FaultWatch faults_;
  // The profile's number of each GPU that was there when the library was opened.
  std::vector<unsigned> order_;
};

// A SymbolLookup. Null for a symbol it does not have, or that the profile lists as missing.
void* FakeNvmlLookup(const char* name);

}  // namespace gpulens::nvml
