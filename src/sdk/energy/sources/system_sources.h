// The sources of this machine, in the order of preference. Nothing is opened yet.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <gpulens/energy.h>

namespace gpulens::sdk {

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
  std::vector<EnergyDevice> devices_, asked_;
  std::chrono::steady_clock::time_point next_try_{};
};

}  // namespace gpulens::sdk
