// The sources of this machine, in the order of preference. Nothing is opened yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/energy.h>

namespace gpulens::sdk {

// What the sources of GPUs have in common. EnergyDevice::counter_lag of a counter that is written now and
// then:
inline constexpr Duration kLagUnknown{-1};
// Above the limit that a board keeps on average it may be for the length of a reading.
inline constexpr double kPeakOverLimit = 1.5;
// What is told slowly is asked no sooner again.
inline constexpr int64_t kSlowNs = 90'000'000;

// $GPULENS_ENERGY: "own": never by the agent; "agent": NVIDIA GPUs by the agent alone. $GPULENS_ENERGY_ROOT:
// where /sys is, for tests.
std::vector<std::shared_ptr<EnergySource>> SystemSources();

// A vendor's library in this process, else the agent. Which of them is chosen at each Open.
class OwnOrAgent final : public EnergySource {
 public:
  OwnOrAgent(std::shared_ptr<EnergySource> own, std::shared_ptr<EnergySource> agent);

  std::string_view name() const noexcept override { return used_.load()->name(); }
  EnergyVendor vendor() const noexcept override { return own_->vendor(); }
  Result<std::vector<EnergyDevice>> Open() override;
  Status Read(size_t device, EnergyReading& out) override { return used_.load()->Read(device, out); }
  // Where the library's numbers of processes mean nothing here, by the agent's.
  Status Processes(size_t device, EnergyProcesses& out) override;
  std::string Doing() const override { return used_.load()->Doing(); }

 private:
  const std::shared_ptr<EnergySource> own_, agent_;
  std::atomic<EnergySource*> used_;
  // The agent's devices, while the library reads and the agent tells processes.
  std::vector<EnergyDevice> devices_, queried_;
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace gpulens::sdk
