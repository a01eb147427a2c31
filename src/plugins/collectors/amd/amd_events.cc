#include "plugins/collectors/amd/amd_events.h"

#include <numeric>

#include "plugins/event_queue.h"
#include "sources/amdsmi/amdsmi_calls.h"

namespace gpulens::amd {
namespace {

using driver::DeviceState;
using driver::Fault;

std::string_view ChangeOf(Fault fault) noexcept {
  switch (fault) {
    case Fault::kHung: return "hung";
    case Fault::kStuckInKernel: return "stuck";
    default: return "crashed";
  }
}

}  // namespace

void AmdEvents::Report(std::string_view name, const EntityRef& entity, AttributeSet attributes,
                       std::string body, Instant now) const {
  if (!env_.events) return;
  env_.events->Report(Event{.at = now,
                            .name = name,
                            .entity = entity,
                            .attributes = std::move(attributes),
                            .body = std::move(body)});
}

void AmdEvents::Driver(const driver::DriverState& driver, Instant now) {
  using namespace std::string_view_literals;
  bool ended = driver.fault == Fault::kHung || driver.fault == Fault::kCrashed ||
               driver.fault == Fault::kStuckInKernel;
  if (ended && driver.fault != fault_) {
    Report("gpulens.reader", {}, {{"reader", "amdsmi"sv}, {"gpulens.change", ChangeOf(driver.fault)}},
           driver.last_error, now);
  }
  fault_ = driver.fault;
  uint64_t starts = std::accumulate(driver.starts.begin(), driver.starts.end(), uint64_t{0});
  if (driver.up && starts != starts_) {
    starts_ = starts;
    Report("gpulens.reader", {}, {{"reader", "amdsmi"sv}, {"gpulens.change", "started"sv}},
           "the AMD SMI reader process runs", now);
  }
}

void AmdEvents::Device(const driver::Device& device, const EntityRef& entity, Instant now) {
  using namespace std::string_view_literals;
  while (states_.size() <= device.index) {
    states_.push_back(DeviceState::kStarting);
    hangs_.push_back(0);
  }
  AttributeSet::Attribute source{"event.source", "reader"sv};
  if (device.hangs != hangs_[device.index]) {
    hangs_[device.index] = device.hangs;
    double seconds = static_cast<double>(now.boot_ns - device.hung_since_boot_ns) * 1e-9;
    std::string_view call = amdsmi::CallName(device.hung_call);
    Report("gpu.hang", entity,
           {{"gpu.call", call}, {"gpu.hang.duration", device.hung_since_boot_ns ? seconds : 0.0}, source},
           std::string(call) + " does not return", now);
  }
  // Only what lasts is told: a restarted driver passes through kStarting.
  bool lasts = device.state == DeviceState::kOk || device.state == DeviceState::kLost;
  DeviceState& told = states_[device.index];
  if (!lasts || told == device.state) return;
  bool lost = device.state == DeviceState::kLost;
  std::string_view reason = lost ? "gpu_is_lost" : told == DeviceState::kStarting ? "start" : "hotplug";
  told = device.state;
  Report(lost ? "gpu.lost"sv : "gpu.found"sv, entity,
         {{lost ? "gpu.lost.reason"sv : "gpu.found.reason"sv, reason}, source},
         lost ? "the GPU no longer answers" : "the GPU answers", now);
}

}  // namespace gpulens::amd
