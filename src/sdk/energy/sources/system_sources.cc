#include "sdk/energy/sources/system_sources.h"

#include <algorithm>

#include "sdk/energy/sources/agent_energy.h"
#include "sdk/energy/sources/amd_energy.h"
#include "sdk/energy/sources/hwmon_energy.h"
#include "sdk/energy/sources/nvml_energy.h"
#include "sdk/energy/sources/rapl_energy.h"
#include "sdk/energy/sources/visible_devices.h"

namespace gpulens::sdk {
namespace {

// Of an agent that is not there.
constexpr Duration kNextTry = std::chrono::seconds(10);

// In the clock of windows, as the agent's readings are.
class Monotonic final : public Clock {
 public:
  Instant Now() const noexcept override {
    const int64_t ns = std::chrono::steady_clock::now().time_since_epoch().count();
    return {ns, ns};
  }
};

const Clock& MonotonicClock() noexcept {
  static const Monotonic clock;
  return clock;
}

}  // namespace

OwnOrAgent::OwnOrAgent(std::shared_ptr<EnergySource> own, std::shared_ptr<EnergySource> agent)
    : own_(std::move(own)), agent_(std::move(agent)), used_(own_.get()) {}

Result<std::vector<EnergyDevice>> OwnOrAgent::Open() {
  auto found = own_->Open();
  // Devices that this process was not given are no reason to ask somebody else for them.
  queried_.clear();
  next_try_ = {};
  if (found && !found->empty()) {
    used_.store(own_.get());
    devices_ = *found;
    return found;
  }
  auto asked = agent_->Open();
  if (asked) {
    used_.store(agent_.get());
    return asked;
  }
  used_.store(own_.get());
  if (found) return found;
  const bool wrong = asked.error().code == gpulens::Code::kInvalidArgument;
  return Status{wrong ? asked.error().code : found.error().code,
                found.error().detail + "; agent: " + asked.error().detail};
}

Status OwnOrAgent::Processes(size_t device, EnergyProcesses& out) {
  Status own = used_.load()->Processes(device, out);
  if (own.code != gpulens::Code::kUnavailable || used_.load() == agent_.get()) return own;
  const auto now = std::chrono::steady_clock::now();
  if (queried_.empty() && now >= next_try_) {
    next_try_ = now + kNextTry;
    if (auto found = agent_->Open()) queried_ = *std::move(found);
  }
  if (device >= devices_.size()) return own;
  const auto same = std::ranges::find(queried_, devices_[device].id, &EnergyDevice::id);
  if (same == queried_.end()) return own;
  out = {};
  Status asked = agent_->Processes(static_cast<size_t>(same - queried_.begin()), out);
  if (!asked.ok()) queried_.clear();
  return asked;
}

std::vector<std::shared_ptr<EnergySource>> SystemSources() {
  const auto who = Variable("GPULENS_ENERGY").value_or("");
  std::shared_ptr<EnergySource> nvml = std::make_shared<NvmlEnergy>(nullptr, RealClock());
  const auto agent = [] { return std::make_shared<AgentEnergy>(AgentEnergy::Options(), MonotonicClock()); };
  if (who == "agent") nvml = agent();
  else if (who != "own") nvml = std::make_shared<OwnOrAgent>(std::move(nvml), agent());
  const std::string root(Variable("GPULENS_ENERGY_ROOT").value_or("/"));
  return {std::move(nvml), std::make_shared<AmdEnergy>(nullptr, RealClock()),
          std::make_shared<HwmonEnergy>(root), std::make_shared<RaplEnergy>(root)};
}

}  // namespace gpulens::sdk

namespace gpulens {

std::shared_ptr<EnergySource> EnergyOfAgent(std::string socket, EnergyVendor vendor) {
  return std::make_shared<sdk::AgentEnergy>(
      sdk::AgentEnergy::Options{.socket = std::move(socket), .vendor = vendor}, sdk::MonotonicClock());
}

}  // namespace gpulens
