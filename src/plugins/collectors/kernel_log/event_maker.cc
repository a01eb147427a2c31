#include "plugins/collectors/kernel_log/event_maker.h"

#include <algorithm>
#include <cctype>

#include "catalog/events.h"
#include "catalog/gpu.h"

namespace gpulens {
namespace {

using kernel_log::CleanText;
using kernel_log::Grade;
using kernel_log::Notice;
using kernel_log::NoticeKind;

constexpr size_t kMaxSwitches = 64;
constexpr size_t kMaxMuted = 256;
constexpr int64_t kMinute = 60'000'000'000;

// "" for what the message does not say.
std::string_view SeverityOf(Grade grade) noexcept {
  switch (grade) {
    case Grade::kUnsaid: return "";
    case Grade::kCorrected: return "corrected";
    case Grade::kDeferred: return "deferred";
    case Grade::kRecoverable: return "recoverable";
    case Grade::kNonFatal: return "nonfatal";
    case Grade::kFatal: return "fatal";
  }
  return "";
}

// Where the message says more than its code: a link's own word, and what the driver orders.
std::string_view XidSeverity(const Notice& notice) noexcept {
  if (notice.action == "none") return "info";
  if (notice.action == "reset_gpu" || notice.action == "reboot") return "fatal";
  if (!notice.action.empty()) return "error";
  if (notice.grade == Grade::kFatal) return "fatal";
  return notice.grade == Grade::kNonFatal ? "warning" : "";
}

}  // namespace

EventMaker::EventMaker(EventQueue* queue, std::string_view source, std::string root)
    : queue_(queue), source_(source), root_(std::move(root)), bus_(kernel_log::ReadPciBus(root_)) {
  for (const kernel_log::PciDevice& device : bus_) {
    if (device.IsNvswitch()) FindSwitch(device.address);
  }
}

EventMaker::Switch* EventMaker::FindSwitch(const PciAddress& address) {
  for (Switch& known : switches_) {
    if (known.device.address == address) return &known;
  }
  if (switches_.size() >= kMaxSwitches) return nullptr;
  Switch added;
  added.device.address = address;
  std::string id = address.ToString();
  added.entity = MakeRef<Entity>("nvswitch", AttributeSet({{"nvswitch.id", std::string_view(id)}}));
  switches_.push_back(std::move(added));
  return &switches_.back();
}

void EventMaker::WriteCounters(FrameWriter& out) {
  for (Switch& each : switches_) {
    if (!each.fatal_series) {
      each.fatal_series =
          out.table().Declare(kNvswitchSxidErrors, each.entity, {{"nvswitch.sxid.severity", "fatal"}});
      each.non_fatal_series =
          out.table().Declare(kNvswitchSxidErrors, each.entity, {{"nvswitch.sxid.severity", "non_fatal"}});
    }
    out.Set(each.fatal_series, each.fatal);
    out.Set(each.non_fatal_series, each.non_fatal);
  }
}

bool EventMaker::IsMuted(const std::string& what, Instant at) {
  std::erase_if(muted_, [&](const Muted& each) { return each.until_boot_ns <= at.boot_ns; });
  bool muted =
      std::any_of(muted_.begin(), muted_.end(), [&](const Muted& each) { return each.what == what; });
  // So many different things within a minute are a flood, too.
  muted = muted || muted_.size() >= kMaxMuted;
  if (!muted) muted_.push_back({what, at.boot_ns + kMinute});
  else if (queue_) queue_->Suppressed(1);
  return muted;
}

void EventMaker::Report(std::string_view name, Attributes attributes, std::string_view message, Instant at) {
  if (!queue_) return;
  attributes.push_back({"event.source", source_});
  Event event;
  event.at = at;
  event.name = name;
  event.attributes = AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
  event.body = CleanText(message);
  queue_->Report(std::move(event));
}

void EventMaker::Take(const Notice& notice, std::string_view message, Instant at) {
  switch (notice.kind) {
    case NoticeKind::kXid: return TakeXid(notice, message, at);
    case NoticeKind::kSxid: return TakeSxid(notice, message, at);
    case NoticeKind::kRas: return TakeRas(notice, message, at);
    case NoticeKind::kPcieError: return TakePcieError(notice, message, at);
    case NoticeKind::kOomKill: return TakeOomKill(notice, message, at);
    case NoticeKind::kHardware: return TakeHardware(notice, message, at);
    case NoticeKind::kDriverFault: return TakeDriverFault(notice, message, at);
    case NoticeKind::kOomScope:
      oom_pid_ = notice.pid.value_or(0);
      oom_cgroup_ = CleanText(notice.cgroup);
      return;
    default: break;
  }
  Attributes attributes;
  std::string bus = notice.pci ? notice.pci->ToString() : "";
  if (!bus.empty()) attributes.push_back({kEventPciBusId, std::string_view(bus)});
  if (notice.kind == NoticeKind::kGpuLost) {
    attributes.push_back({"gpu.lost.reason", std::string_view("fallen_off_bus")});
    return Report(kEventGpuLost.name, attributes, message, at);
  }
  if (notice.kind == NoticeKind::kGpuReset) {
    attributes.push_back({"gpu.reset.reason", std::string_view("recovery")});
    return Report(kEventGpuReset.name, attributes, message, at);
  }
  if (notice.kind == NoticeKind::kGpuHot) {
    // The driver repeats it for as long as the GPU is hot.
    if (IsMuted("hot " + bus + std::string(notice.type), at)) return;
    attributes.push_back({"gpu.thermal.action", notice.type});
    return Report(kEventGpuThermal.name, attributes, message, at);
  }
  attributes.push_back({"gpu.interconnect.type", std::string_view("nvlink")});
  attributes.push_back({"gpu.interconnect.error_type", notice.type});
  if (notice.link) attributes.push_back({"gpu.interconnect.link_index", int64_t{*notice.link}});
  Report(kEventGpuInterconnectFailure.name, attributes, message, at);
}

void EventMaker::TakeXid(const Notice& notice, std::string_view message, Instant at) {
  std::string bus = notice.pci->ToString(), process = CleanText(notice.process);
  Attributes attributes = {{"gpu.xid.code", int64_t{*notice.code}}, {kEventPciBusId, std::string_view(bus)}};
  if (notice.pid) attributes.push_back({"process.pid", *notice.pid});
  if (!process.empty()) attributes.push_back({"process.executable.name", std::string_view(process)});
  if (notice.link) attributes.push_back({"gpu.interconnect.link_index", int64_t{*notice.link}});
  if (notice.sub_code) attributes.push_back({"gpu.xid.sub_code", int64_t{*notice.sub_code}});
  if (!notice.action.empty()) attributes.push_back({"gpu.xid.action", notice.action});
  std::string_view severity = XidSeverity(notice);
  if (!severity.empty()) attributes.push_back({"gpu.xid.severity", severity});
  Report(kEventGpuXid.name, attributes, message, at);
}

void EventMaker::TakeSxid(const Notice& notice, std::string_view message, Instant at) {
  bool fatal = notice.grade == Grade::kFatal;
  if (Switch* known = FindSwitch(*notice.pci)) ++(fatal ? known->fatal : known->non_fatal);
  std::string id = notice.pci->ToString();
  Attributes attributes = {{"nvswitch.id", std::string_view(id)},
                           {"nvswitch.sxid.code", int64_t{*notice.code}},
                           {"nvswitch.sxid.severity", std::string_view(fatal ? "fatal" : "non_fatal")}};
  if (notice.link) attributes.push_back({"gpu.interconnect.link_index", int64_t{*notice.link}});
  Report(kEventNvswitchSxid.name, attributes, message, at);
}

void EventMaker::TakeRas(const Notice& notice, std::string_view message, Instant at) {
  // Old drivers name no device, and write the block in capitals.
  std::string bus = notice.pci ? notice.pci->ToString() : "", block(notice.type);
  for (char& c : block) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Attributes attributes;
  if (!bus.empty()) attributes.push_back({kEventPciBusId, std::string_view(bus)});
  if (notice.grade != Grade::kUnsaid) attributes.push_back({"gpu.ras.severity", SeverityOf(notice.grade)});
  if (!block.empty()) attributes.push_back({"gpu.ras.block", std::string_view(block)});
  if (notice.count) attributes.push_back({"gpu.ras.count", int64_t{*notice.count}});
  Report(kEventGpuRas.name, attributes, message, at);
}

std::optional<PciAddress> EventMaker::GpuBehind(const PciAddress& reporter, std::string_view driver,
                                                Instant at) {
  if (at.boot_ns - bus_read_at_ns_ > kMinute) {  // devices come and go
    bus_ = kernel_log::ReadPciBus(root_);
    bus_read_at_ns_ = at.boot_ns;
  }
  std::optional<PciAddress> behind, in_slot;
  size_t gpus_in_slot = 0;
  for (const kernel_log::PciDevice& device : bus_) {
    if (!device.IsGpu()) continue;
    if (device.address == reporter) return reporter;
    if (device.address.SameSlot(reporter)) in_slot = device.address, ++gpus_in_slot;
    bool above = std::find(device.ports.begin(), device.ports.end(), reporter) != device.ports.end();
    if (above && behind) return reporter;  // a port above several: it speaks of none of them
    if (above) behind = device.address;
  }
  if (behind) return behind;
  // Another function of the board, its audio or USB controller.
  if (gpus_in_slot == 1) return in_slot;
  // A GPU that has left the bus is not listed any more, but its driver still has its name.
  constexpr std::string_view kGpuDrivers[] = {"nvidia", "amdgpu", "habanalabs", "xe", "i915"};
  bool gpu = std::find(std::begin(kGpuDrivers), std::end(kGpuDrivers), driver) != std::end(kGpuDrivers);
  return gpu ? std::optional(reporter) : std::nullopt;
}

void EventMaker::TakePcieError(const Notice& notice, std::string_view message, Instant at) {
  auto gpu = GpuBehind(*notice.pci, notice.driver, at);
  if (!gpu) return;
  bool corrected = notice.grade == Grade::kCorrected;
  if (corrected && IsMuted("aer " + gpu->ToString(), at)) return;
  std::string bus = gpu->ToString();
  Attributes attributes = {
      {kEventPciBusId, std::string_view(bus)},
      {"gpu.pcie.aer.severity", corrected ? std::string_view("correctable") : SeverityOf(notice.grade)}};
  if (!notice.type.empty()) attributes.push_back({"gpu.pcie.aer.layer", notice.type});
  Report(kEventGpuPcieAer.name, attributes, message, at);
}

void EventMaker::TakeOomKill(const Notice& notice, std::string_view message, Instant at) {
  std::string process = CleanText(notice.process);
  Attributes attributes = {{"process.pid", *notice.pid}};
  if (!process.empty()) attributes.push_back({"process.executable.name", std::string_view(process)});
  if (oom_pid_ == *notice.pid && !oom_cgroup_.empty())
    attributes.push_back({"host.oom.cgroup", std::string_view(oom_cgroup_)});
  Report(kEventHostOomKill.name, attributes, message, at);
  oom_pid_ = 0;
}

void EventMaker::TakeHardware(const Notice& notice, std::string_view message, Instant at) {
  // Corrected errors and throttling come in storms.
  bool stormy = notice.grade == Grade::kCorrected || notice.facts == "thermal.cpu_throttle";
  if (stormy && IsMuted(std::string(notice.type), at)) return;
  Attributes attributes = {{"host.error.type", notice.type}};
  if (notice.grade != Grade::kUnsaid) attributes.push_back({"host.error.severity", SeverityOf(notice.grade)});
  Report(kEventHostHardwareError.name, attributes, message, at);
}

void EventMaker::TakeDriverFault(const Notice& notice, std::string_view message, Instant at) {
  std::string bus = notice.pci ? notice.pci->ToString() : "", process = CleanText(notice.process);
  // A module that has lost its context, or an engine that is stuck, repeats itself.
  if (IsMuted(std::string(notice.facts) + " " + bus + " " + process, at)) return;
  Attributes attributes = {{"gpu.driver.fault", notice.facts}};
  if (!bus.empty()) attributes.push_back({kEventPciBusId, std::string_view(bus)});
  if (notice.pid) attributes.push_back({"process.pid", *notice.pid});
  if (!process.empty()) attributes.push_back({"process.executable.name", std::string_view(process)});
  Report(kEventGpuDriverFault.name, attributes, message, at);
}

}  // namespace gpulens
