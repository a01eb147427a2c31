// State shared by a monitor and its windows: the sampler and its ledger.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <gpulens/energy.h>

#include "sdk/energy/sampler.h"

namespace gpulens::internal {

// The longest that a caller of Wait waits.
inline constexpr Duration kLongestWait = std::chrono::hours(1);

// A monitor in one process.
struct LiveMonitor {
  // Waits so long for the devices to be opened and read.
  LiveMonitor(const EnergyOptions& options, Duration timeout);
  ~LiveMonitor();
  LiveMonitor(const LiveMonitor&) = delete;
  LiveMonitor& operator=(const LiveMonitor&) = delete;

  sdk::Engine& engine() const noexcept { return sampler->engine(); }

  std::shared_ptr<sdk::Sampler> sampler;
  sdk::DeviceLedger* ledger = nullptr;
  Status status;
};

// Thread-safe.
class MonitorState {
 public:
  explicit MonitorState(EnergyOptions options);

  // The monitor of this process: after a fork the first call makes a new one and waits for its readings;
  // likewise when the devices were opened too late for the first one.
  LiveMonitor& live();

 private:
  static bool Good(const LiveMonitor& live) noexcept;

  const EnergyOptions options_;
  std::atomic<LiveMonitor*> live_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<LiveMonitor>> all_;  // windows may hold one of before the fork
};

}  // namespace gpulens::internal
