#include "plugins/collectors/nvidia/gpu_watch.h"

#include <algorithm>
#include <utility>

namespace gpulens {
namespace {

using nvml::Field;
using nvml::FieldReading;
using nvml::GpuState;
using nvml::ReadStatus;

constexpr int64_t kSecondNs = 1'000'000'000;
// Correctable errors are told at most so often, with their number.
constexpr int64_t kEccPauseNs = 60 * kSecondNs;
// The library's event and the step of a counter, within so long, are one thing.
constexpr int64_t kSameThingNs = 30 * kSecondNs;
constexpr int64_t kRecoveryMaxAgeNs = 15 * kSecondNs;
constexpr int kClockEventsPerMinute = 10;
constexpr int64_t kPowerBrake = 0x80, kHot = 0x40;
// A GPU at its limit slows down and cools by turns: that is one episode.
constexpr int64_t kEpisodeGapNs = 60 * kSecondNs;

constexpr std::string_view kRecoveryActions[] = {"none", "reset", "reboot", "drain_p2p", "drain_and_reset"};
constexpr std::string_view kErrorTypes[] = {"correctable", "uncorrectable"};

bool Good(const FieldReading& reading) { return reading.status == ReadStatus::kOk && reading.boot_ns != 0; }

std::string NameOf(const nvml::Gpu& gpu) {
  std::string name = "GPU " + std::to_string(gpu.index);
  if (!gpu.Fact("uuid").empty()) name += " (" + std::string(gpu.Fact("uuid")) + ")";
  return name;
}

}  // namespace

void GpuWatch::Report(std::string_view name, const Look& look, int64_t boot_ns, Attributes attributes,
                      std::string body) {
  if (!queue_) return;
  std::vector<AttributeSet::Attribute> all(attributes);
  std::string_view bus = look.gpu.Fact("pci_bus_id");
  if (!look.entity && !bus.empty()) all.push_back({"gpu.pci.bus_id", bus});
  int64_t at_ns = std::min(boot_ns, look.now.boot_ns);
  queue_->Report({.at = look.now + Duration(at_ns - look.now.boot_ns),
                  .name = name,
                  .entity = look.entity,
                  .attributes = AttributeSet(std::span<const AttributeSet::Attribute>(all)),
                  .body = std::move(body)});
}

void GpuWatch::ReportEcc(bool uncorrectable, const Look& look, int64_t boot_ns, int64_t errors,
                         std::string_view source) {
  Counter& counter = ecc_[uncorrectable];
  counter.reported_ns = boot_ns;
  counter.held = 0;
  std::string number = errors > 0 ? std::to_string(errors) : "new";
  Report("gpu.ecc", look, boot_ns,
         {{"gpu.ecc.error_type", kErrorTypes[uncorrectable]}, {"event.source", source}},
         NameOf(look.gpu) + ": " + number + " " + std::string(kErrorTypes[uncorrectable]) + " memory error" +
             (errors == 1 ? "" : "s"));
}

void GpuWatch::ReportClock(const nvml::DeviceEvent& event, const Look& look) {
  if (event.boot_ns - clock_window_ns_ > 60 * kSecondNs) {
    clock_window_ns_ = event.boot_ns;
    clock_reported_ = 0;
  }
  if (++clock_reported_ > kClockEventsPerMinute) return;
  bool state = event.type & nvml::kEventPerformanceState;
  Report("gpu.clock", look, event.boot_ns, {{"event.source", "nvml"}},
         NameOf(look.gpu) + (state ? ": the performance state changed" : ": a clock changed"));
}

void GpuWatch::Take(const nvml::DeviceEvent& event, const Look& look) {
  std::string gpu = NameOf(look.gpu);
  int64_t at = event.boot_ns;
  if (event.type & nvml::kEventXid) {
    auto code = static_cast<int64_t>(event.data);
    std::string body = gpu + ": XID " + std::to_string(code);
    if (event.gpu_instance != nvml::GpuProcess::kNoInstance) {
      Report("gpu.xid", look, at,
             {{"gpu.xid.code", code},
              {"gpu.mig.instance_id", int64_t{event.gpu_instance}},
              {"event.source", "nvml"}},
             body + " in MIG instance " + std::to_string(event.gpu_instance));
    } else {
      Report("gpu.xid", look, at, {{"gpu.xid.code", code}, {"event.source", "nvml"}}, body);
    }
  }
  for (bool uncorrectable : {false, true}) {
    uint64_t bits = uncorrectable ? uint64_t{nvml::kEventEccUncorrected}
                                  : uint64_t{nvml::kEventEccCorrected} | nvml::kEventEccStorm;
    if (!(event.type & bits)) continue;
    ecc_[uncorrectable].library_ns = at;
    bool soon = ecc_[uncorrectable].reported_ns != 0 && at - ecc_[uncorrectable].reported_ns < kEccPauseNs;
    if (uncorrectable || !soon) ReportEcc(uncorrectable, look, at, 0, "nvml");
  }
  if (event.type & nvml::kEventDramRetired)
    Report("gpu.row_remap", look, at, {{"gpu.row_remap.result", "remapped"}, {"event.source", "nvml"}},
           gpu + ": a memory row was replaced");
  if (event.type & nvml::kEventDramRetirementFailed)
    Report("gpu.row_remap", look, at, {{"gpu.row_remap.result", "failed"}, {"event.source", "nvml"}},
           gpu + ": a memory row could not be replaced");
  if (event.type & nvml::kEventPoisonContained)
    Report("gpu.poison", look, at, {{"gpu.poison.result", "contained"}, {"event.source", "nvml"}},
           gpu + ": poisoned data was consumed and contained");
  if (event.type & nvml::kEventPoisonUncontained)
    Report("gpu.poison", look, at, {{"gpu.poison.result", "uncontained"}, {"event.source", "nvml"}},
           gpu + ": poisoned data was consumed and not contained");
  if (event.type & nvml::kEventGpuUnavailable)
    Report("gpu.unavailable", look, at, {{"event.source", "nvml"}},
           gpu + ": the driver reports it as unavailable");
  if (event.type & nvml::kEventPowerSource)
    Report("gpu.power", look, at, {{"gpu.power.reason", "source_change"}, {"event.source", "nvml"}},
           gpu + ": its source of power changed");
  // The action itself is read a little later.
  if (event.type & nvml::kEventRecoveryAction) recovery_requested_ns_ = at;
  if (event.type & (nvml::kEventClock | nvml::kEventPerformanceState)) ReportClock(event, look);
}

int64_t GpuWatch::Rise(const FieldReading& reading, int64_t& last) {
  if (!Good(reading)) return 0;
  int64_t before = std::exchange(last, reading.raw);
  return before < 0 || reading.raw < before ? 0 : reading.raw - before;
}

void GpuWatch::See(const Look& look) {
  was_released_ = was_released_ || look.released;
  SeeHang(look);
  SeeState(look);
  if (look.gpu.state != GpuState::kOk || !known_) return;
  SeeEcc(look);
  SeeRemapping(look);
  SeeRecovery(look);
  SeeClockReasons(look);
  SeeInstances(look);
}

void GpuWatch::SeeHang(const Look& look) {
  if (look.gpu.hangs == hangs_) return;
  hangs_ = look.gpu.hangs;
  double seconds = static_cast<double>(look.now.boot_ns - look.gpu.hung_since_boot_ns) * 1e-9;
  std::string_view call = nvml::CallName(look.gpu.hung_call);
  if (look.gpu.state != GpuState::kHung) return;
  Report("gpu.hang", look, look.now.boot_ns,
         {{"gpu.call", call}, {"gpu.hang.duration", seconds}, {"event.source", "reader"}},
         NameOf(look.gpu) + ": " + std::string(call) + " does not return");
}

void GpuWatch::SeeState(const Look& look) {
  const nvml::Gpu& gpu = look.gpu;
  bool lost = gpu.state == GpuState::kLost || (known_ && look.driver_unloaded);
  if (gpu.state == GpuState::kResetRequired) reset_needed_ = true;
  if (lost && known_ && !gone_) {
    gone_ = true;
    std::string_view reason = look.driver_unloaded ? "driver_unloaded"
                              : gpu.counted        ? "gpu_is_lost"
                                                   : "removed";
    Report("gpu.lost", look, look.now.boot_ns, {{"gpu.lost.reason", reason}, {"event.source", "nvml"}},
           NameOf(gpu) + " no longer answers");
  }
  if (gpu.state != GpuState::kOk || gpu.facts.empty() || gpu.last_read_boot_ns == 0) return;
  bool another = known_ && uuid_ != gpu.Fact("uuid");
  if (known_ && !another && !gone_ && !reset_needed_ && opened_ == gpu.opened) {
    if (Good(gpu[Field::kEnergy])) energy_ = gpu[Field::kEnergy].raw;
    return;
  }
  // Whatever it was before, its energy is read first: it tells whether its counters have begun anew.
  const FieldReading& energy = gpu[Field::kEnergy];
  if (!Good(energy) && energy.status != ReadStatus::kNotSupported) return;
  if (another || !known_) {
    EventQueue* queue = queue_;
    uint32_t hangs = hangs_;
    *this = GpuWatch(queue);
    hangs_ = hangs;
    known_ = true;
    Report("gpu.found", look, look.now.boot_ns,
           {{"gpu.found.reason", look.at_start && !another ? "start" : "hotplug"}, {"event.source", "nvml"}},
           NameOf(gpu) + " was found");
  } else {
    SeeReturn(look);
  }
  opened_ = gpu.opened;
  uuid_ = gpu.Fact("uuid");
  energy_ = Good(energy) ? energy.raw : -1;
}

// The same GPU was opened again, or answers again.
void GpuWatch::SeeReturn(const Look& look) {
  const FieldReading& energy = look.gpu[Field::kEnergy];
  bool anew = energy_ >= 0 && Good(energy) && energy.raw < energy_;
  bool gone = std::exchange(gone_, false), needed = std::exchange(reset_needed_, false);
  if (anew) {
    std::string_view reason = needed || gone ? "recovery" : was_released_ ? "requested" : "driver_reload";
    Report("gpu.reset", look, look.now.boot_ns, {{"gpu.reset.reason", reason}, {"event.source", "nvml"}},
           NameOf(look.gpu) + " was reset: its counters restart at 0");
  }
  was_released_ = false;
  if (!gone) return;
  Report("gpu.found", look, look.now.boot_ns,
         {{"gpu.found.reason", anew ? "after_reset" : "hotplug"}, {"event.source", "nvml"}},
         NameOf(look.gpu) + " is back");
}

void GpuWatch::SeeEcc(const Look& look) {
  for (bool uncorrectable : {false, true}) {
    Counter& counter = ecc_[uncorrectable];
    int64_t rise =
        Rise(look.gpu[uncorrectable ? Field::kEccUncorrected : Field::kEccCorrected], counter.last);
    int64_t now = look.now.boot_ns;
    bool told = counter.library_ns != 0 && now - counter.library_ns < kSameThingNs;
    if (!told) counter.held += rise;
    bool rest = !uncorrectable && counter.reported_ns != 0 && now - counter.reported_ns < kEccPauseNs;
    if (counter.held > 0 && !rest) ReportEcc(uncorrectable, look, now, counter.held, "nvml");
  }
}

void GpuWatch::SeeRemapping(const Look& look) {
  const nvml::Gpu& gpu = look.gpu;
  for (bool uncorrectable : {false, true}) {
    Field field = uncorrectable ? Field::kRemappedUncorrectable : Field::kRemappedCorrectable;
    if (Rise(gpu[field], remapped_[uncorrectable]) == 0) continue;
    Report("gpu.row_remap", look, look.now.boot_ns,
           {{"gpu.row_remap.result", "remapped"},
            {"gpu.ecc.error_type", kErrorTypes[uncorrectable]},
            {"event.source", "nvml"}},
           NameOf(gpu) + ": a memory row was replaced");
  }
  if (Rise(gpu[Field::kRemapPending], remap_pending_) > 0)
    Report("gpu.row_remap", look, look.now.boot_ns,
           {{"gpu.row_remap.result", "pending"}, {"event.source", "nvml"}},
           NameOf(gpu) + ": a memory row waits for a reset to be replaced");
  if (Rise(gpu[Field::kRemapFailure], remap_failed_) > 0)
    Report("gpu.row_remap", look, look.now.boot_ns,
           {{"gpu.row_remap.result", "failed"}, {"event.source", "nvml"}},
           NameOf(gpu) + ": a memory row could not be replaced");
}

void GpuWatch::SeeRecovery(const Look& look) {
  const FieldReading& action = look.gpu[Field::kRecoveryAction];
  int64_t now = Good(action) ? action.raw : -1;
  int64_t before = std::exchange(recovery_, now >= 0 ? now : recovery_);
  bool changed = before >= 0 && now >= 0 && now != before;
  bool waited = recovery_requested_ns_ != 0 && look.now.boot_ns - recovery_requested_ns_ > kRecoveryMaxAgeNs;
  if (!changed && !waited) return;
  int64_t at = recovery_requested_ns_ != 0 ? recovery_requested_ns_ : look.now.boot_ns;
  recovery_requested_ns_ = 0;
  if (now >= 0 && now < static_cast<int64_t>(std::size(kRecoveryActions))) {
    std::string_view word = kRecoveryActions[now];
    Report("gpu.recovery_action", look, at, {{"gpu.recovery.action", word}, {"event.source", "nvml"}},
           NameOf(look.gpu) + ": the driver asks for " + std::string(word));
  } else {
    Report("gpu.recovery_action", look, at, {{"event.source", "nvml"}},
           NameOf(look.gpu) + ": the driver needs another recovery action");
  }
}

void GpuWatch::SeeClockReasons(const Look& look) {
  const FieldReading& reasons = look.gpu[Field::kClockEventReasons];
  if (!Good(reasons)) return;
  bool first = reasons_ < 0;
  int64_t before = first ? reasons.raw : reasons_;
  reasons_ = reasons.raw;
  int64_t rising = reasons.raw & ~before;
  if (rising & kPowerBrake)
    Report("gpu.power", look, reasons.boot_ns, {{"gpu.power.reason", "brake"}, {"event.source", "nvml"}},
           NameOf(look.gpu) + ": its power brake is on");
  // Which sensor it was the driver does not say.
  bool rested = hot_ns_ == 0 || reasons.boot_ns - hot_ns_ > kEpisodeGapNs;
  if ((rising & kHot) && rested)
    Report("gpu.thermal", look, reasons.boot_ns,
           {{"gpu.thermal.action", "slowdown"}, {"event.source", "nvml"}},
           NameOf(look.gpu) + ": its hardware slows it down because of its temperature");
  if (reasons.raw & kHot) hot_ns_ = reasons.boot_ns;
}

void GpuWatch::SeeInstances(const Look& look) {
  const nvml::Gpu& gpu = look.gpu;
  if (const FieldReading& mode = gpu[Field::kMigMode]; Good(mode)) {
    int64_t before = std::exchange(mig_mode_, mode.raw);
    if (before >= 0 && before != mode.raw)
      Report("gpu.mig.change", look, look.now.boot_ns,
             {{"gpu.mig.change", mode.raw ? "mode_on" : "mode_off"}, {"event.source", "nvml"}},
             NameOf(gpu) + ": MIG is " + (mode.raw ? "on" : "off"));
  }
  if (gpu.parts.mig_max == nvml::GpuParts::kUnknown) return;
  size_t at = 0;
  bool same = true, complete = true;
  for (const nvml::Part& part : gpu.parts.list) {
    if (part.key.kind != nvml::PartKind::kMig) continue;
    complete = complete && !part.facts.empty();
    same = same && at < instances_.size() && instances_[at].key == part.key &&
           instances_[at].profile == part.Fact("profile");
    ++at;
  }
  if (!complete || (instances_known_ && same && at == instances_.size())) return;
  std::vector<Instance> now;
  for (const nvml::Part& part : gpu.parts.list) {
    if (part.key.kind == nvml::PartKind::kMig) now.push_back({part.key, std::string(part.Fact("profile"))});
  }
  auto tell = [&](const Instance& instance, std::string_view change) {
    Report("gpu.mig.change", look, look.now.boot_ns,
           {{"gpu.mig.instance_id", int64_t{instance.key.id}},
            {"gpu.mig.profile", std::string_view(instance.profile)},
            {"gpu.mig.change", change},
            {"event.source", "nvml"}},
           NameOf(gpu) + ": MIG instance " + std::to_string(instance.key.id) + " " + instance.profile +
               " was " + std::string(change));
  };
  auto has = [](const std::vector<Instance>& list, const Instance& instance) {
    return std::find(list.begin(), list.end(), instance) != list.end();
  };
  for (const Instance& old : instances_) {
    if (instances_known_ && !has(now, old)) tell(old, "destroyed");
  }
  for (const Instance& one : now) {
    if (instances_known_ && !has(instances_, one)) tell(one, "created");
  }
  instances_ = std::move(now);
  instances_known_ = true;
}

}  // namespace gpulens
