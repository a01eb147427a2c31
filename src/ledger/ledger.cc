#include "ledger/ledger.h"

#include <algorithm>
#include <tuple>

#include "ledger/apportion.h"
#include "ledger/ledger_impl.h"

namespace gpulens::ledger {
namespace {

// Beyond so long a gap is booked by day.
constexpr int64_t kHourlyGapNs = 31 * kDayNs;
// An engine whose last page is so old is forgotten, with what was learnt of it.
constexpr int64_t kEngineLifeNs = kHourNs;
// Beyond this and twice those in use, unused owners are forgotten.
constexpr size_t kSweepOwners = 4096;

// Bounds of rates, so that a day's amounts fit: 10,000 USD an hour, 100 USD a kWh, 10 kg a kWh, a PUE of 10.
Rates Bounded(Rates rates) {
  const auto bound = [](std::optional<int64_t>& rate, int64_t most) {
    if (rate && *rate < 0) rate.reset();
    if (rate) rate = std::min(*rate, most);
  };
  bound(rates.pico_per_gpu_hour, 10'000'000'000'000'000);
  bound(rates.pico_per_kwh, 100'000'000'000'000);
  bound(rates.mg_per_kwh, 10'000'000);
  rates.pue_milli = std::clamp<int64_t>(rates.pue_milli, 1000, 10'000);
  return rates;
}

}  // namespace

void Ledger::Impl::RefuseFuture(int64_t now) {
  const int64_t latest = now + std::max<int64_t>(options.grace.count(), kHourNs / 60);
  const auto drop = [&](auto& list) {
    while (!list.empty() && list.back().at > latest) list.pop_back(), ++refused, --readings;
  };
  for (GpuTimeline& gpu : gpus) drop(gpu.readings);
  for (EngineTimeline& engine : engines) drop(engine.pages);
  if (begun) return;
  for (GpuTimeline& gpu : gpus) {
    while (!gpu.readings.empty() && gpu.begin() < now - kLongestGapNs)
      gpu.readings.pop_front(), ++refused, --readings;
  }
}

// Places the first window. False: nothing was read.
bool Ledger::Impl::Begin(int64_t now) {
  if (begun) return true;
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const GpuTimeline& gpu : gpus) {
    if (!gpu.readings.empty()) first = std::min(first, gpu.begin());
  }
  if (first == std::numeric_limits<int64_t>::max()) return false;
  // Readings from before may still come.
  base = closed_to = Floor(std::min(first, now - options.grace.count()));
  begun = true;
  return true;
}

// The edge up to which all was read.
int64_t Ledger::Impl::CloseTarget(int64_t now, bool finish) const {
  if (finish) {
    int64_t last = kNever;
    for (const GpuTimeline& gpu : gpus) {
      if (!gpu.readings.empty()) last = std::max(last, gpu.end());
    }
    return last == kNever ? closed_to : Floor(last + options.window.count() - 1);
  }
  int64_t target = Floor(now);
  for (const GpuTimeline& gpu : gpus) {
    if (gpu.readings.empty()) continue;
    // One that is silent is not waited for.
    target = std::min(target, Floor(std::max(gpu.end(), now - options.longest_gap.count())));
  }
  for (const EngineTimeline& engine : engines) {
    if (engine.used_at <= closed_to) continue;
    const int64_t page = engine.pages.empty() ? kNever : engine.pages.back().at;
    target = std::min(target, Floor(std::max(page, now - options.engine_wait.count())));
  }
  return target;
}

// GPUs that were silent when the past was closed, and now have a reading: what lies between is booked in the
// open window, for the hours in which it was.
void Ledger::Impl::AddSilence(Closed& out) {
  silence = Expected();
  for (size_t i = 0; i < gpus.size(); ++i) {
    GpuTimeline& gpu = gpus[i];
    if (gpu.readings.size() < 2 || gpu.final_to == kNever || gpu.final_to >= base) continue;
    Fold& at_base = windows.empty() ? fold : windows.front().before;
    Fold own = at_base;
    for (int64_t from = gpu.final_to; from < base;) {
      // By window, by hour or by day, so that few entries have it.
      const int64_t step = base - from > kHourlyGapNs ? kDayNs : kHourNs;
      const int64_t edge = base - gpu.final_to <= options.grace.count()
                               ? Floor(from) + options.window.count()
                               : (FloorDiv(from + offset, step) + 1) * step - offset;
      Window window;
      window.start = from, window.end = std::min(base, edge);
      window.label_ms = LabelMs(Floor(from));
      own.hour = kNever;
      Compute(window, own, static_cast<int>(i));
      const Rates& rates = window.rates[i].rates;
      silence.energy_uj += gpu.EnergyBetween(window.start, window.end);
      silence.time_ms += gpu.MsBetween(window.start, window.end);
      // As the carried remainder has it: from the sum before and after.
      if (rates.pico_per_gpu_hour) {
        const __int128 cost =
            static_cast<__int128>(*rates.pico_per_gpu_hour) * gpu.MsBetween(window.start, window.end) +
            window.before.gpus[i].price_rest;
        silence.cost_pico += static_cast<int64_t>(cost / kMsPerHour);
      }
      Emit(LabelMs(closed_to), window.label_ms, window.accounts, window.processes, out);
      from = window.end;
    }
    own.gpus.resize(gpus.size());
    at_base.gpus.resize(gpus.size());
    at_base.gpus[i] = own.gpus[i];
    gpu.DropBefore(base);
    Touch(base, closed_to);
  }
}

void Ledger::Impl::Compute(Window& window, Fold& now, int only) {
  now.gpus.resize(gpus.size());
  now.engines.resize(engines.size());
  window.before = now;
  window.rates.resize(gpus.size());
  shares.clear();
  window.processes.clear();
  engine_windows.resize(engines.size());
  for (size_t i = 0; i < engines.size(); ++i) {
    engine_windows[i] = EngineWindow();
    if (only < 0 && !engines[i].engine.empty()) {
      engine_windows[i] =
          EngineWindowOf(engines[i], window.start, window.end,
                         std::max(options.grace.count(), options.window.count()), now.engines[i]);
    }
  }
  const WindowSplit::EngineOpen engine_open = [&](std::string_view name) {
    const auto found = engine_places.find(name);
    return found == engine_places.end() ? WindowSplit::Open::kUnknown : engine_windows[found->second].open;
  };
  for (size_t i = 0; i < gpus.size(); ++i) {
    const GpuTimeline& gpu = gpus[i];
    if ((only >= 0 && only != static_cast<int>(i)) || gpu.readings.size() < 2 || gpu.begin() >= window.end ||
        gpu.end() <= window.start)
      continue;
    split.Split(gpu, static_cast<uint32_t>(i), window.start, window.end, engine_open, now.gpus[i], shares,
                window.processes);
    if (!window.rates[i].known) {
      window.rates[i].known = true;
      if (rates_at) window.rates[i].rates = Bounded(rates_at(gpu.model, window.label_ms * 1'000'000));
    }
  }
  MergeShares(shares);
  if (only < 0) {
    SplitEngines(engine_places, engine_windows, owners, shares);
    MergeShares(shares);
    const auto by_content = [this](const Share& a, const Share& b) { return Earlier(a.key, b.key); };
    std::sort(shares.begin(), shares.end(), by_content);
    CountTokens(engine_windows, shares);
  }
  LimitOwners(window.label_ms, now);
  MergeShares(shares);
  std::sort(shares.begin(), shares.end(),
            [this](const Share& a, const Share& b) { return Earlier(a.key, b.key); });
  Price(window, now);
  std::sort(window.processes.begin(), window.processes.end(),
            [](const ProcessShare& a, const ProcessShare& b) {
              return std::tie(a.gpu, a.pid, a.start_ticks, a.method) <
                     std::tie(b.gpu, b.pid, b.start_ticks, b.method);
            });
  // One row for a process and method.
  size_t count = 0;
  for (const ProcessShare& share : window.processes) {
    if (count > 0) {
      ProcessShare& last = window.processes[count - 1];
      if (std::tie(last.gpu, last.pid, last.start_ticks, last.method) ==
          std::tie(share.gpu, share.pid, share.start_ticks, share.method)) {
        last.energy_uj += share.energy_uj;
        continue;
      }
    }
    window.processes[count++] = share;
  }
  window.processes.resize(count);
}

// Whether an account comes first, by its names and not by numbers that depend on what was read when.
bool Ledger::Impl::Earlier(const AccountKey& a, const AccountKey& b) const {
  if (a.gpu != b.gpu) return gpus[a.gpu].gpu < gpus[b.gpu].gpu;
  if (a.slice != b.slice) return slices[a.slice] < slices[b.slice];
  const auto rest = [](const AccountKey& key) {
    return std::tie(key.energy_state, key.compute_state, key.cause, key.request_class, key.method);
  };
  if (rest(a) != rest(b)) return rest(a) < rest(b);
  return a.owner != b.owner && owners.At(a.owner) < owners.At(b.owner);
}

// Owners keep their accounts in the order in which they come, of one window those with most energy first,
// then those with most time. The rest is kOther until the hour ends.
void Ledger::Impl::LimitOwners(int64_t label_ms, Fold& now) {
  const int64_t hour = FloorDiv(label_ms, kMsPerHour);
  if (now.hour != hour) now.hour = hour, now.owners.clear();
  struct Newcomer {
    OwnerId owner;
    int64_t energy, time;
  };
  std::vector<Newcomer> newcomers;
  for (const Share& share : shares) {
    const OwnerId owner = share.key.owner;
    if (owner <= kOtherOwner || std::binary_search(now.owners.begin(), now.owners.end(), owner)) continue;
    auto at = std::find_if(newcomers.begin(), newcomers.end(),
                           [&](const Newcomer& other) { return other.owner == owner; });
    if (at == newcomers.end()) at = newcomers.insert(at, {owner, 0, 0});
    at->energy += share.energy_uj, at->time += share.time_ns;
  }
  if (newcomers.empty()) return;
  std::sort(newcomers.begin(), newcomers.end(), [&](const Newcomer& a, const Newcomer& b) {
    if (a.energy != b.energy) return a.energy > b.energy;
    if (a.time != b.time) return a.time > b.time;
    return owners.At(a.owner) < owners.At(b.owner);
  });
  bool beyond = false;
  for (const Newcomer& one : newcomers) {
    if (now.owners.size() >= options.most_owners) {
      beyond = true;
      break;
    }
    now.owners.insert(std::lower_bound(now.owners.begin(), now.owners.end(), one.owner), one.owner);
  }
  if (!beyond) return;
  for (Share& share : shares) {
    if (share.key.owner > kOtherOwner &&
        !std::binary_search(now.owners.begin(), now.owners.end(), share.key.owner))
      share.key.owner = kOtherOwner;
  }
}

// From nanoseconds and joules to amounts, by GPU.
void Ledger::Impl::Price(Window& window, Fold& now) {
  window.accounts.clear();
  for (size_t first = 0; first < shares.size();) {
    const size_t number = shares[first].key.gpu;
    size_t last = first;
    int64_t energy = 0;
    while (last < shares.size() && shares[last].key.gpu == number) energy += shares[last++].energy_uj;
    const size_t count = last - first;
    const GpuTimeline& gpu = gpus[number];
    GpuFold& rests = now.gpus[number];
    const Rates& rates = window.rates[number].rates;
    const size_t to = window.accounts.size();
    for (size_t i = first; i < last; ++i) {
      Booked& booked = window.accounts.emplace_back();
      booked.key = shares[i].key;
      booked.amounts.energy_uj = shares[i].energy_uj;
      booked.amounts.tokens = shares[i].tokens;
      if (rates.mg_per_kwh) booked.amounts.carbon_known_uj = shares[i].energy_uj;
    }
    weights.resize(count), parts.resize(count);
    const auto divide = [&](int64_t whole, int64_t Share::* by, int64_t Amounts::* amount) {
      if (whole == 0) return;
      for (size_t k = 0; k < count; ++k) weights[k] = shares[first + k].*by;
      Apportion(whole, weights, parts);
      for (size_t k = 0; k < count; ++k) window.accounts[to + k].amounts.*amount = parts[k];
    };
    // rate x amount / denominator; what is left over goes to the next window.
    const auto total = [](__int128 product, int64_t denominator, int64_t& rest) {
      product += rest;
      rest = static_cast<int64_t>(product % denominator);
      return static_cast<int64_t>(product / denominator);
    };
    const int64_t time = gpu.MsBetween(window.start, window.end);
    divide(time, &Share::time_ns, &Amounts::time_ms);
    for (size_t k = 0; k < count; ++k) {
      Amounts& amounts = window.accounts[to + k].amounts;
      const Share& share = shares[first + k];
      if (rates.pico_per_gpu_hour) amounts.priced_ms = amounts.time_ms;
      if (share.unmetered_ns > 0)
        amounts.unmetered_ms = share.unmetered_ns >= share.time_ns
                                   ? amounts.time_ms
                                   : MulDiv(amounts.time_ms, share.unmetered_ns, share.time_ns);
    }
    if (rates.pico_per_gpu_hour) {
      const int64_t cost =
          total(static_cast<__int128>(*rates.pico_per_gpu_hour) * time, kMsPerHour, rests.price_rest);
      divide(cost, &Share::had_ns, &Amounts::cost_allocation_pico);
      divide(cost, &Share::used_ns, &Amounts::cost_usage_pico);
    }
    const __int128 grossed = static_cast<__int128>(energy) * rates.pue_milli;
    if (rates.pico_per_kwh)
      divide(total(grossed * *rates.pico_per_kwh, kMilliMicrojoulesPerKwh, rests.electricity_rest),
             &Share::energy_uj, &Amounts::electricity_pico);
    if (rates.mg_per_kwh)
      divide(total(grossed * *rates.mg_per_kwh, kCarbonDenominator, rests.carbon_rest), &Share::energy_uj,
             &Amounts::carbon_ng);
    first = last;
  }
}

Account Ledger::Impl::AccountOf(const AccountKey& key) const {
  return {gpus[key.gpu].gpu, slices[key.slice], key.energy_state, key.compute_state,
          key.cause,         key.request_class, key.method,       owners.At(key.owner)};
}

void Ledger::Impl::Emit(int64_t label_ms, int64_t for_label_ms, std::vector<Booked>& accounts,
                        std::vector<ProcessShare>& processes, Closed& out) {
  for (const Booked& booked : accounts) {
    if (booked.amounts.empty()) continue;
    out.entries.push_back({label_ms, for_label_ms, AccountOf(booked.key), booked.amounts});
  }
  for (const ProcessShare& share : processes) {
    if (share.energy_uj != 0)
      out.processes.push_back(
          {gpus[share.gpu].gpu, share.pid, share.start_ticks, share.method, share.energy_uj});
  }
}

// Computes again what a late reading touched, and adds the differences as adjustments.
void Ledger::Impl::Recompute(Closed& out) {
  if (dirty_to == kNever) return;
  Fold now;
  bool first = true;
  for (size_t i = 0; i < windows.size(); ++i) {
    Window& window = windows[i];
    if (window.end <= dirty_from) continue;
    if (first) {
      now = window.before;
      first = false;
    } else {
      window.before.gpus.resize(gpus.size());
      window.before.engines.resize(engines.size());
      // From here on nothing differs.
      if (window.start >= dirty_to && window.before == now) {
        dirty_from = std::numeric_limits<int64_t>::max(), dirty_to = kNever;
        return;
      }
    }
    std::vector<Booked> accounts = std::move(window.accounts);
    std::vector<ProcessShare> processes = std::move(window.processes);
    for (Booked& booked : accounts) {
      Amounts negative;
      negative -= booked.amounts;
      booked.amounts = negative;
    }
    for (ProcessShare& share : processes) share.energy_uj = -share.energy_uj;
    window.accounts = {}, window.processes = {};
    Compute(window, now, -1);
    accounts.insert(accounts.end(), window.accounts.begin(), window.accounts.end());
    std::sort(accounts.begin(), accounts.end(),
              [](const Booked& a, const Booked& b) { return a.key < b.key; });
    size_t count = 0;
    for (const Booked& booked : accounts) {
      if (count > 0 && accounts[count - 1].key == booked.key) {
        accounts[count - 1].amounts += booked.amounts;
      } else {
        accounts[count++] = booked;
      }
    }
    accounts.resize(count);
    std::sort(accounts.begin(), accounts.end(),
              [this](const Booked& a, const Booked& b) { return Earlier(a.key, b.key); });
    for (const ProcessShare& share : window.processes) {
      const auto at = std::find_if(processes.begin(), processes.end(), [&](const ProcessShare& other) {
        return std::tie(other.gpu, other.pid, other.start_ticks, other.method) ==
               std::tie(share.gpu, share.pid, share.start_ticks, share.method);
      });
      if (at == processes.end()) {
        processes.push_back(share);
      } else {
        at->energy_uj += share.energy_uj;
      }
    }
    Emit(LabelMs(closed_to), window.label_ms, accounts, processes, out);
  }
  if (!first) fold = std::move(now);
  dirty_from = std::numeric_limits<int64_t>::max(), dirty_to = kNever;
}

// The end of the window after closed_to. In a backlog older than the grace, windows without a reading are one
// until the hour ends: they do not differ, and nothing will come.
int64_t Ledger::Impl::NextEnd(int64_t target) const {
  const int64_t end = closed_to + options.window.count();
  int64_t most = Floor(target - options.grace.count());
  most = std::min(most, Floor((FloorDiv(closed_to + offset, kHourNs) + 1) * kHourNs - offset));
  if (most <= end) return end;
  for (const GpuTimeline& gpu : gpus) {
    if (const size_t next = gpu.After(closed_to); next < gpu.readings.size())
      most = std::min(most, Floor(gpu.readings[next].at));
  }
  for (const EngineTimeline& engine : engines) {
    for (const KeptPage& page : engine.pages) {
      if (page.at > closed_to) most = std::min(most, Floor(page.at));
    }
  }
  return std::max(most, end);
}

void Ledger::Impl::CloseNew(int64_t target, Closed& out) {
  while (closed_to < target) {
    Window& window = windows.emplace_back();
    window.start = closed_to, window.end = NextEnd(target);
    window.label_ms = LabelMs(window.start);
    Compute(window, fold, -1);
    Emit(window.label_ms, 0, window.accounts, window.processes, out);
    closed_to = window.end;
  }
}

// Ends the closed past: what is older than the grace is final.
void Ledger::Impl::DropPast(int64_t now) {
  const int64_t past = Floor(now - options.grace.count());
  while (!windows.empty() && windows.front().end <= past) {
    base = windows.front().end;
    windows.pop_front();
  }
  if (windows.empty()) base = closed_to;
  for (GpuTimeline& gpu : gpus) {
    const size_t before = gpu.readings.size();
    gpu.DropBefore(base);
    readings -= before - gpu.readings.size();
  }
  for (size_t i = 0; i < engines.size(); ++i) {
    EngineTimeline& engine = engines[i];
    while (engine.pages.size() > 1 && engine.pages[1].at <= base) engine.pages.pop_front(), --readings;
    if (engine.engine.empty()) continue;
    const int64_t last = std::max(engine.used_at, engine.pages.empty() ? kNever : engine.pages.back().at);
    if (last > base - kEngineLifeNs || (last == kNever && engine_places.size() < kMostEngines / 2)) continue;
    readings -= engine.pages.size();
    engine_places.erase(engine.engine);
    engine = EngineTimeline();
    if (i < fold.engines.size()) fold.engines[i] = EngineFold();
    for (Window& window : windows) {
      if (i < window.before.engines.size()) window.before.engines[i] = EngineFold();
    }
  }
  for (auto at = signals.begin(); at != signals.end();) {
    auto& list = at->second;
    const auto keep = std::find_if(list.begin(), list.end(),
                                   [&](const auto& signal) { return signal.first >= base - kSignalLife; });
    signal_count -= static_cast<size_t>(keep - list.begin());
    list.erase(list.begin(), keep);
    at = list.empty() ? signals.erase(at) : std::next(at);
  }
  Sweep();
}

// Forgets owners that nothing names any more.
void Ledger::Impl::Sweep() {
  if (owners.count() < kSweepOwners || owners.count() < 2 * kept_owners) return;
  std::vector<bool> used(owners.size());
  for (const GpuTimeline& gpu : gpus) {
    for (const KeptReading& reading : gpu.readings) {
      used[reading.allocated] = true;
      for (const KeptUser& user : reading.users) used[user.owner] = true;
      for (const KeptSlice& slice : reading.slices) used[slice.allocated] = true;
    }
  }
  const auto mark = [&](const Fold& of) {
    for (OwnerId owner : of.owners) used[owner] = true;
    for (const GpuFold& gpu : of.gpus) {
      for (const Hold& hold : gpu.holds) used[hold.allocated] = true;
    }
  };
  mark(fold);
  for (const Window& window : windows) {
    mark(window.before);
    for (const Booked& booked : window.accounts) used[booked.key.owner] = true;
  }
  owners.Keep(used);
  kept_owners = owners.count();
}

// Of the windows between two edges, from counters, clocks and rates: not from accounts.
Ledger::Impl::Expected Ledger::Impl::ExpectedOf(int64_t from, int64_t to) const {
  Expected sum;
  const Fold& at_from = windows.empty() ? fold : windows.front().before;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const GpuTimeline& gpu = gpus[i];
    sum.energy_uj += gpu.EnergyBetween(from, to);
    sum.time_ms += gpu.MsBetween(from, to);
    __int128 price = i < at_from.gpus.size() ? at_from.gpus[i].price_rest : 0;
    for (const Window& window : windows) {
      if (window.start < from || i >= window.rates.size()) continue;
      price += static_cast<__int128>(window.rates[i].rates.pico_per_gpu_hour.value_or(0)) *
               gpu.MsBetween(window.start, window.end);
    }
    sum.cost_pico += static_cast<int64_t>(price / kMsPerHour);
  }
  return sum;
}

Ledger::Closed Ledger::Impl::CloseWindows(Instant now, bool finish) {
  Closed out;
  if (!CanBe(now.boot_ns)) return out;
  SetOffset(now);
  clock = std::max(clock, now.boot_ns);
  RefuseFuture(clock);
  if (!Begin(clock)) return out;
  const int64_t target = CloseTarget(clock, finish);
  if (target <= closed_to && dirty_to == kNever && !finish) return out;
  AddSilence(out);
  Recompute(out);
  CloseNew(target, out);
  const Expected all = ExpectedOf(base, closed_to);
  __int128 energy = checked.energy_uj - all.energy_uj - silence.energy_uj;
  __int128 time = checked.time_ms - all.time_ms - silence.time_ms;
  __int128 allocation = checked.cost_pico - all.cost_pico - silence.cost_pico, usage = allocation;
  for (const Entry& entry : out.entries) {
    energy += entry.amounts.energy_uj;
    time += entry.amounts.time_ms;
    allocation += entry.amounts.cost_allocation_pico;
    usage += entry.amounts.cost_usage_pico;
  }
  out.residual_uj = static_cast<int64_t>(energy);
  out.residual_ms = static_cast<int64_t>(time);
  out.residual_pico = static_cast<int64_t>(allocation != 0 ? allocation : usage);
  DropPast(clock);
  checked = ExpectedOf(base, closed_to);
  // Now: what is read from here on is not in it until the next call has booked it.
  last_state = StateNow();
  return out;
}

Ledger::Ledger(Options options, RatesAt rates)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(rates))) {}
Ledger::~Ledger() = default;
void Ledger::Restore(const LedgerState& state, Instant now, std::string_view boot_id) {
  impl_->Restore(state, now, boot_id);
}
void Ledger::Observe(GpuReading reading) { impl_->Observe(std::move(reading)); }
void Ledger::Observe(EngineReading reading) { impl_->Observe(std::move(reading)); }
void Ledger::Observe(const ProgramSignal& signal) { impl_->Observe(signal); }
Ledger::Closed Ledger::Close(Instant now) { return impl_->CloseWindows(now, false); }
Ledger::Closed Ledger::Finish(Instant now) { return impl_->CloseWindows(now, true); }
LedgerState Ledger::state() const { return impl_->last_state; }
uint64_t Ledger::refused() const noexcept { return impl_->refused; }

}  // namespace gpulens::ledger
