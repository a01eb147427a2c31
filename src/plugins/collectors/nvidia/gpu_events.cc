#include "plugins/collectors/nvidia/gpu_events.h"

#include <algorithm>
#include <utility>

namespace gpulens::nvidia {
namespace {

using nvml::Field;
using nvml::FieldReading;
using nvml::GpuState;

constexpr int64_t kSecondNs = 1'000'000'000;
// Correctable errors are reported at most this often, with their number.
constexpr int64_t kEccPauseNs = 60 * kSecondNs;
// The library's event and the step of a counter within this time are one occurrence.
constexpr int64_t kSameEventNs = 30 * kSecondNs;
constexpr int64_t kRecoveryMaxAgeNs = 15 * kSecondNs;
constexpr int kClockEventsPerMinute = 10;
constexpr int64_t kPowerBrake = 0x80, kHot = 0x40;
// A GPU at its temperature limit slows down and cools by turns: that is one episode.
constexpr int64_t kEpisodeGapNs = 60 * kSecondNs;
// Longer than a restart of the reader process takes: counters do not come and go with it.
constexpr Duration kWatchMaxAge = std::chrono::seconds(10);

constexpr std::string_view kRecoveryActions[] = {"none", "reset", "reboot", "drain_p2p", "drain_and_reset"};
constexpr std::string_view kErrorTypes[] = {"correctable", "uncorrectable"};
// By ReaderChange::Kind, in the catalogue's words.
constexpr std::string_view kChanges[] = {"started", "crashed", "hung", "killed", "stuck", "released"};
constexpr std::string_view kStatements[] = {
    "runs", "crashed", "hangs", "was killed", "is stuck in the kernel", "has released the GPUs"};
static_assert(std::size(kStatements) == std::size(kChanges));

// Events of the library that are reported as they come.
struct LibraryEvent {
  uint64_t bit;
  std::string_view name, key, value, text;
};
constexpr LibraryEvent kLibraryEvents[] = {
    {nvml::kEventDramRetired, "gpu.row_remap", "gpu.row_remap.result", "remapped",
     ": a memory row was replaced"},
    {nvml::kEventDramRetirementFailed, "gpu.row_remap", "gpu.row_remap.result", "failed",
     ": a memory row could not be replaced"},
    {nvml::kEventPoisonContained, "gpu.poison", "gpu.poison.result", "contained",
     ": poisoned data was consumed and contained"},
    {nvml::kEventPoisonUncontained, "gpu.poison", "gpu.poison.result", "uncontained",
     ": poisoned data was consumed and not contained"},
    {nvml::kEventGpuUnavailable, "gpu.unavailable", {}, {}, ": the driver reports it as unavailable"},
    {nvml::kEventPowerSource, "gpu.power", "gpu.power.reason", "source_change",
     ": its source of power changed"},
};

bool Good(const FieldReading& reading) {
  return reading.status == nvml::ReadStatus::kOk && reading.boot_ns != 0;
}

}  // namespace

void GpuWatch::Report(std::string_view name, const View& view, int64_t boot_ns, Attributes attributes,
                      std::string_view text, std::string_view source) {
  if (!queue_) return;
  std::string body = "GPU " + std::to_string(view.gpu.index);
  if (auto uuid = view.gpu.Fact("uuid"); !uuid.empty()) body.append(" (").append(uuid).append(")");
  std::vector<AttributeSet::Attribute> all(attributes);
  all.push_back({"event.source", source});
  std::string_view bus = view.gpu.Fact("pci_bus_id");
  if (!view.entity && !bus.empty()) all.push_back({"gpu.pci.bus_id", bus});
  queue_->Report({.at = view.now + Duration(std::min<int64_t>(boot_ns - view.now.boot_ns, 0)),
                  .name = name,
                  .entity = view.entity,
                  .attributes = AttributeSet(all),
                  .body = body.append(text)});
}

void GpuWatch::ReportEcc(bool uncorrectable, const View& view, int64_t boot_ns, int64_t errors) {
  Counter& counter = ecc_[uncorrectable];
  counter.reported_ns = boot_ns;
  counter.held = 0;
  std::string number = errors > 0 ? std::to_string(errors) : "new";
  Report("gpu.ecc", view, boot_ns, {{"gpu.ecc.error_type", kErrorTypes[uncorrectable]}},
         ": " + number + " " + std::string(kErrorTypes[uncorrectable]) + " memory error" +
             (errors == 1 ? "" : "s"));
}

void GpuWatch::ReportClock(const nvml::DeviceEvent& event, const View& view) {
  if (event.boot_ns - clock_window_ns_ > 60 * kSecondNs) {
    clock_window_ns_ = event.boot_ns;
    clock_reported_ = 0;
  }
  if (++clock_reported_ > kClockEventsPerMinute) return;
  bool state = event.type & nvml::kEventPerformanceState;
  Report("gpu.clock", view, event.boot_ns, {},
         state ? ": the performance state changed" : ": a clock changed");
}

void GpuWatch::OnEvent(const nvml::DeviceEvent& event, const View& view) {
  int64_t at = event.boot_ns;
  if (event.type & nvml::kEventXid) {
    auto code = static_cast<int64_t>(event.data);
    std::string text = ": XID " + std::to_string(code);
    if (event.gpu_instance != nvml::GpuProcess::kNoInstance) {
      Report("gpu.xid", view, at,
             {{"gpu.xid.code", code}, {"gpu.mig.instance_id", int64_t{event.gpu_instance}}},
             text + " in MIG instance " + std::to_string(event.gpu_instance));
    } else {
      Report("gpu.xid", view, at, {{"gpu.xid.code", code}}, text);
    }
  }
  for (bool uncorrectable : {false, true}) {
    uint64_t bits = uncorrectable ? uint64_t{nvml::kEventEccUncorrected}
                                  : uint64_t{nvml::kEventEccCorrected} | nvml::kEventEccStorm;
    if (!(event.type & bits)) continue;
    ecc_[uncorrectable].library_ns = at;
    bool soon = ecc_[uncorrectable].reported_ns != 0 && at - ecc_[uncorrectable].reported_ns < kEccPauseNs;
    if (uncorrectable || !soon) ReportEcc(uncorrectable, view, at, 0);
  }
  for (const LibraryEvent& row : kLibraryEvents) {
    if (!(event.type & row.bit)) continue;
    if (row.key.empty()) Report(row.name, view, at, {}, row.text);
    else Report(row.name, view, at, {{row.key, row.value}}, row.text);
  }
  // The action itself is read a little later.
  if (event.type & nvml::kEventRecoveryAction) recovery_requested_ns_ = at;
  if (event.type & (nvml::kEventClock | nvml::kEventPerformanceState)) ReportClock(event, view);
}

int64_t GpuWatch::Rise(const FieldReading& reading, int64_t& last) {
  if (!Good(reading)) return 0;
  int64_t before = std::exchange(last, reading.raw);
  return before < 0 || reading.raw < before ? 0 : reading.raw - before;
}

void GpuWatch::Compare(const View& view) {
  was_released_ = was_released_ || view.released;
  CompareHangs(view);
  CompareState(view);
  if (view.gpu.state != GpuState::kOk || !known_) return;
  CompareEcc(view);
  CompareRemapping(view);
  CompareRecovery(view);
  CompareClockReasons(view);
  CompareInstances(view);
}

void GpuWatch::CompareHangs(const View& view) {
  if (std::exchange(hangs_, view.gpu.hangs) == view.gpu.hangs || view.gpu.state != GpuState::kHung) return;
  double seconds = static_cast<double>(view.now.boot_ns - view.gpu.hung_since_boot_ns) * 1e-9;
  std::string_view call = nvml::CallName(view.gpu.hung_call);
  Report("gpu.hang", view, view.now.boot_ns, {{"gpu.call", call}, {"gpu.hang.duration", seconds}},
         ": " + std::string(call) + " does not return", "reader");
}

void GpuWatch::CompareState(const View& view) {
  const nvml::Gpu& gpu = view.gpu;
  bool lost = gpu.state == GpuState::kLost || (known_ && view.driver_unloaded);
  if (gpu.state == GpuState::kResetRequired) reset_needed_ = true;
  if (lost && known_ && !gone_) {
    gone_ = true;
    std::string_view reason = view.driver_unloaded ? "driver_unloaded"
                              : gpu.counted        ? "gpu_is_lost"
                                                   : "removed";
    Report("gpu.lost", view, view.now.boot_ns, {{"gpu.lost.reason", reason}}, " no longer answers");
  }
  if (gpu.state != GpuState::kOk || gpu.facts.empty() || gpu.last_read_boot_ns == 0) return;
  bool another = known_ && uuid_ != gpu.Fact("uuid");
  const FieldReading& energy = gpu[Field::kEnergy];
  if (known_ && !another && !gone_ && !reset_needed_ && opened_ == gpu.opened) {
    if (Good(energy)) energy_ = energy.raw;
    return;
  }
  // Wait for the energy counter first: it shows whether the counters have restarted.
  if (!Good(energy) && energy.status != nvml::ReadStatus::kNotSupported) return;
  if (another || !known_) {
    uint32_t hangs = hangs_;
    *this = GpuWatch(queue_);
    hangs_ = hangs;
    known_ = true;
    Report("gpu.found", view, view.now.boot_ns,
           {{"gpu.found.reason", view.at_start && !another ? "start" : "hotplug"}}, " was found");
  } else {
    ReportReturn(view);
  }
  opened_ = gpu.opened;
  uuid_ = gpu.Fact("uuid");
  energy_ = Good(energy) ? energy.raw : -1;
}

// The same GPU was opened again, or answers again.
void GpuWatch::ReportReturn(const View& view) {
  const FieldReading& energy = view.gpu[Field::kEnergy];
  bool reset = energy_ >= 0 && Good(energy) && energy.raw < energy_;
  bool gone = std::exchange(gone_, false), needed = std::exchange(reset_needed_, false);
  if (reset) {
    std::string_view reason = needed || gone ? "recovery" : was_released_ ? "requested" : "driver_reload";
    Report("gpu.reset", view, view.now.boot_ns, {{"gpu.reset.reason", reason}},
           " was reset: its counters restart at 0");
  }
  was_released_ = false;
  if (!gone) return;
  Report("gpu.found", view, view.now.boot_ns, {{"gpu.found.reason", reset ? "after_reset" : "hotplug"}},
         " is back");
}

void GpuWatch::CompareEcc(const View& view) {
  for (bool uncorrectable : {false, true}) {
    Counter& counter = ecc_[uncorrectable];
    int64_t rise =
        Rise(view.gpu[uncorrectable ? Field::kEccUncorrected : Field::kEccCorrected], counter.last);
    int64_t now = view.now.boot_ns;
    bool reported = counter.library_ns != 0 && now - counter.library_ns < kSameEventNs;
    if (!reported) counter.held += rise;
    bool pause = !uncorrectable && counter.reported_ns != 0 && now - counter.reported_ns < kEccPauseNs;
    if (counter.held > 0 && !pause) ReportEcc(uncorrectable, view, now, counter.held);
  }
}

void GpuWatch::CompareRemapping(const View& view) {
  for (bool uncorrectable : {false, true}) {
    Field field = uncorrectable ? Field::kRemappedUncorrectable : Field::kRemappedCorrectable;
    if (Rise(view.gpu[field], remapped_[uncorrectable]) == 0) continue;
    Report("gpu.row_remap", view, view.now.boot_ns,
           {{"gpu.row_remap.result", "remapped"}, {"gpu.ecc.error_type", kErrorTypes[uncorrectable]}},
           ": a memory row was replaced");
  }
  if (Rise(view.gpu[Field::kRemapPending], remap_pending_) > 0)
    Report("gpu.row_remap", view, view.now.boot_ns, {{"gpu.row_remap.result", "pending"}},
           ": a memory row waits for a reset to be replaced");
  if (Rise(view.gpu[Field::kRemapFailure], remap_failed_) > 0)
    Report("gpu.row_remap", view, view.now.boot_ns, {{"gpu.row_remap.result", "failed"}},
           ": a memory row could not be replaced");
}

void GpuWatch::CompareRecovery(const View& view) {
  const FieldReading& action = view.gpu[Field::kRecoveryAction];
  int64_t now = Good(action) ? action.raw : -1;
  int64_t before = std::exchange(recovery_, now >= 0 ? now : recovery_);
  bool changed = before >= 0 && now >= 0 && now != before;
  bool waited = recovery_requested_ns_ != 0 && view.now.boot_ns - recovery_requested_ns_ > kRecoveryMaxAgeNs;
  if (!changed && !waited) return;
  int64_t requested = std::exchange(recovery_requested_ns_, 0);
  int64_t at = requested != 0 ? requested : view.now.boot_ns;
  if (now >= 0 && now < static_cast<int64_t>(std::size(kRecoveryActions))) {
    std::string_view word = kRecoveryActions[now];
    Report("gpu.recovery_action", view, at, {{"gpu.recovery.action", word}},
           ": the driver asks for " + std::string(word));
  } else {
    Report("gpu.recovery_action", view, at, {}, ": the driver needs another recovery action");
  }
}

void GpuWatch::CompareClockReasons(const View& view) {
  const FieldReading& reasons = view.gpu[Field::kClockEventReasons];
  if (!Good(reasons)) return;
  int64_t before = reasons_ < 0 ? reasons.raw : reasons_;
  reasons_ = reasons.raw;
  int64_t rising = reasons.raw & ~before;
  if (rising & kPowerBrake)
    Report("gpu.power", view, reasons.boot_ns, {{"gpu.power.reason", "brake"}}, ": its power brake is on");
  // The driver does not report which sensor it was.
  bool rested = hot_ns_ == 0 || reasons.boot_ns - hot_ns_ > kEpisodeGapNs;
  if ((rising & kHot) && rested)
    Report("gpu.thermal", view, reasons.boot_ns, {{"gpu.thermal.action", "slowdown"}},
           ": its hardware slows it down because of its temperature");
  if (reasons.raw & kHot) hot_ns_ = reasons.boot_ns;
}

void GpuWatch::CompareInstances(const View& view) {
  const nvml::Gpu& gpu = view.gpu;
  if (const FieldReading& mode = gpu[Field::kMigMode]; Good(mode)) {
    int64_t before = std::exchange(mig_mode_, mode.raw);
    if (before >= 0 && before != mode.raw)
      Report("gpu.mig.change", view, view.now.boot_ns,
             {{"gpu.mig.change", mode.raw ? "mode_on" : "mode_off"}},
             std::string(": MIG is ") + (mode.raw ? "on" : "off"));
  }
  if (gpu.slices.mig_max == nvml::GpuSlices::kUnknown) return;
  size_t count = 0;
  bool same = true, complete = true;
  for (const nvml::GpuSlice& slice : gpu.slices.list) {
    if (slice.key.kind != nvml::SliceKind::kMig) continue;
    complete = complete && !slice.facts.empty();
    same = same && count < instances_.size() && instances_[count].key == slice.key &&
           instances_[count].profile == slice.Fact("profile");
    ++count;
  }
  if (!complete || (instances_known_ && same && count == instances_.size())) return;
  std::vector<Instance> now;
  for (const nvml::GpuSlice& slice : gpu.slices.list) {
    if (slice.key.kind == nvml::SliceKind::kMig)
      now.push_back({slice.key, std::string(slice.Fact("profile"))});
  }
  auto report_missing = [&](const std::vector<Instance>& from, const std::vector<Instance>& in,
                            std::string_view change) {
    for (const Instance& instance : from) {
      if (!instances_known_ || std::ranges::find(in, instance) != in.end()) continue;
      Report("gpu.mig.change", view, view.now.boot_ns,
             {{"gpu.mig.instance_id", int64_t{instance.key.id}},
              {"gpu.mig.profile", std::string_view(instance.profile)},
              {"gpu.mig.change", change}},
             ": MIG instance " + std::to_string(instance.key.id) + " " + instance.profile + " was " +
                 std::string(change));
    }
  };
  report_missing(instances_, now, "destroyed");
  report_missing(now, instances_, "created");
  instances_ = std::move(now);
  instances_known_ = true;
}

void EventReporter::SetWatching(bool works) {
  if (queue_ && works != watching_) queue_->Watches("nvml", works);
  watching_ = works;
}

void EventReporter::FollowIndexes(std::span<const nvml::Gpu> gpus) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    std::string_view uuid = gpus[i].Fact("uuid");
    if (uuid.empty() || watches_[i].uuid() == uuid) continue;
    auto known = std::ranges::find(watches_, uuid, &GpuWatch::uuid);
    if (known != watches_.end()) std::swap(watches_[i], *known);
  }
}

void EventReporter::Report(nvml::NvmlSource& source, const EntityRef& reader,
                           std::span<const GpuSeries> series, Instant now) {
  source.TakeChanges(changes_);
  source.TakeEvents(events_);
  if (!queue_) return;
  const nvml::ReaderState& state = source.state();
  bool fresh = now.boot_ns - state.last_heartbeat_boot_ns < kWatchMaxAge.count();
  SetWatching(state.last_heartbeat_boot_ns != 0 && fresh && state.watched > 0);
  bool released = false;
  for (const nvml::ReaderChange& change : changes_) {
    released = released || change.kind == nvml::ReaderChange::kReleased;
    const bool normal =
        change.kind == nvml::ReaderChange::kStarted || change.kind == nvml::ReaderChange::kReleased;
    queue_->Report({.at = now + Duration(std::min<int64_t>(change.boot_ns - now.boot_ns, 0)),
                    .name = "gpulens.reader",
                    .entity = reader,
                    .attributes = AttributeSet({{"gpulens.change", kChanges[change.kind]}}),
                    .body = change.detail.empty()
                                ? "the NVML reader process " + std::string(kStatements[change.kind])
                                : change.detail,
                    .severity = normal ? EventSeverity::kInfo : EventSeverity::kUnset});
  }
  auto gpus = source.gpus();
  if (state.up && first_gpus_ == 0) first_gpus_ = gpus.size();
  while (watches_.size() < gpus.size()) watches_.emplace_back(queue_);
  FollowIndexes(gpus);
  auto view = [&](size_t i) {
    return GpuWatch::View{.gpu = gpus[i],
                          .entity = i < series.size() ? series[i].entity() : EntityRef(),
                          .now = now,
                          .at_start = i < first_gpus_,
                          .driver_unloaded = state.fault == nvml::ReaderFault::kDriverNotLoaded,
                          .released = released};
  };
  for (const nvml::DeviceEvent& event : events_) {
    if (event.entity < gpus.size()) watches_[event.entity].OnEvent(event, view(event.entity));
  }
  for (size_t i = 0; i < gpus.size(); ++i) watches_[i].Compare(view(i));
}

}  // namespace gpulens::nvidia
