// Takes readings, pages, signals and a saved state in, within bounds, and gives the state out.
#include <algorithm>
#include <cmath>

#include "ledger/ledger_impl.h"

namespace gpulens::ledger {
namespace {

// Bounds of what is kept.
constexpr size_t kMostGpus = 1024;
constexpr size_t kMostReadings = 1u << 18;
constexpr size_t kMostUsers = 1024;  // of one reading
constexpr size_t kMostSlices = 64;   // of one reading
constexpr size_t kMostSliceNames = 4096;
constexpr size_t kMostModels = 256;  // of one page
constexpr size_t kMostSignals = 1u << 16;

}  // namespace

uint32_t Ledger::Impl::SliceId(const std::string& slice) {
  if (const auto found = slice_ids.find(slice); found != slice_ids.end()) return found->second;
  if (slices.size() >= kMostSliceNames || slice.size() > 64) return 0;
  slices.push_back(slice);
  return slice_ids[slice] = static_cast<uint32_t>(slices.size() - 1);
}

// -1: one too many.
int Ledger::Impl::GpuNumber(const std::string& gpu) {
  if (const auto found = gpu_places.find(gpu); found != gpu_places.end())
    return static_cast<int>(found->second);
  if (gpus.size() >= kMostGpus || gpu.empty() || gpu.size() > 256) return -1;
  gpus.emplace_back().gpu = gpu;
  gpu_places[gpu] = gpus.size() - 1;
  return static_cast<int>(gpus.size() - 1);
}

int Ledger::Impl::EngineNumber(const std::string& engine) {
  if (const auto found = engine_places.find(engine); found != engine_places.end())
    return static_cast<int>(found->second);
  if (engine_places.size() >= kMostEngines || engine.empty()) return -1;
  size_t place = 0;
  while (place < engines.size() && !engines[place].engine.empty()) ++place;
  if (place == engines.size()) engines.emplace_back();
  engines[place] = EngineTimeline();
  engines[place].engine = engine;
  engine_places[engine] = place;
  return static_cast<int>(place);
}

KeptReading Ledger::Impl::Keep(GpuReading& reading) {
  KeptReading kept;
  kept.at = kept.read_at = reading.at_ns;
  kept.energy = std::max<int64_t>(-1, reading.energy_uj.value_or(-1));
  kept.source = reading.energy_source;
  kept.performance_state = reading.performance_state.value_or(-1);
  if (kept.performance_state > 1000) kept.performance_state = -1;
  kept.use_ppm = PpmOf(reading.utilization);
  kept.throttled_ppm = std::max(0, PpmOf(reading.throttled));
  kept.available = reading.available;
  kept.unavailable_cause = reading.unavailable_cause;
  kept.throttle_cause = reading.throttle_cause;
  kept.mig = reading.mig;
  kept.allocated = owners.IdOf(reading.allocated);
  kept.compute_slices = std::clamp<int64_t>(reading.compute_slices, 0, 64);
  if (reading.mig) {
    if (reading.slices.size() > kMostSlices) reading.slices.resize(kMostSlices), ++refused;
    for (const MigSlice& slice : reading.slices) {
      kept.slices.push_back({SliceId(slice.slice), std::clamp<int64_t>(slice.compute_slices, 0, 64),
                             PpmOf(slice.utilization), owners.IdOf(slice.allocated)});
    }
  }
  kept.users_known = reading.users_known && reading.users.size() <= kMostUsers;
  if (reading.users.size() > kMostUsers) ++refused;
  if (!kept.users_known) return kept;
  for (const GpuUser& user : reading.users) {
    kept.users.push_back({user.pid, user.start_ticks, reading.mig ? SliceId(user.slice) : 0,
                          owners.IdOf(user.owner), std::max<int64_t>(-1, user.memory_bytes.value_or(-1)),
                          PpmOf(user.utilization)});
    const std::string& name = owners.At(kept.users.back().owner).engine;
    if (const int engine = EngineNumber(name); engine >= 0) {
      int64_t& used_at = engines[static_cast<size_t>(engine)].used_at;
      used_at = std::max(used_at, reading.at_ns);
    }
  }
  return kept;
}

void Ledger::Impl::Observe(GpuReading&& reading) {
  const int number = CanBe(reading.at_ns) && readings < kMostReadings ? GpuNumber(reading.gpu) : -1;
  if (number < 0 || (begun && reading.at_ns < base)) return static_cast<void>(++refused);
  GpuTimeline& gpu = gpus[static_cast<size_t>(number)];
  if (gpu.model != reading.model) gpu.model = reading.model.substr(0, 256);
  const size_t place = gpu.After(reading.at_ns);
  if (place > 0) {
    const KeptReading& before = gpu.readings[place - 1];
    if (before.at == reading.at_ns) return;  // a duplicate
    // Before the state that this program began with.
    if (place == gpu.readings.size()) {
      Touch(before.at, reading.at_ns);
    } else {
      Touch(before.at, gpu.readings[place].at);
    }
  } else if (!gpu.readings.empty()) {
    if (gpu.final_to != kNever) return static_cast<void>(++refused);
    Touch(reading.at_ns, gpu.readings.front().at);
  }
  gpu.Insert(place, Keep(reading));
  ++readings;
}

void Ledger::Impl::Observe(EngineReading&& reading) {
  // As owners have it.
  if (reading.engine.size() > kMostOwnerText) reading.engine.resize(kMostOwnerText);
  const int number = CanBe(reading.at_ns) && readings < kMostReadings ? EngineNumber(reading.engine) : -1;
  if (number < 0 || (begun && reading.at_ns < base)) return static_cast<void>(++refused);
  EngineTimeline& engine = engines[static_cast<size_t>(number)];
  auto place = std::upper_bound(engine.pages.begin(), engine.pages.end(), reading.at_ns,
                                [](int64_t t, const KeptPage& page) { return t < page.at; });
  if (place != engine.pages.begin() && std::prev(place)->at == reading.at_ns) return;
  const int64_t from = place == engine.pages.begin() ? reading.at_ns : std::prev(place)->at;
  const int64_t to = place == engine.pages.end() ? reading.at_ns : place->at;
  if (engine.pages.size() > 0) Touch(from, to);
  KeptPage page{reading.at_ns, std::move(reading.work)};
  if (page.work.size() > kMostModels) page.work.resize(kMostModels), ++refused;
  std::sort(page.work.begin(), page.work.end(),
            [](const EngineWork& a, const EngineWork& b) { return a.model < b.model; });
  // A model has one row: the first.
  page.work.erase(std::unique(page.work.begin(), page.work.end(),
                              [](const EngineWork& a, const EngineWork& b) { return a.model == b.model; }),
                  page.work.end());
  engine.pages.insert(place, std::move(page));
  ++readings;
}

void Ledger::Impl::Observe(const ProgramSignal& signal) {
  const bool known = signal.waits == Cause::kNone || signal.waits == Cause::kInputWait ||
                     signal.waits == Cause::kCheckpoint || signal.waits == Cause::kStartup ||
                     signal.waits == Cause::kCollectiveWait || signal.waits == Cause::kInteractive;
  if (!known || !CanBe(signal.at_ns) || signal_count >= kMostSignals || (begun && signal.at_ns < base))
    return static_cast<void>(++refused);
  auto& list = signals[signal.pid];
  const auto place = std::upper_bound(list.begin(), list.end(), signal.at_ns,
                                      [](int64_t t, const auto& other) { return t < other.first; });
  if (place != list.begin() && std::prev(place)->first == signal.at_ns) return;
  list.insert(place, {signal.at_ns, signal.waits});
  ++signal_count;
  Touch(signal.at_ns - options.window.count(), signal.at_ns + kSignalLife + options.window.count());
}

void Ledger::Impl::Restore(const LedgerState& saved_state, Instant now, std::string_view id) {
  if (!CanBe(now.boot_ns)) return;
  SetOffset(now);
  boot_id = id;
  const bool same_boot = !id.empty() && id == saved_state.boot_id;
  for (const LedgerState::Gpu& saved : saved_state.gpus) RestoreGpu(saved, now, same_boot);
  for (const LedgerState::Engine& saved : saved_state.engines) {
    const int number = EngineNumber(saved.engine);
    if (number < 0) continue;
    const auto sane = [](double value) { return std::isfinite(value) ? std::max(0.0, value) : 0; };
    fold.engines.resize(engines.size());
    fold.engines[static_cast<size_t>(number)] = {sane(saved.prefill_seconds), sane(saved.prefill_tokens),
                                                 sane(saved.decode_seconds), sane(saved.decode_tokens)};
  }
  // Windows go on where they stopped, within the grace.
  int64_t from = kNever;
  for (const GpuTimeline& gpu : gpus) {
    if (!gpu.readings.empty()) from = std::max(from, gpu.end());
  }
  if (from == kNever) return;
  closed_to = base = Floor(std::max(from, now.boot_ns - options.grace.count()));
  begun = true;
  last_state = StateNow();
}

void Ledger::Impl::RestoreGpu(const LedgerState::Gpu& saved, Instant now, bool same_boot) {
  const int number = GpuNumber(saved.gpu);
  if (number < 0 || !gpus[static_cast<size_t>(number)].readings.empty()) return;
  const auto place = static_cast<size_t>(number);
  GpuTimeline& gpu = gpus[place];
  gpu.model = saved.model.substr(0, 256);
  fold.gpus.resize(gpus.size());
  GpuFold& to = fold.gpus[place];
  const auto microwatts = [](double watts) {
    return watts > 0 && watts < 1e5 ? std::llround(watts * 1e6) : -1;
  };
  to.idle_uw = microwatts(saved.idle_watts.value_or(0));
  for (const auto& [state, watts] : saved.idle_watts_of) {
    if (state >= 0 && to.idle_uw_of.size() < 32) to.idle_uw_of.emplace_back(state, microwatts(watts));
  }
  const auto rest = [&](size_t i, int64_t below) {
    return i < saved.remainders.size() ? std::clamp<int64_t>(saved.remainders[i], 0, below - 1) : 0;
  };
  to.price_rest = rest(0, kMsPerHour);
  to.electricity_rest = rest(1, kMilliMicrojoulesPerKwh);
  to.carbon_rest = rest(2, kCarbonDenominator);

  // On the clock of another boot the time in between is known by UTC alone.
  const bool later = same_boot && saved.at_ns <= now.boot_ns && CanBe(saved.at_ns);
  __int128 at = later ? static_cast<__int128>(saved.at_ns) : static_cast<__int128>(saved.at_unix_ns) - offset;
  at = std::min<__int128>(at, now.boot_ns);
  if (at < static_cast<__int128>(now.boot_ns) - kLongestGapNs) return;
  KeptReading reading;
  reading.at = reading.read_at = static_cast<int64_t>(at);
  reading.from_state = true;
  // The integral of power began again with this program.
  reading.source = saved.energy_source;
  if (later && saved.energy_source != EnergySource::kPowerIntegral)
    reading.energy = std::max<int64_t>(-1, saved.energy_uj.value_or(-1));
  gpu.final_to = reading.at;
  gpu.Insert(0, reading);
  ++readings;
  if (!later) return;
  for (const LedgerState::Gpu::Hold& hold : saved.holds) {
    if (to.holds.size() >= kMostSlices) break;
    Hold& held = to.holds.emplace_back();
    held.slice = SliceId(hold.slice);
    held.idle = hold.idle_since_ns.has_value();
    held.idle_since = hold.idle_since_ns.value_or(0);
    if (!CanBe(held.idle_since)) held.idle = false, held.idle_since = 0;
    held.allocated = owners.IdOf(hold.allocated);
    held.allocated_since = CanBe(hold.allocated_since_ns) ? hold.allocated_since_ns : reading.at;
    for (size_t i = 0; i < held.ended.size() && i < hold.ended_ns.size(); ++i) {
      if (CanBe(hold.ended_ns[i])) held.ended[i] = hold.ended_ns[i];
    }
  }
}

LedgerState Ledger::Impl::StateNow() const {
  LedgerState now;
  now.boot_id = boot_id;
  const auto watts = [](int64_t microwatts) { return static_cast<double>(microwatts) / 1e6; };
  for (const auto& [name, i] : gpu_places) {
    const GpuTimeline& gpu = gpus[i];
    if (gpu.readings.empty() || !begun) continue;
    if (gpu.begin() > closed_to && gpu.final_to == kNever) continue;
    LedgerState::Gpu& out = now.gpus.emplace_back();
    out.gpu = gpu.gpu, out.model = gpu.model;
    out.at_ns = std::max(gpu.begin(), std::min(closed_to, gpu.end()));
    out.at_unix_ns = out.at_ns + offset;
    // The reading at or after it.
    size_t next = gpu.After(out.at_ns);
    if (gpu.readings[next - 1].at == out.at_ns) {
      const KeptReading& reading = gpu.readings[next - 1];
      if (reading.energy >= 0) out.energy_uj = reading.energy;
      out.energy_source = reading.source;
    } else if (gpu.Metered(next)) {
      out.energy_uj = gpu.EnergyAt(next, out.at_ns);
      out.energy_source = gpu.readings[next].source;
    }
    if (i >= fold.gpus.size()) continue;
    const GpuFold& of = fold.gpus[i];
    if (of.idle_uw >= 0) out.idle_watts = watts(of.idle_uw);
    for (const auto& [performance_state, power] : of.idle_uw_of) {
      if (power >= 0) out.idle_watts_of.emplace_back(performance_state, watts(power));
    }
    out.remainders = {of.price_rest, of.electricity_rest, of.carbon_rest};
    for (const Hold& hold : of.holds) {
      LedgerState::Gpu::Hold& to = out.holds.emplace_back();
      to.slice = slices[hold.slice];
      if (hold.idle) to.idle_since_ns = hold.idle_since;
      to.allocated = owners.At(hold.allocated);
      if (!to.allocated.empty()) to.allocated_since_ns = hold.allocated_since;
      for (int64_t ended : hold.ended) {
        if (ended != kNever) to.ended_ns.push_back(ended);
      }
    }
  }
  for (const auto& [name, i] : engine_places) {
    if (i >= fold.engines.size() || fold.engines[i] == EngineFold()) continue;
    const EngineFold& of = fold.engines[i];
    now.engines.push_back({name, of.prefill_seconds, of.prefill_tokens, of.decode_seconds, of.decode_tokens});
  }
  return now;
}

}  // namespace gpulens::ledger
