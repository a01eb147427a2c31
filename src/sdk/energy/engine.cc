#include "sdk/energy/engine.h"

#include <algorithm>
#include <cstdio>

#include "base/parse.h"
#include "sdk/energy/feed/guarded.h"

namespace gpulens::sdk {
namespace {

constexpr size_t kMostReadings = 65'536;
// At 2 ms these see five steps of the slowest counter that is known.
constexpr uint32_t kClosestReadings = 300;
constexpr int64_t kStuckNs = 500'000'000;
constexpr int64_t kLeastIntervalNs = 1'000'000, kMostIntervalNs = 10'000'000'000;

class Steady final : public Clock {
 public:
  Instant Now() const noexcept override {
    const int64_t ns = std::chrono::steady_clock::now().time_since_epoch().count();
    return {ns, ns};
  }
};

size_t ReadingsOf(const EnergyOptions& options) noexcept {
  const int64_t ticks =
      options.history.count() / std::max<int64_t>(options.interval.count(), kLeastIntervalNs);
  return std::min(static_cast<size_t>(std::max<int64_t>(ticks, 0)) + kReadings / 2, kMostReadings);
}

}  // namespace

const Clock& SteadyClock() noexcept {
  static const Steady clock;
  return clock;
}

Engine::Engine(Sources sources, const Clock& clock) : clock_(clock), sources_(std::move(sources)) {}

Result<std::vector<EnergyDevice>> Engine::OpenSource(EnergySource& source) {
  std::vector<EnergyDevice> devices;
  in_since_ns_.store(Now(), std::memory_order_relaxed);
  in_.store(&source, std::memory_order_release);
  Status status = Guarded([&]() -> Status {
    auto found = source.Open();
    if (!found) return found.error();
    devices = *std::move(found);
    return {};
  });
  in_.store(nullptr, std::memory_order_release);
  if (!status.ok()) return status;
  return devices;
}

void Engine::Open() {
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

std::string Engine::Stuck() const {
  const EnergySource* source = in_.load(std::memory_order_acquire);
  const int64_t since = Now() - in_since_ns_.load(std::memory_order_relaxed);
  if (!source || since < kStuckNs) return {};
  char text[48];
  std::snprintf(text, sizeof text, " has not come back for %.1f s", static_cast<double>(since) * 1e-9);
  const std::string doing = source->Doing();
  return std::string(source->name()) + text + (doing.empty() ? "" : ", from " + doing);
}

void Engine::ReadOne(Track& track) {
  EnergyReading reading;
  const int64_t queried_ns = Now();
  in_since_ns_.store(queried_ns, std::memory_order_relaxed);
  in_.store(track.source.get(), std::memory_order_release);
  Status status = track.number == Track::kGone
                      ? Status{Code::kUnavailable, "it was missing when its source was reopened"}
                      : Guarded([&] { return track.source->Read(track.number, reading); });
  in_.store(nullptr, std::memory_order_release);
  const int64_t at_ns = Now();
  std::lock_guard lock(mutex_);
  if (status.ok()) track.Take(reading, queried_ns, at_ns);
  else track.Fail(std::move(status), at_ns);
}

void Engine::Round(bool whole) {
  for (Track& track : tracks_) {
    {
      std::lock_guard lock(mutex_);
      if (track.users == 0) continue;
    }
    ReadOne(track);
  }
  LookWhoUses();
  if (whole) ReopenWhatFails();
  const int64_t now_ns = Now();
  std::lock_guard lock(mutex_);
  learning_.store(std::ranges::any_of(tracks_,
                                      [](const Track& track) {
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

void Engine::TakeFresh() {
  pool_.TakeFresh([](WindowSlot* slot) { slot->ledger()->Admit(slot); });
}

Status Engine::NothingFound() const {
  Status out{Code::kUnavailable, "no device whose energy can be read (see gpulens doctor)"};
  for (const Opened& source : opened_sources_) {
    const Code code = source.status.code;
    if (code == Code::kPermissionDenied) out.code = code;
    out.detail += "; " + source.name + ": " + (source.status.ok() ? "nothing usable" : source.status.detail);
  }
  return out;
}

Selection Engine::ChooseById(const EnergyOptions& options) const {
  Selection out;
  for (const std::string& id : options.devices) {
    const auto found = std::ranges::find_if(
        tracks_, [&](const Track& track) { return EqualsIgnoringCase(track.device.id, id); });
    if (found == tracks_.end()) {
      std::string list;
      for (const Track& track : tracks_) list += (list.empty() ? "" : ", ") + track.device.id;
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
  // Beside a GPU the processor is told, not added, also when it is asked for by name.
  const auto is_gpu = [&](size_t i) { return tracks_[i].device.part == EnergyPart::kGpu; };
  if (std::ranges::any_of(out.shared, is_gpu))
    std::erase_if(out.shared, [&](size_t i) { return !is_gpu(i); });
  AddBeside(out);
  return out;
}

void Engine::AddBeside(Selection& selection) const {
  if (selection.vendor == EnergyVendor::kCpuRapl) return;
  for (size_t i = 0; i < tracks_.size(); ++i)
    if (tracks_[i].device.part != EnergyPart::kGpu && tracks_[i].device.usable) selection.beside.push_back(i);
}

Selection Engine::Choose(const EnergyOptions& options) const {
  if (!options.devices.empty()) return ChooseById(options);
  Selection out;
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
  // A GPU that was asked for in a way that cannot be followed is not replaced by something else.
  for (const Opened& source : opened_sources_) {
    if (source.status.code == Code::kInvalidArgument) {
      out.status = {Code::kUnavailable, source.name + ": " + source.status.detail};
      return out;
    }
  }
  if (options.prefer == EnergyVendor::kNone || !choose(options.prefer)) {
    if (std::ranges::none_of(kOrder, choose)) out.status = NothingFound();
  }
  AddBeside(out);
  return out;
}

DeviceLedger* Engine::AddRegistry(const EnergyOptions& options) {
  std::lock_guard lock(mutex_);
  Selection selection;
  if (opened()) selection = Choose(options);
  else selection.status = {Code::kTimeout, "the devices are still being opened"};
  if (selection.status.ok()) {
    for (const auto* list : {&selection.shared, &selection.beside})
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

void Engine::RemoveLedger(DeviceLedger* ledger) {
  std::lock_guard lock(mutex_);
  TakeFresh();
  ledger->Drop(pool_);
  if (ledger->selection().status.ok()) {
    for (const auto* list : {&ledger->selection().shared, &ledger->selection().beside})
      for (size_t i : *list) --tracks_[i].users;
    users_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::erase_if(ledgers_, [&](const Entry& entry) { return entry.ledger.get() == ledger; });
  FindInterval();
}

void Engine::FindInterval() {
  int64_t shortest = kMostIntervalNs;
  for (const Entry& entry : ledgers_) {
    if (entry.ledger->selection().status.ok()) shortest = std::min<int64_t>(shortest, entry.interval.count());
  }
  interval_ns_.store(std::max(shortest, kLeastIntervalNs), std::memory_order_relaxed);
}

std::vector<EnergyDevice> Engine::DevicesOf(const DeviceLedger& ledger) const {
  std::lock_guard lock(mutex_);
  std::vector<EnergyDevice> out;
  for (const auto* list : {&ledger.selection().shared, &ledger.selection().beside})
    for (size_t i : *list) out.push_back(tracks_[i].device);
  return out;
}

bool Engine::SettledAt(const DeviceLedger& ledger, int64_t at_ns) const {
  std::lock_guard lock(mutex_);
  return ledger.SettledAt(at_ns);
}

bool Engine::HasRead(const DeviceLedger& ledger) const {
  std::lock_guard lock(mutex_);
  const auto read = [&](size_t i) { return tracks_[i].read_ns > 0 || !tracks_[i].failure.ok(); };
  return std::ranges::all_of(ledger.selection().shared, read) &&
         std::ranges::all_of(ledger.selection().beside, read);
}

EnergyResult Engine::ResultOf(WindowSlot& slot, uint8_t phase) {
  const int64_t now_ns = Now();
  std::lock_guard lock(mutex_);
  TakeFresh();
  slot.ledger()->Settle(now_ns, pool_);
  return slot.ledger()->ResultOf(slot, phase, now_ns);
}

EnergyResult Engine::Between(const DeviceLedger& ledger, int64_t from_ns, int64_t to_ns) const {
  std::lock_guard lock(mutex_);
  return ledger.Between(from_ns, to_ns);
}

std::vector<EnergySample> Engine::History(const DeviceLedger& ledger, int64_t from_ns, int64_t to_ns) const {
  std::lock_guard lock(mutex_);
  return ledger.History(from_ns, to_ns);
}

double Engine::Unattributed(const DeviceLedger& ledger) const {
  std::lock_guard lock(mutex_);
  return ledger.unattributed_joules();
}

}  // namespace gpulens::sdk
