// The simulated machine: which profile holds now, what each GPU shows at a moment, and the gate that
// every call passes, where errors and hangs are put in.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "sources/nvml/driver_protocol.h"
#include "sources/nvml/fake/fake_profile.h"

namespace gpulens::nvml {

// Counters that grow with the load.
enum class FakeFlow : uint8_t { kEnergyMillijoules, kNvlinkTx, kNvlinkRx, kPcieTx, kPcieRx, kCount };
inline constexpr size_t kFakeFlows = static_cast<size_t>(FakeFlow::kCount);

// One GPU at one moment.
struct FakeView {
  const FakeProfile* profile = nullptr;
  const FakeModel* model = nullptr;
  const FakeGpu* gpu = nullptr;
  const FakeMig* mig = nullptr;  // The MIG device that was asked; null: the GPU.
  unsigned index = 0;
  double seconds = 0;              // What loads go by: since the boot of the machine.
  double busy = 0, busy_mean = 0;  // Now; over the last second.
  double since_open = 0;           // Seconds: what rules and faults go by.
  int64_t unix_us = 0;
  unsigned power_mw = 0, power_mean_mw = 0;
  unsigned temperature = 0;
  unsigned clock = 0;
  uint64_t reasons = 0;
  uint64_t used = 0, free = 0, reserved = 0, total = 0;
  std::array<uint64_t, kFakeFlows> flows{};  // mJ and bytes
  std::vector<GpuProcess> processes;

  unsigned Faults(FakeFault::Counter counter) const noexcept;
  uint64_t ThrottledNs(uint64_t mask) const noexcept;
  unsigned LinksUp() const noexcept;
  // At any time, the past too.
  double BusyAt(double at_boot_seconds) const noexcept;
  unsigned PowerAt(double at_boot_seconds) const noexcept;  // mW
  unsigned ClockOf(double at_busy) const noexcept;          // MHz, when nothing throttles
};

// Thread-safe. A hang sleeps without the lock.
class FakeWorld {
 public:
  static FakeWorld& Get();

  // In place of GPULENS_FAKE_NVML, for tests in this process. `clock` outlives its use; null: the machine's.
  Status Use(const std::string& yaml, const Clock* clock);

  // The profile that holds, read from GPULENS_FAKE_NVML when there is none yet; null when it is no good.
  std::shared_ptr<const FakeProfile> Load();
  // nvmlInit: reads the profile named by GPULENS_FAKE_NVML, else the demo; starts the time of rules.
  int Open();
  bool open() const noexcept;
  Instant Now() const noexcept;  // By its clock.
  // Seconds since the library was opened.
  double OpenFor() const noexcept;

  // Counts the call; then waits while it is to hang, and answers the code it is to fail with. `gpu` -1:
  // a call that takes none.
  int Enter(const char* call, int gpu);
  // False when the index is no GPU.
  bool View(unsigned index, FakeView& out);
  std::shared_ptr<const FakeProfile> profile();

  uint64_t Calls(std::string_view call, int gpu);
  void ForgetCalls();

 private:
  struct GpuMemory {
    std::array<double, kFakeFlows> base{};  // What another profile has counted before this one.
  };

  double Flow(const FakeProfile& profile, unsigned index, FakeFlow flow, double seconds) const;
  void Replace(FakeProfile profile);
  void ReloadWhenChanged();
  void LoadLocked();
  double Seconds() const noexcept;
  double SinceOpen() const noexcept;

  mutable std::mutex mutex_;
  const Clock* clock_ = &RealClock();
  std::shared_ptr<const FakeProfile> profile_;
  bool given_ = false, open_ = false;
  std::string path_;
  std::array<int64_t, 4> seen_{};
  int64_t last_look_ns_ = 0, opened_ns_ = 0;
  std::array<GpuMemory, kMaxFakeGpus> memory_;
  std::unordered_map<std::string, std::array<uint64_t, kMaxFakeGpus + 1>> calls_;
};

}  // namespace gpulens::nvml
