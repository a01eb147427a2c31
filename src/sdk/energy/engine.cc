#include "sdk/energy/engine.h"

#include <algorithm>
#include <cstdio>

#include "base/parse.h"
#include "base/result.h"
#include "sdk/energy/feed/guarded.h"

namespace gpulens::sdk {
namespace {

constexpr size_t kMostReadings = 65'536;
// At 2 ms these cover five steps of the slowest known counter.
constexpr uint32_t kClosestReadings = 300;
constexpr int64_t kStuckNs = 500'000'000;
constexpr int64_t kLeastIntervalNs = 1'000'000, kMostIntervalNs = 10'000'000'000;

size_t ReadingsOf(const EnergyOptions& options) noexcept {
  const int64_t ticks =
      options.history.count() / std::max<int64_t>(options.interval.count(), kLeastIntervalNs);
  return std::min(static_cast<size_t>(std::max<int64_t>(ticks, 0)) + kReadings / 2, kMostReadings);
}

// A device is lost when its readings fail for this long.
constexpr int64_t kLostNs = 1'000'000'000;
constexpr int64_t kFirstPauseNs = 1'000'000'000, kLongestPauseNs = 60'000'000'000;

}  // namespace

EnergyEngine::EnergyEngine(EnergySources sources, const Clock& clock)
    : clock_(clock), sources_(std::move(sources)) {}

template <class F>
Status EnergyEngine::CallSource(const EnergySource& source, F call) {
  in_since_ns_.store(Now(), std::memory_order_relaxed);
  in_.store(&source, std::memory_order_release);
  Status status = Guarded(call);
  in_.store(nullptr, std::memory_order_release);
  return status;
}

template <class F>
Status EnergyEngine::CallDevice(const DeviceTrack& track, F call) {
  if (track.number == DeviceTrack::kGone)
    return {Code::kUnavailable, "it was missing when its source was reopened"};
  return CallSource(*track.source, call);
}

Result<std::vector<EnergyDevice>> EnergyEngine::OpenSource(EnergySource& source) {
  std::vector<EnergyDevice> devices;
  Status status = CallSource(source, [&]() -> Status {
    ASSIGN_OR_RETURN(devices, source.Open());
    return {};
  });
  if (!status.ok()) return status;
  return devices;
}

void EnergyEngine::Open() {
  for (const std::shared_ptr<EnergySource>& source : sources_) {
    auto devices = OpenSource(*source);
    std::lock_guard lock(mutex_);
    opened_sources_.push_back({source->vendor(), std::string(source->name()), devices.status()});
    if (!devices) continue;
    for (size_t i = 0; i < devices->size() && tracks_.size() < kMostDevices; ++i)
      tracks_.emplace_back(source, i, std::move((*devices)[i]), kReadings);
  }
  opened_.store(true, std::memory_order_release);
}

std::string EnergyEngine::Stuck() const {
  const EnergySource* source = in_.load(std::memory_order_acquire);
  const int64_t since = Now() - in_since_ns_.load(std::memory_order_relaxed);
  if (!source || since < kStuckNs) return {};
  char text[48];
  std::snprintf(text, sizeof text, " has not come back for %.1f s", static_cast<double>(since) * 1e-9);
  const std::string doing = source->Doing();
  return std::string(source->name()) + text + (doing.empty() ? "" : ", from " + doing);
}

void EnergyEngine::ReadOne(DeviceTrack& track) {
  EnergyReading reading;
  const int64_t queried_ns = Now();
  Status status = CallDevice(track, [&] { return track.source->Read(track.number, reading); });
  const int64_t at_ns = Now();
  std::lock_guard lock(mutex_);
  if (status.ok()) track.Take(reading, queried_ns, at_ns);
  else track.Fail(std::move(status), at_ns);
}

void EnergyEngine::Round(bool whole) {
  for (DeviceTrack& track : tracks_) {
    {
      std::lock_guard lock(mutex_);
      if (track.users == 0) continue;
    }
    ReadOne(track);
  }
  ScanProcesses();
  if (whole) ReopenWhatFails();
  const int64_t now_ns = Now();
  std::lock_guard lock(mutex_);
  learning_.store(std::ranges::any_of(tracks_,
                                      [](const DeviceTrack& track) {
                                        return track.users > 0 && track.readings < kClosestReadings &&
                                               track.curve.learning();
                                      }),
                  std::memory_order_relaxed);
  TakeFresh();
  for (const Entry& entry : ledgers_) {
    if (whole) entry.ledger->Tick(now_ns);
    entry.ledger->Settle(now_ns, pool_);
  }
  for (const auto& own : owns_) own->Settle();
}

void EnergyEngine::TakeFresh() {
  pool_.TakeFresh([](WindowSlot* slot) { slot->ledger()->Admit(slot); });
}

Status EnergyEngine::NothingFound() const {
  Status out{Code::kUnavailable, "no device whose energy can be read (see gpulens doctor)"};
  for (const Opened& source : opened_sources_) {
    const Code code = source.status.code;
    if (code == Code::kPermissionDenied) out.code = code;
    out.detail += "; " + source.name + ": " + (source.status.ok() ? "nothing usable" : source.status.detail);
  }
  return out;
}

DeviceSelection EnergyEngine::ChooseById(const EnergyOptions& options) const {
  DeviceSelection out;
  for (const std::string& id : options.devices) {
    const auto found = std::ranges::find_if(
        tracks_, [&](const DeviceTrack& track) { return EqualsIgnoringCase(track.device.id, id); });
    if (found == tracks_.end()) {
      std::string list;
      for (const DeviceTrack& track : tracks_) list += (list.empty() ? "" : ", ") + track.device.id;
      out.status = {Code::kInvalidArgument,
                    "there is no device '" + id + "'; there are: " + (list.empty() ? "none" : list)};
      return out;
    }
    const size_t number = static_cast<size_t>(found - tracks_.begin());
    if (std::ranges::count(out.shared, number) > 0) continue;
    out.shared.push_back(number);
    const bool gpu = found->device.part == EnergyPart::kGpu;
    if (gpu || out.vendor == EnergyVendor::kNone)
      out.vendor = gpu ? found->source->vendor() : EnergyVendor::kCpuRapl;
  }
  // With a GPU the processor is reported in addition and never added, even when it is chosen by name.
  const auto is_gpu = [&](size_t i) { return tracks_[i].device.part == EnergyPart::kGpu; };
  if (std::ranges::any_of(out.shared, is_gpu))
    std::erase_if(out.shared, [&](size_t i) { return !is_gpu(i); });
  AddAuxiliary(out);
  return out;
}

void EnergyEngine::AddAuxiliary(DeviceSelection& selection) const {
  if (selection.vendor == EnergyVendor::kCpuRapl) return;
  for (size_t i = 0; i < tracks_.size(); ++i)
    if (tracks_[i].device.part != EnergyPart::kGpu && tracks_[i].device.usable)
      selection.auxiliary.push_back(i);
}

DeviceSelection EnergyEngine::Choose(const EnergyOptions& options) const {
  if (!options.devices.empty()) return ChooseById(options);
  DeviceSelection out;
  constexpr EnergyVendor kOrder[] = {EnergyVendor::kNvidia, EnergyVendor::kAmd, EnergyVendor::kApple,
                                     EnergyVendor::kNone, EnergyVendor::kCpuRapl};
  auto choose = [&](EnergyVendor vendor) {
    const bool processors = vendor == EnergyVendor::kCpuRapl;
    for (size_t i = 0; i < tracks_.size(); ++i) {
      const bool gpu = tracks_[i].device.part == EnergyPart::kGpu;
      if (!tracks_[i].device.usable || gpu == processors) continue;
      if (processors || tracks_[i].source->vendor() == vendor) out.shared.push_back(i);
    }
    if (!out.shared.empty()) out.vendor = vendor;
    return !out.shared.empty();
  };
  // A GPU that cannot be followed as chosen is not replaced by another device.
  for (const Opened& source : opened_sources_) {
    if (source.status.code == Code::kInvalidArgument) {
      out.status = {Code::kUnavailable, source.name + ": " + source.status.detail};
      return out;
    }
  }
  if (options.prefer == EnergyVendor::kNone || !choose(options.prefer)) {
    if (std::ranges::none_of(kOrder, choose)) out.status = NothingFound();
  }
  AddAuxiliary(out);
  return out;
}

DeviceLedger* EnergyEngine::AddLedger(const EnergyOptions& options) {
  std::lock_guard lock(mutex_);
  DeviceSelection selection;
  if (opened()) selection = Choose(options);
  else selection.status = {Code::kTimeout, "the devices are still being opened"};
  if (selection.status.ok()) {
    for (const auto* list : {&selection.shared, &selection.auxiliary})
      for (size_t i : *list) {
        ++tracks_[i].users;
        tracks_[i].curve.Keep(ReadingsOf(options));
      }
    users_.fetch_add(1, std::memory_order_relaxed);
  }
  ledgers_.push_back(
      {std::make_unique<DeviceLedger>(tracks_, std::move(selection), options), options.interval});
  FindInterval();
  return ledgers_.back().ledger.get();
}

void EnergyEngine::RemoveLedger(DeviceLedger* ledger) {
  std::lock_guard lock(mutex_);
  TakeFresh();
  ledger->Drop(pool_);
  if (ledger->selection().status.ok()) {
    for (const auto* list : {&ledger->selection().shared, &ledger->selection().auxiliary})
      for (size_t i : *list) --tracks_[i].users;
    users_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::erase_if(ledgers_, [&](const Entry& entry) { return entry.ledger.get() == ledger; });
  FindInterval();
}

void EnergyEngine::FindInterval() {
  int64_t shortest = kMostIntervalNs;
  for (const Entry& entry : ledgers_) {
    if (entry.ledger->selection().status.ok()) shortest = std::min<int64_t>(shortest, entry.interval.count());
  }
  interval_ns_.store(std::max(shortest, kLeastIntervalNs), std::memory_order_relaxed);
}

std::vector<EnergyDevice> EnergyEngine::DevicesOf(const DeviceLedger& ledger) const {
  std::lock_guard lock(mutex_);
  std::vector<EnergyDevice> out;
  for (const auto* list : {&ledger.selection().shared, &ledger.selection().auxiliary})
    for (size_t i : *list) out.push_back(tracks_[i].device);
  return out;
}

bool EnergyEngine::HasRead(const DeviceLedger& ledger) const {
  std::lock_guard lock(mutex_);
  const auto read = [&](size_t i) { return tracks_[i].read_ns > 0 || !tracks_[i].failure.ok(); };
  return std::ranges::all_of(ledger.selection().shared, read) &&
         std::ranges::all_of(ledger.selection().auxiliary, read);
}

EnergyResult EnergyEngine::ResultOf(WindowSlot& slot, uint8_t phase) {
  const int64_t now_ns = Now();
  std::lock_guard lock(mutex_);
  TakeFresh();
  slot.ledger()->Settle(now_ns, pool_);
  return slot.ledger()->ResultOf(slot, phase, now_ns);
}

bool EnergyEngine::Failing(size_t source, int64_t now_ns) const {
  return std::ranges::any_of(tracks_, [&](const DeviceTrack& track) {
    return track.source == sources_[source] && track.users > 0 && track.failing_since_ns > 0 &&
           now_ns - track.failing_since_ns >= kLostNs;
  });
}

void EnergyEngine::ReopenWhatFails() {
  for (size_t i = 0; i < opened_sources_.size(); ++i) {
    const int64_t now_ns = Now();
    {
      std::lock_guard lock(mutex_);
      Opened& opened = opened_sources_[i];
      if (!Failing(i, now_ns)) {
        opened.next_try_ns = opened.pause_ns = 0;
        continue;
      }
      if (now_ns < opened.next_try_ns) continue;
      opened.pause_ns = std::clamp(2 * opened.pause_ns, kFirstPauseNs, kLongestPauseNs);
      opened.next_try_ns = now_ns + opened.pause_ns;
    }
    auto devices = OpenSource(*sources_[i]);
    std::lock_guard lock(mutex_);
    opened_sources_[i].status = devices.status();
    if (devices) TakeDevices(i, *std::move(devices));
  }
}

void EnergyEngine::TakeDevices(size_t source, std::vector<EnergyDevice> devices) {
  for (DeviceTrack& track : tracks_) {
    if (track.source != sources_[source]) continue;
    const auto same = std::ranges::find(devices, track.device.id, &EnergyDevice::id);
    track.number = same == devices.end() ? DeviceTrack::kGone : static_cast<size_t>(same - devices.begin());
    track.reopened = track.failing_since_ns > 0;
    if (same != devices.end()) same->id.clear();
  }
  // Monitors that begin later use the new devices.
  for (size_t i = 0; i < devices.size() && tracks_.size() < kMostDevices; ++i) {
    if (!devices[i].id.empty()) tracks_.emplace_back(sources_[source], i, std::move(devices[i]), kReadings);
  }
}

void EnergyEngine::ScanProcesses() {
  for (size_t i = 0; i < tracks_.size(); ++i) {
    {
      std::lock_guard lock(mutex_);
      const int64_t now_ns = Now();
      if (std::ranges::none_of(owns_, [&](const auto& own) { return own->NeedsScan(i, now_ns); })) continue;
    }
    EnergyProcesses processes;
    const DeviceTrack& track = tracks_[i];
    const Status status = CallDevice(track, [&] { return track.source->Processes(track.number, processes); });
    std::lock_guard lock(mutex_);
    const int64_t at_ns = Now();
    for (const auto& own : owns_) own->Observe(i, at_ns, status, processes);
  }
  std::lock_guard lock(mutex_);
  for (const auto& own : owns_) own->Tick();
}

OwnAccount* EnergyEngine::AddOwn(const DeviceLedger& ledger, int64_t begin_ns) {
  std::lock_guard lock(mutex_);
  owns_.push_back(std::make_unique<OwnAccount>(tracks_, ledger.selection(), ledger.timeout_ns(), begin_ns));
  return owns_.back().get();
}

void EnergyEngine::RemoveOwn(OwnAccount* account) {
  std::lock_guard lock(mutex_);
  std::erase_if(owns_, [&](const auto& own) { return own.get() == account; });
}

}  // namespace gpulens::sdk
