#include "sdk/energy/device_ledger.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace gpulens::sdk {
namespace {

using energy::EnergyFlaw;
using energy::kParts;

// A device that is silent for this long no longer delays results: its energy during that time is unknown.
constexpr int64_t kGiveUpNs = 5'000'000'000;
// Least time after the last reading for which energy is still extrapolated.
constexpr int64_t kLeastTimeoutNs = 250'000'000;

size_t PartOf(const DeviceTrack& track) noexcept { return static_cast<size_t>(track.device.part); }
double Seconds(int64_t ns) noexcept { return static_cast<double>(ns) * 1e-9; }

size_t SamplesOf(const EnergyOptions& options) noexcept {
  const int64_t interval = std::max<int64_t>(options.interval.count(), 1'000'000);
  return static_cast<size_t>(std::clamp<int64_t>(options.history.count() / interval, 16, 65'536));
}

// Adds a known value; an unknown sum is replaced by it.
void AddTo(double& sum, double value) noexcept {
  if (std::isfinite(value)) sum = std::isnan(sum) ? value : sum + value;
}

energy::EnergyCurve::Options CurveOf(const EnergyDevice& device, size_t readings) {
  energy::EnergyCurve::Options options;
  options.readings = readings;
  if (device.most_watts > 0) options.most_watts = device.most_watts;
  if (device.counter_step_joules >= 0) options.counter_step_joules = device.counter_step_joules;
  const int64_t lag = device.counter_lag.count();
  options.counter_lag_ns = lag < 0 ? energy::EnergyCurve::kLagUnknown : lag;
  return options;
}

bool IsSettled(const DeviceTrack& track, int64_t at_ns) {
  const auto settled = track.curve.settled_ns();
  return settled && *settled >= at_ns;
}

double Sane(double value, bool good) noexcept { return std::isfinite(value) && good ? value : kNotMeasured; }

}  // namespace

DeviceLedger::DeviceLedger(std::deque<DeviceTrack>& tracks, DeviceSelection selection,
                           const EnergyOptions& options)
    : tracks_(tracks),
      selection_(std::move(selection)),
      shares_gpu_(selection_.vendor != EnergyVendor::kCpuRapl),
      timeout_ns_(std::max(kLeastTimeoutNs, 4 * options.interval.count())),
      ledger_(options.share == Share::kByTokens ? energy::ShareLedger::By::kTokens
                                                : energy::ShareLedger::By::kTime),
      cut_([this](int64_t at_ns) { return At(at_ns); }),
      samples_(SamplesOf(options)) {
  for (const auto* list : {&selection_.shared, &selection_.auxiliary})
    for (size_t i : *list) has_part_[PartOf(tracks_[i])] = true;
  open_.reserve(64);
}

energy::EnergyCut DeviceLedger::At(int64_t at_ns) const {
  energy::EnergyCut cut;
  for (size_t i : selection_.shared) {
    const energy::CurvePosition at = tracks_[i].curve.At(at_ns);
    cut.joules += at.joules;
    cut.parts[PartOf(tracks_[i])] += at.joules;
    cut.half_width += std::max(at.high - at.joules, at.joules - at.low);
    cut.integral_half_width += at.integral_half_width;
    cut.flaws_ended += at.flaws_ended;
    cut.flaws_begun += at.flaws_begun;
    if (at.flaw != EnergyFlaw::kNone && cut.flaw != EnergyFlaw::kOutside) cut.flaw = at.flaw;
  }
  for (size_t i : selection_.auxiliary) {
    const energy::CurvePosition at = tracks_[i].curve.At(at_ns);
    const bool good = at.flaws_begun == at.flaws_ended;
    cut.parts[PartOf(tracks_[i])] += good ? at.joules : kNotMeasured;
  }
  if (!std::isfinite(cut.half_width)) cut.half_width = 0;
  return cut;
}

void DeviceLedger::Admit(WindowSlot* slot) {
  slot->TakeOver();
  open_.push_back(slot);
  ledger_.Open(&slot->account);
}

void DeviceLedger::Settle(int64_t now_ns, WindowPool& pool) {
  int64_t until = std::numeric_limits<int64_t>::max();
  for (size_t i : selection_.shared) {
    const auto settled = tracks_[i].curve.settled_ns();
    until = std::min(until, std::max(settled.value_or(0), now_ns - kGiveUpNs));
  }
  if (selection_.shared.empty() || (!ledger_.started() && until == now_ns - kGiveUpNs)) return;
  if (!ledger_.started()) ledger_.Start(until, At(until));
  for (WindowSlot* slot : open_) slot->TakeOver();
  ledger_.Settle(until, cut_);
  std::erase_if(open_, [&](WindowSlot* slot) {
    KeepEdges(*slot);
    if (!slot->account.settled) return false;
    pool.Release(slot);
    return true;
  });
}

DeviceEdge DeviceLedger::EdgeOf(size_t track, int64_t at_ns, EdgeSide side) const {
  const energy::CurvePosition at = tracks_[track].curve.At(at_ns);
  return {at.joules, side == EdgeSide::kBegin ? at.flaws_ended : at.flaws_begun, at.flaw};
}

void DeviceLedger::KeepEdges(WindowSlot& slot) const {
  if (slot.device_begins.empty() && slot.begin_ns() <= ledger_.settled_ns()) {
    for (size_t i : selection_.shared)
      slot.device_begins.push_back(EdgeOf(i, slot.begin_ns(), EdgeSide::kBegin));
  }
  if (!slot.account.settled) return;
  for (size_t i : selection_.shared)
    slot.device_ends.push_back(EdgeOf(i, slot.account.end_ns, EdgeSide::kEnd));
}

double DeviceLedger::AddDevice(size_t track, const DeviceEdge& begin, const DeviceEdge& end, int64_t end_ns,
                               EnergyResult& out) const {
  const DeviceTrack& device = tracks_[track];
  EnergyOfDevice& added = out.by_device.emplace_back();
  added.id = device.device.id;
  added.part = device.device.part;
  EnergyFlaw flaw = EnergyFlaw::kNone;
  if (!std::isfinite(begin.joules) || !std::isfinite(end.joules)) flaw = EnergyFlaw::kOutside;
  else if (end.flaws != begin.flaws) flaw = end.flaw;
  if (IsSilent(device, end_ns) && (flaw != EnergyFlaw::kNone || !IsSettled(device, end_ns)))
    added.validity = EnergyValidity::kSourceFailed;
  else added.validity = ValidityOf(flaw);
  if (added.validity != EnergyValidity::kValid) return kNotMeasured;
  if (out.validity == EnergyValidity::kRunning) added.validity = EnergyValidity::kRunning;
  return added.energy_joules = std::max(0.0, end.joules - begin.joules);
}

// A request has of each device what it has of all: its share changes with the other requests, not with
// the device.
void DeviceLedger::FillDevices(const WindowSlot& slot, int64_t end_ns, EnergyResult& out) const {
  const bool begun = !slot.device_begins.empty(), ended = !slot.device_ends.empty();
  double sum = 0;
  for (size_t k = 0; k < selection_.shared.size(); ++k) {
    const size_t i = selection_.shared[k];
    const DeviceEdge begin = begun ? slot.device_begins[k] : EdgeOf(i, slot.begin_ns(), EdgeSide::kBegin);
    const DeviceEdge end = ended ? slot.device_ends[k] : EdgeOf(i, end_ns, EdgeSide::kEnd);
    sum += AddDevice(i, begin, end, end_ns, out);
  }
  if (!slot.account.shares) return;
  for (EnergyOfDevice& one : out.by_device) {
    if (one.energy_joules > 0) one.energy_joules *= out.energy_joules / sum;
    if (std::isfinite(out.energy_joules)) continue;
    one.energy_joules = kNotMeasured;  // the share is unknown
    if (one.validity == EnergyValidity::kValid) one.validity = out.validity;
  }
}

void DeviceLedger::Drop(WindowPool& pool) {
  for (WindowSlot* slot : open_) pool.Release(slot);
  open_.clear();
}

EnergySample DeviceLedger::SampleOf(int64_t at_ns) const {
  EnergySample out;
  out.at = TimeOf(at_ns);
  double* const watts[kParts] = {&out.gpu_watts, &out.cpu_watts, &out.dram_watts};
  double* const joules[kParts] = {&out.gpu_joules, &out.cpu_joules, &out.dram_joules};
  double utilization = 0, temperature = 0;
  size_t utilizations = 0, temperatures = 0;
  std::array<bool, kParts> silent{};  // a sum without one of its devices would fall
  for (const auto* list : {&selection_.shared, &selection_.auxiliary}) {
    for (size_t i : *list) {
      const DeviceTrack& track = tracks_[i];
      if (track.read_ns <= ticked_ns_) {
        silent[PartOf(track)] = true;
        continue;
      }
      AddTo(*watts[PartOf(track)], track.watts);
      AddTo(*joules[PartOf(track)], track.curve.At(track.read_ns).joules);
      if (list == &selection_.auxiliary) continue;
      AddTo(out.memory_used_bytes, track.latest.memory_used_bytes);
      if (std::isfinite(track.latest.utilization_ratio))
        utilization += track.latest.utilization_ratio, ++utilizations;
      if (std::isfinite(track.latest.temperature_celsius))
        temperature += track.latest.temperature_celsius, ++temperatures;
    }
  }
  for (size_t part = 0; part < kParts; ++part)
    if (silent[part]) *watts[part] = *joules[part] = kNotMeasured;
  if (utilizations > 0) out.utilization_ratio = utilization / static_cast<double>(utilizations);
  if (temperatures > 0) out.temperature_celsius = temperature / static_cast<double>(temperatures);
  return out;
}

// Without an answer of each device the sums are wrong, so there is no tick.
void DeviceLedger::Tick(int64_t at_ns) {
  for (size_t i : selection_.shared) {
    if (tracks_[i].read_ns <= ticked_ns_) return;
  }
  const EnergySample sample = SampleOf(at_ns);
  ticked_ns_ = at_ns;
  samples_[next_sample_] = sample;
  next_sample_ = (next_sample_ + 1) % samples_.size();
  sample_count_ = std::min(sample_count_ + 1, samples_.size());
  for (WindowSlot* slot : open_) {
    if (slot->begin_ns() > at_ns || slot->end_ns() < at_ns) continue;
    AddSample(sample, slot->ticks);
  }
}

void DeviceLedger::AddSample(const EnergySample& sample, TickSums& sums) const noexcept {
  double watts = shares_gpu_ ? sample.gpu_watts : sample.cpu_watts;
  if (!shares_gpu_) AddTo(watts, sample.dram_watts);
  ++sums.count;
  sums.watts.Add(watts);
  sums.utilization.Add(sample.utilization_ratio);
  sums.memory.Add(sample.memory_used_bytes);
  sums.temperature.Add(sample.temperature_celsius);
}

bool DeviceLedger::SettledAt(int64_t at_ns) const {
  return std::ranges::all_of(selection_.shared, [&](size_t i) { return IsSettled(tracks_[i], at_ns); });
}

// Returns a device that has not answered within the timeout before `at_ns`, or null.
const DeviceTrack* DeviceLedger::Silent(int64_t at_ns) const {
  for (size_t i : selection_.shared) {
    if (IsSilent(tracks_[i], at_ns)) return &tracks_[i];
  }
  return nullptr;
}

energy::EnergySpan DeviceLedger::Whole(int64_t from_ns, int64_t to_ns) const {
  energy::EnergySpan sum{
      .joules = 0, .half_width_joules = 0, .scale_half_width_joules = 0, .shape_half_width_joules = 0};
  for (size_t i : selection_.shared) {
    const energy::EnergySpan span = tracks_[i].curve.Between(from_ns, to_ns);
    sum.joules += span.joules;
    sum.half_width_joules += span.half_width_joules;
    sum.scale_half_width_joules += span.scale_half_width_joules;
    sum.shape_half_width_joules += span.shape_half_width_joules;
  }
  return sum;
}

void DeviceLedger::Explain(const Status& status, EnergyResult& out) {
  switch (status.code) {
    case Code::kPermissionDenied: out.validity = EnergyValidity::kPermissionDenied; break;
    case Code::kTimeout: out.validity = EnergyValidity::kSourceFailed; break;
    default: out.validity = EnergyValidity::kNoDevice; break;
  }
  out.reason = status.detail;
}

std::string DeviceLedger::Comebacks() const {
  for (size_t i : selection_.shared) {
    if (std::string back = Comeback(tracks_[i]); !back.empty()) return back;
  }
  return {};
}

void DeviceLedger::Validate(EnergyFlaw flaw, int64_t at_ns, int64_t now_ns, EnergyResult& out) const {
  if (const DeviceTrack* silent = Silent(at_ns); silent && (flaw != EnergyFlaw::kNone || !SettledAt(at_ns)))
    return ReportSilence(*silent, now_ns, out);
  ReportFlaw(flaw, Comebacks(), out);
}

void DeviceLedger::Fill(const energy::EnergyAccount::Both& both, EnergyResult& out) const {
  const double seconds = Seconds(both.mine.ns);
  out.duration = Duration(both.mine.ns);
  out.devices = static_cast<uint32_t>(selection_.shared.size());
  out.vendor = selection_.vendor;
  bool counter = true;
  double accuracy = 0, steps = 0;
  for (size_t i : selection_.shared) {
    counter &= tracks_[i].curve.method() == energy::SpanMethod::kCounter;
    accuracy = std::max(accuracy, tracks_[i].device.accuracy_ratio);
    steps += tracks_[i].device.counter_step_joules;
  }
  if (accuracy > 0) out.sensor_accuracy_ratio = accuracy;
  if (out.validity != EnergyValidity::kValid) return;
  out.method = counter ? EnergyMethod::kCounter : EnergyMethod::kPowerIntegral;
  out.energy_joules = std::max(0.0, both.mine.joules);
  out.device_energy_joules = std::max(0.0, both.devices.joules);
  out.uncertainty_joules = both.mine.half_width + (counter ? steps : 0);
  double* const parts[kParts] = {&out.gpu_joules, &out.cpu_joules, &out.dram_joules};
  for (size_t part = 0; part < kParts; ++part) {
    if (has_part_[part] && !both.mine.missing[part]) *parts[part] = std::max(0.0, both.mine.parts[part]);
  }
  if (seconds > 0) out.mean_power_watts = out.energy_joules / seconds;
}

// Remark on other processes that use the devices; empty when there are none.
std::string DeviceLedger::Company() const {
  double most = 0;
  for (size_t i : selection_.shared) most = std::max(most, tracks_[i].latest.processes);
  if (!(most >= 2)) return {};
  return std::to_string(static_cast<int>(most)) +
         " processes use one of these devices: it is the energy of all of them";
}

// Narrows the uncertainty: with both edges in one step of the counter it is at most the step. A part of the
// window, which is a share or a phase, is at most the whole, and as certain as the power shows the whole to
// be. Values settled at each edge may differ from what is known of both now.
void DeviceLedger::Narrow(const energy::EnergySpan& whole, bool part, EnergyResult& out) {
  const double most = whole.joules + whole.half_width_joules;
  if (!std::isfinite(most)) return;
  double off = std::abs(out.energy_joules - whole.joules) + whole.half_width_joules;
  if (part) {
    off = std::max(out.energy_joules, most - out.energy_joules);
    const double of_whole = whole.joules > 0 ? std::min(out.energy_joules / whole.joules, 1.0) : 1;
    const double by_power = whole.scale_half_width_joules * of_whole + whole.shape_half_width_joules;
    if (std::isfinite(by_power)) off = std::min(off, by_power);
  }
  out.uncertainty_joules = std::min(out.uncertainty_joules, off);
}

EnergyResult DeviceLedger::ResultOf(WindowSlot& slot, uint8_t phase, int64_t now_ns) const {
  EnergyResult out;
  const bool running = !slot.ended();
  if (!slot.account.settled) slot.TakeOver();
  const int64_t end_ns = running ? now_ns : slot.end_ns();
  const energy::EnergyAccount account = ledger_.Project(slot.account, end_ns, cut_);
  const energy::EnergyAccount::Both& both = phase == 0 ? account.total : account.phases[phase];
  Validate(both.devices.flaw, end_ns, now_ns, out);
  Fill(both, out);
  FillTicks(phase == 0 ? slot.ticks : TickSums{}, out.ticks);
  if (phase == 0) out.duration = Duration(end_ns - slot.begin_ns());
  if (out.valid()) {
    // A request that was alone has the whole.
    const bool part = phase != 0 || out.energy_joules < out.device_energy_joules * (1 - 1e-9);
    Narrow(Whole(slot.begin_ns(), end_ns), part, out);
    out.reason = Company();
    if (slot.lost_marks() > 0) out.reason = "more than 16 marks between two readings: some are not counted";
    if (running) out.validity = EnergyValidity::kRunning;
  }
  if (phase == 0) FillDevices(slot, end_ns, out);
  return out;
}

EnergyResult DeviceLedger::Between(int64_t from_ns, int64_t to_ns) const {
  EnergyResult out;
  energy::EnergyAccount::Both both;
  const energy::EnergyCut begin = At(from_ns), end = At(to_ns);
  both.mine.ns = to_ns - from_ns;
  both.mine.joules = end.joules - begin.joules;
  both.mine.half_width = Whole(from_ns, to_ns).half_width_joules;
  for (size_t part = 0; part < kParts; ++part) {
    both.mine.parts[part] = end.parts[part] - begin.parts[part];
    both.mine.missing[part] = !std::isfinite(both.mine.parts[part]);
  }
  if (!std::isfinite(both.mine.joules) || to_ns < from_ns) both.mine.flaw = EnergyFlaw::kOutside;
  else if (end.flaws_begun != begin.flaws_ended) both.mine.flaw = end.flaw;
  both.devices = both.mine;
  Validate(both.mine.flaw, to_ns, to_ns, out);
  Fill(both, out);
  for (size_t i : selection_.shared)
    AddDevice(i, EdgeOf(i, from_ns, EdgeSide::kBegin), EdgeOf(i, to_ns, EdgeSide::kEnd), to_ns, out);
  TickSums sums;
  for (const EnergySample& sample : History(from_ns, to_ns)) AddSample(sample, sums);
  FillTicks(sums, out.ticks);
  return out;
}

std::vector<EnergySample> DeviceLedger::History(int64_t from_ns, int64_t to_ns) const {
  std::vector<EnergySample> out;
  const size_t first = next_sample_ + samples_.size() - sample_count_;
  for (size_t i = 0; i < sample_count_; ++i) {
    const EnergySample& sample = samples_[(first + i) % samples_.size()];
    if (NsOf(sample.at) >= from_ns && NsOf(sample.at) <= to_ns) out.push_back(sample);
  }
  return out;
}

DeviceTrack::DeviceTrack(std::shared_ptr<EnergySource> from, size_t number_there, EnergyDevice what,
                         size_t kept)
    : source(std::move(from)), number(number_there), device(std::move(what)), curve(CurveOf(device, kept)) {}

void DeviceTrack::Take(const EnergyReading& reading, int64_t queried_ns, int64_t at_ns) {
  latest.joules = Sane(reading.joules, reading.joules >= 0);
  latest.watts = Sane(reading.watts, reading.watts >= 0);
  latest.utilization_ratio =
      Sane(reading.utilization_ratio, reading.utilization_ratio >= 0 && reading.utilization_ratio <= 1);
  latest.memory_used_bytes = Sane(reading.memory_used_bytes, reading.memory_used_bytes >= 0);
  latest.temperature_celsius = Sane(reading.temperature_celsius, true);
  latest.processes = Sane(reading.processes, reading.processes >= 0);
  if (std::isnan(latest.joules) && std::isnan(latest.watts))
    return Fail({Code::kDataLoss, "reports neither energy nor power"}, at_ns);
  failure = {};
  failing_since_ns = 0;
  if (reopened) back_ns = at_ns;
  reopened = false;
  read_ns = at_ns;
  ++readings;
  watts = latest.watts;
  if (!std::isnan(latest.joules) && latest.joules != counted_joules_) {
    const double gained = latest.joules - counted_joules_;
    if (std::isnan(watts) && gained > 0 && at_ns > counted_ns_)
      watts = gained / (static_cast<double>(at_ns - counted_ns_) * 1e-9);
    counted_joules_ = latest.joules;
    counted_ns_ = at_ns;
  }
  // A source may state the time of its reading.
  const int64_t began_ns = reading.began.time_since_epoch().count(),
                ended_ns = reading.ended.time_since_epoch().count();
  const bool reported = began_ns > 0 && began_ns <= ended_ns && ended_ns <= at_ns;
  curve.Add({.at_ns = reported ? ended_ns : at_ns,
             .counter_joules = latest.joules,
             .power_watts = latest.watts,
             .took_ns = reported ? ended_ns - began_ns : at_ns - queried_ns});
}

void DeviceTrack::Fail(Status status, int64_t at_ns) {
  failure = std::move(status);
  if (failing_since_ns == 0) failing_since_ns = at_ns;
}

void ReportSilence(const DeviceTrack& track, int64_t now_ns, EnergyResult& out) {
  out.validity = EnergyValidity::kSourceFailed;
  char text[64] = " has never answered";
  if (track.read_ns != 0)
    std::snprintf(text, sizeof text, " has not answered for %.1f s",
                  static_cast<double>(now_ns - track.read_ns) * 1e-9);
  out.reason = std::string(track.source->name()) + ": " + track.device.id + text;
  const std::string doing = track.source->Doing();
  if (!track.failure.ok()) out.reason += ": " + track.failure.detail;
  else if (!doing.empty()) out.reason += ", in " + doing;
}

EnergyValidity ValidityOf(EnergyFlaw flaw) noexcept {
  switch (flaw) {
    case EnergyFlaw::kNone: return EnergyValidity::kValid;
    case EnergyFlaw::kCounterReset: return EnergyValidity::kCounterReset;
    case EnergyFlaw::kGap:
    case EnergyFlaw::kOutside: return EnergyValidity::kGap;
    case EnergyFlaw::kNoSensor: break;
  }
  return EnergyValidity::kSourceFailed;
}

void ReportFlaw(EnergyFlaw flaw, const std::string& more, EnergyResult& out) {
  out.validity = ValidityOf(flaw);
  switch (flaw) {
    case EnergyFlaw::kNone: return;
    case EnergyFlaw::kCounterReset:
      out.reason = "an energy counter fell meanwhile: a driver was reloaded, or a GPU was reset" + more;
      return;
    case EnergyFlaw::kGap:
      out.reason =
          "nothing was read for 2 s or longer meanwhile: the process was stopped, or a driver hung" + more;
      return;
    case EnergyFlaw::kOutside:
      out.reason =
          "it begins before the stored readings: before the first one, or longer ago than the history" + more;
      return;
    case EnergyFlaw::kNoSensor: out.reason = "the devices report neither energy nor power"; return;
  }
}

std::string Comeback(const DeviceTrack& track) {
  if (track.back_ns == 0) return {};
  return "; " + std::string(track.source->name()) + ": " + track.device.id + " was lost and is back";
}

void FillTicks(const TickSums& sums, EnergyTicks& out) {
  out.count = sums.count;
  const auto fill = [](const TickSums::Statistic& one, double& mean, double& peak) {
    if (one.count == 0) return;
    mean = one.sum / one.count;
    peak = one.peak;
  };
  fill(sums.watts, out.mean_power_watts, out.peak_power_watts);
  fill(sums.utilization, out.mean_utilization_ratio, out.peak_utilization_ratio);
  fill(sums.memory, out.mean_memory_used_bytes, out.peak_memory_used_bytes);
  fill(sums.temperature, out.mean_temperature_celsius, out.peak_temperature_celsius);
}

}  // namespace gpulens::sdk
