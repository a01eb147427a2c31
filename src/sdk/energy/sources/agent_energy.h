// GPUs that the agent of this machine reads for us: for a process that has no vendor's library, or may not
// open the devices. RAPL is not among them: that root alone may read it has a reason.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <gpulens/energy_source.h>

#include "base/clock.h"
#include "base/fd.h"
#include "sdk/energy/feed/feed_wire.h"

namespace gpulens::sdk {

// Path of the agent's socket: $GPULENS_ENERGY_SOCKET, else /run/gpulens/energy.sock, else energy.sock of this
// user's agent.
std::string FindEnergySocket();

class AgentEnergy final : public EnergySource {
 public:
  struct Options {
    std::string socket = {};  // empty: searched at each attempt
    // Only this vendor's GPUs; kNone: all.
    EnergyVendor vendor = EnergyVendor::kNvidia;
    Duration timeout = std::chrono::seconds(1);        // for a reading
    Duration first_answer = std::chrono::seconds(10);  // its reader may have to be started
  };
  // `clock` is that of windows.
  AgentEnergy(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}

  std::string_view name() const noexcept override { return "agent"; }
  EnergyVendor vendor() const noexcept override { return options_.vendor; }
  // kUnavailable: no agent answers, or it has no GPU.
  Result<std::vector<EnergyDevice>> Open() override;
  // Reconnects to a restarted agent, which must have the same devices.
  Status Read(size_t device, EnergyReading& out) override;
  // By the agent's numbers: also in a container that has its own.
  Status Processes(size_t device, EnergyProcesses& out) override;

 private:
  Status Connect();
  Result<std::string> Query(const FeedRequest& request, Duration timeout);
  Status List(std::vector<EnergyDevice>& devices);
  Result<FeedReading> ReadOnce(uint32_t number);

  const Options options_;
  const Clock& clock_;
  UniqueFd socket_;
  std::vector<uint32_t> numbers_;  // of our devices, in the agent's list
  std::vector<std::string> ids_;
  bool reports_processes_ = false;
  bool answered_ = false;  // on this connection
};

}  // namespace gpulens::sdk
