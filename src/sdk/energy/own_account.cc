#include "sdk/energy/own_account.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace gpulens::sdk {
namespace {

using energy::EnergyFlaw;
using energy::SharingMethod;

// A process may start and end between two scans, so a young run is scanned each twentieth of its age. A scan
// of a GPU takes two driver calls, one of the processors reads a file of each process.
constexpr int64_t kScanShare = 20, kLeastScanNs = 10'000'000, kLeastProcessorScanNs = 100'000'000;
constexpr int64_t kScanNs = 190'000'000, kProcessorScanNs = 990'000'000;

// Both enumerations have the same order.
static_assert(static_cast<int>(SharingMethod::kWholeBoard) ==
              static_cast<int>(EnergyAttribution::kWholeBoard));

void AddRemark(std::string& out, const std::string& remark) {
  if (!remark.empty()) out += (out.empty() ? "" : "; ") + remark;
}

}  // namespace

// Sums over the used devices.
struct OwnAccount::Sum {
  energy::RunPart all;
  std::array<double, energy::kParts> joules{}, known{};
  std::vector<const Part*> used;
  std::vector<EnergyOfDevice> by_device;
  bool unseen = false;  // no scan happened while it ran
};

OwnAccount::OwnAccount(const std::deque<DeviceTrack>& tracks, const DeviceSelection& selection,
                       int64_t timeout_ns, int64_t begin_ns)
    : tracks_(tracks), vendor_(selection.vendor), timeout_ns_(timeout_ns), begin_ns_(begin_ns) {
  for (const auto* list : {&selection.shared, &selection.auxiliary}) {
    for (size_t track : *list)
      parts_.push_back({.track = track,
                        .auxiliary = list == &selection.auxiliary,
                        .share = energy::RunShare(begin_ns, tracks[track].device.most_watts)});
  }
}

bool OwnAccount::NeedsScan(size_t track, int64_t now_ns) const {
  for (const Part& part : parts_) {
    if (part.track != track) continue;
    const auto seen = part.share.seen_ns();
    if (!seen) return true;
    if (ended()) return *seen < end_ns_;
    const bool gpu = tracks_[track].device.part == EnergyPart::kGpu;
    const int64_t pause_ns = (now_ns - begin_ns_) / kScanShare;
    return now_ns - *seen >= (gpu ? std::clamp(pause_ns, kLeastScanNs, kScanNs)
                                  : std::clamp(pause_ns, kLeastProcessorScanNs, kProcessorScanNs));
  }
  return false;
}

void OwnAccount::Observe(size_t track, int64_t at_ns, const Status& status,
                         const EnergyProcesses& processes) {
  for (Part& part : parts_) {
    if (part.track != track) continue;
    energy::UseObservation look{
        .at_ns = at_ns, .share = energy::kWholeBoard, .since_last = processes.since_last};
    part.unreported = status;
    part.memory_bytes = part.utilization_ratio = kNotMeasured;
    if (status.ok()) {
      look.share = energy::ShareOf(processes);
      double memory = 0, busy = 0;
      for (const EnergyProcess& one : processes.list) {
        if (one.own) memory += one.memory_used_bytes, busy += one.utilization_ratio;
      }
      part.memory_bytes = memory;
      if (look.share.sharing == SharingMethod::kByUtilization) part.utilization_ratio = std::min(busy, 1.0);
    }
    if (part.first_seen_ns == 0) part.first_seen_ns = at_ns;
    part.own = look.share.own;
    part.fresh = true;
    part.share.Observe(look);
  }
}

// A sum without one of the devices would be too low, so a tick waits until each was scanned.
void OwnAccount::Tick() {
  for (const Part& part : parts_) {
    const bool unused = part.first_seen_ns != 0 && part.own <= 0;
    if (!part.auxiliary && !unused && !part.fresh) return;
  }
  double watts = 0, memory = 0, busy = 0;
  uint32_t devices = 0, busy_devices = 0;
  int64_t at_ns = 0;
  for (Part& part : parts_) {
    if (part.auxiliary || !std::exchange(part.fresh, false) || part.own <= 0) continue;
    const DeviceTrack& track = TrackOf(part);
    at_ns = std::max(at_ns, *part.share.seen_ns());
    watts += part.own * track.watts;
    memory +=
        std::isnan(part.memory_bytes) && part.own >= 1 ? track.latest.memory_used_bytes : part.memory_bytes;
    const double use =
        std::isnan(part.utilization_ratio) ? track.latest.utilization_ratio : part.utilization_ratio;
    if (std::isfinite(use)) busy += use, ++busy_devices;
    ++devices;
  }
  if (devices == 0 || at_ns > end_ns_) return;
  ++ticks_.count;
  ticks_.watts.Add(watts);
  ticks_.memory.Add(memory);
  if (busy_devices > 0) ticks_.utilization.Add(busy / busy_devices);
}

void OwnAccount::Settle() {
  for (Part& part : parts_) part.share.Settle(TrackOf(part).curve);
}

bool OwnAccount::Closed() const {
  return std::ranges::all_of(parts_,
                             [&](const Part& part) { return part.share.seen_ns().value_or(0) >= end_ns_; });
}

bool OwnAccount::Settled() const {
  return std::ranges::all_of(parts_, [&](const Part& part) {
    const auto settled = TrackOf(part).curve.settled_ns();
    return part.auxiliary || (settled && *settled >= end_ns_);
  });
}

// Whether the run had ended before its first scan.
bool OwnAccount::Unseen(const Part& part, int64_t end_ns) const noexcept {
  return ended() && part.own <= 0 && !part.auxiliary &&
         begin_ns_ < TrackOf(part).curve.first_ns().value_or(0) && part.first_seen_ns >= end_ns;
}

energy::RunPart OwnAccount::Of(const Part& part, int64_t end_ns) const {
  if (!Unseen(part, end_ns)) return part.share.Upto(end_ns, TrackOf(part).curve);
  energy::RunShare whole(begin_ns_, TrackOf(part).device.most_watts);
  whole.Observe({.at_ns = end_ns, .share = energy::kWholeBoard});
  return whole.Upto(end_ns, TrackOf(part).curve);
}

OwnAccount::Sum OwnAccount::Add(bool auxiliary, int64_t end_ns) const {
  Sum sum;
  for (const Part& part : parts_) {
    if (part.auxiliary != auxiliary) continue;
    const energy::RunPart one = Of(part, end_ns);
    if (!one.used() && part.own <= 0) continue;
    sum.used.push_back(&part);
    sum.unseen |= Unseen(part, end_ns);
    sum.all.joules += one.joules, sum.all.device_joules += one.device_joules;
    sum.all.half_width += one.half_width + TrackOf(part).device.counter_step_joules;
    sum.all.sharing_half_width += one.sharing_half_width;
    sum.all.guessed_seconds = std::max(sum.all.guessed_seconds, one.guessed_seconds);
    for (size_t i = 0; i < energy::kSharings; ++i) sum.all.by[i] += one.by[i];
    if (one.flaw != EnergyFlaw::kNone) sum.all.flaw = one.flaw;
    const EnergyDevice& device = TrackOf(part).device;
    sum.by_device.push_back({device.id, device.part,
                             one.flaw == EnergyFlaw::kNone ? std::max(0.0, one.joules) : kNotMeasured,
                             ValidityOf(one.flaw)});
    const auto kind = static_cast<size_t>(TrackOf(part).device.part);
    sum.joules[kind] += one.flaw == EnergyFlaw::kNone ? one.joules : kNotMeasured;
    sum.known[kind] = 1;
  }
  return sum;
}

void OwnAccount::Validate(const Sum& sum, int64_t end_ns, int64_t now_ns, EnergyResult& out) const {
  std::string back;
  for (const Part* part : sum.used) {
    const DeviceTrack& track = TrackOf(*part);
    const auto settled = track.curve.settled_ns();
    const bool silent = track.read_ns == 0 || end_ns - track.read_ns > timeout_ns_;
    if (silent && (sum.all.flaw != EnergyFlaw::kNone || !settled || *settled < end_ns))
      return ReportSilence(track, now_ns, out);
    if (back.empty()) back = Comeback(track);
  }
  ReportFlaw(sum.all.flaw, back, out);
}

std::string OwnAccount::Remarks(const Sum& sum) const {
  std::string out;
  char text[160];
  if (sum.unseen) {
    AddRemark(out, "it ended before the devices were open: the devices it used are unknown");
  } else if (sum.all.guessed_seconds >= 0.0005) {
    std::snprintf(text, sizeof text, "its first %.*f s are estimated from the power read after them",
                  sum.all.guessed_seconds < 0.1 ? 3 : 1, sum.all.guessed_seconds);
    AddRemark(out, text);
  }
  const auto by = [&](SharingMethod way) { return sum.all.by[static_cast<size_t>(way)]; };
  const double shared = by(SharingMethod::kByUtilization) + by(SharingMethod::kEqually);
  if (shared > 0 && sum.all.joules > 0) {
    std::snprintf(text, sizeof text, "%.0f %% of it on devices that other processes used, too",
                  std::ceil(100 * shared / sum.all.joules));
    AddRemark(out, text);
  }
  std::set<std::string> why;
  for (const Part* part : sum.used) {
    if (!part->unreported.ok() && why.insert(part->unreported.detail).second)
      AddRemark(out, "energy of all processes: " + part->unreported.detail);
  }
  return out;
}

void OwnAccount::FillParts(const Sum& sum, EnergyResult& out) const {
  double* const to[energy::kParts] = {&out.gpu_joules, &out.cpu_joules, &out.dram_joules};
  for (size_t i = 0; i < energy::kParts; ++i) {
    if (sum.known[i] > 0) *to[i] = sum.joules[i];
  }
}

void OwnAccount::Fill(const Sum& sum, OwnEnergy& out) const {
  EnergyResult& to = out.energy;
  to.devices = static_cast<uint32_t>(sum.used.size());
  bool counter = true;
  double accuracy = 0;
  for (const Part* part : sum.used) {
    counter &= TrackOf(*part).curve.method() == energy::SpanMethod::kCounter;
    accuracy = std::max(accuracy, TrackOf(*part).device.accuracy_ratio);
  }
  if (accuracy > 0) to.sensor_accuracy_ratio = accuracy;
  for (size_t i = 1; i < energy::kSharings; ++i) {
    if (sum.all.by[i] > 0) out.attribution = static_cast<EnergyAttribution>(i);
  }
  to.by_device = sum.by_device;
  FillTicks(ticks_, to.ticks);
  if (!to.valid()) return;
  to.method = counter ? EnergyMethod::kCounter : EnergyMethod::kPowerIntegral;
  to.energy_joules = std::max(0.0, sum.all.joules);
  to.device_energy_joules = std::max(0.0, sum.all.device_joules);
  to.uncertainty_joules = sum.all.half_width + sum.all.sharing_half_width;
  FillParts(sum, to);
  const double seconds = std::chrono::duration<double>(to.duration).count();
  if (seconds > 0) to.mean_power_watts = to.energy_joules / seconds;
}

OwnEnergy OwnAccount::Result(int64_t now_ns) const {
  const int64_t end_ns = std::min(end_ns_, now_ns);
  OwnEnergy out;
  EnergyResult& to = out.energy;
  to.duration = Duration(end_ns - begin_ns_);
  Sum sum = Add(false, end_ns);
  const Sum auxiliary = Add(true, end_ns);
  to.vendor = vendor_;
  // The run uses processors, and only others use the GPUs.
  const bool processors = sum.used.empty() && !auxiliary.used.empty();
  if (processors) sum = auxiliary, to.vendor = EnergyVendor::kCpuRapl;
  if (sum.used.empty()) {
    to.validity = ended() ? EnergyValidity::kNoDevice : EnergyValidity::kRunning;
    const auto count = std::ranges::count(parts_, false, &Part::auxiliary);
    to.reason = "none of its processes used " +
                (count == 1 ? std::string("the device") : "one of the " + std::to_string(count) + " devices");
    return out;
  }
  Validate(sum, end_ns, now_ns, to);
  Fill(sum, out);
  if (!to.valid()) return out;
  if (!processors && auxiliary.all.flaw == EnergyFlaw::kNone) FillParts(auxiliary, to);
  to.reason = Remarks(sum);
  if (ended()) return out;
  to.validity = EnergyValidity::kRunning;
  for (EnergyOfDevice& one : to.by_device) one.validity = EnergyValidity::kRunning;
  return out;
}

}  // namespace gpulens::sdk
