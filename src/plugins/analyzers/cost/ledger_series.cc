#include "plugins/analyzers/cost/ledger_series.h"

#include <numeric>

#include "catalog/ledger.h"

namespace gpulens::cost {
namespace {

using ledger::ComputeState;
using ledger::Entry;
using ledger::ProcessEnergy;

constexpr double kMicro = 1e6, kMilli = 1e3, kPico = 1e12;
constexpr std::string_view kKindNames[] = {"tenant", "pod", "job", "engine", "model"};
constexpr std::string_view kNoOwner = "(none)";
constexpr std::string_view kRatioNames[] = {"allocated", "held", "active", "useful", "effective"};
constexpr int64_t kMinuteNs = 60'000'000'000;
constexpr int64_t kHalfLifeNs = 10 * kMinuteNs;
// An owner gets the series of another one only with so many times its energy.
constexpr double kClearlyMore = 2;
// Owners whose energy is remembered for the ranking, of each kind.
constexpr size_t kMostRemembered = 1000;

}  // namespace

std::string LedgerSeries::NameOf(const ledger::Owner& owner, Kind kind) {
  switch (kind) {
    case Kind::kTenant: return owner.tenant;
    case Kind::kPod:
      return owner.pod.empty() || owner.name_space.empty() ? owner.pod : owner.name_space + "/" + owner.pod;
    case Kind::kJob: return owner.job;
    case Kind::kEngine: return owner.engine;
    case Kind::kModel: return owner.model;
    case Kind::kEnd: break;
  }
  return {};
}

void LedgerSeries::Add(OwnerTotals& to, const Amounts& amounts) {
  to.energy.Add(amounts.energy_uj);
  to.allocation.Add(amounts.allocation_pico);
  to.usage.Add(amounts.usage_pico);
  to.priced = to.priced || amounts.priced;
}

// Owners without a series of their own are on "(other)", which has one from its first amount.
void LedgerSeries::AddToOwner(Owners& owners, const std::string& name, const Amounts& amounts) {
  const bool fixed = name.empty() || name == ledger::kOther;
  auto at = owners.find(name);
  if (at == owners.end()) {
    // Beyond what is remembered, an owner is not ranked.
    at = owners.try_emplace(owners.size() < kMostRemembered || fixed ? name : std::string(ledger::kOther))
             .first;
  }
  OwnerTotals& owner = at->second;
  if (fixed || at->first == ledger::kOther) owner.has_series = true;
  owner.lately_uj += static_cast<double>(std::max<int64_t>(0, amounts.energy_uj));
  if (owner.has_series) return Add(owner, amounts);
  rank_ = true;
  const auto with_series = std::ranges::count_if(owners, [](const auto& one) {
    return one.second.has_series && !one.first.empty() && one.first != ledger::kOther;
  });
  if (static_cast<size_t>(with_series) < options_.owners) {
    owner.has_series = true;
    return Add(owner, amounts);
  }
  OwnerTotals& other = owners[std::string(ledger::kOther)];
  other.has_series = true;
  Add(other, amounts);
}

// Gives the series of the owner with least energy lately to one with clearly more.
void LedgerSeries::RankOwners(Owners& owners, SeriesTable& table) {
  for (;;) {
    auto most = owners.end(), least = owners.end();
    for (auto at = owners.begin(); at != owners.end(); ++at) {
      if (at->first.empty() || at->first == ledger::kOther) continue;
      auto& kept = at->second.has_series ? least : most;
      const bool better =
          kept == owners.end() || (at->second.has_series ? at->second.lately_uj < kept->second.lately_uj
                                                         : at->second.lately_uj > kept->second.lately_uj);
      if (better) kept = at;
    }
    if (most == owners.end() || least == owners.end()) return;
    if (most->second.lately_uj <= kClearlyMore * least->second.lately_uj) return;
    OwnerTotals& other = owners[std::string(ledger::kOther)];
    other.has_series = true;
    OwnerTotals& from = least->second;
    Add(other, {from.energy.sum, from.allocation.sum, from.usage.sum, from.priced});
    for (Total* total : {&from.energy, &from.allocation, &from.usage}) table.Retire(total->series);
    const double lately = from.lately_uj;
    from = OwnerTotals{};
    from.lately_uj = lately;
    most->second.has_series = true;
  }
}

void LedgerSeries::Take(const ledger::Ledger::Closed& closed, Instant now) {
  for (const Entry& entry : closed.entries) {
    Gpu& gpu = gpus_.try_emplace(entry.account.gpu).first->second;
    gpu.energy[static_cast<size_t>(entry.account.energy_state)].Add(entry.amounts.energy_uj);
    gpu.unattributed.sum += entry.amounts.energy_uj;
    if (entry.amounts.time_ms != 0) {
      const ComputeState state = entry.account.compute_state;
      auto at = std::ranges::find_if(gpu.compute, [&](const Compute& one) {
        return one.state == state && one.cause == entry.account.cause;
      });
      if (at == gpu.compute.end()) at = gpu.compute.insert(at, {state, entry.account.cause, {}});
      at->time_ms.Add(entry.amounts.time_ms);
      const int64_t minute = now.boot_ns / kMinuteNs;
      Minute& of = minutes_[static_cast<size_t>(minute) % minutes_.size()];
      if (of.minute != minute) of = Minute{.minute = minute};
      of.ms[static_cast<size_t>(state)] += entry.amounts.time_ms;
    }
    const Amounts amounts{entry.amounts.energy_uj, entry.amounts.cost_allocation_pico,
                          entry.amounts.cost_usage_pico, entry.amounts.priced_ms != 0};
    for (size_t kind = 0; kind < kKinds; ++kind)
      AddToOwner(owners_[kind], NameOf(entry.account.owner, static_cast<Kind>(kind)), amounts);
  }
  for (const ProcessEnergy& one : closed.processes) {
    Process& process = processes_[{one.gpu, one.pid, one.start_ticks, one.method}];
    process.energy.Add(one.energy_uj);
    if (process.seen_ns == 0) process.seen_ns = now.boot_ns;
    gpus_.try_emplace(one.gpu).first->second.unattributed.sum -= one.energy_uj;
  }
  for (auto& [name, gpu] : gpus_) gpu.unattributed.Add(0);
  if (closed.entries.empty()) return;
  ++round_;
  residual_j_ = static_cast<double>(closed.residual_uj) / kMicro;
}

void LedgerSeries::Set(Total& total, const MetricDesc& desc, const EntityRef& entity, double per,
                       FrameWriter& out, std::initializer_list<AttributeSet::Attribute> extra) {
  if (!total.series) {
    if (total.refused_in == round_) return;
    total.series =
        out.table().Declare(desc, entity, AttributeSet(extra), {.start_unix_ns = options_.start_unix_ns});
    if (!total.series) {
      total.refused_in = round_;
      return;
    }
  }
  out.Set(total.series, static_cast<double>(total.shown) / per);
}

void LedgerSeries::WriteGpus(Instant now, FrameWriter& out) {
  for (auto& [name, gpu] : gpus_) {
    EntityRef entity = entities_.gpu(name);
    if (entity) gpu.seen_ns = now.boot_ns;
    const bool gone = !entity && now.boot_ns - gpu.seen_ns > options_.keep.count();
    if (gpu.entity && (gone || (entity && entity != gpu.entity))) {
      out.table().Retire(gpu.entity);
      gpu.entity = {};
      for (Total& total : gpu.energy) total.series = {};
      gpu.unattributed.series = {};
      for (Compute& one : gpu.compute) one.time_ms.series = {};
      // Their entities have the GPU as a parent.
      for (auto& [key, process] : processes_) {
        if (std::get<0>(key) != name || !process.energy.series) continue;
        out.table().Retire(process.energy.series);
        process.energy.series = {};
      }
    }
    if (entity) gpu.entity = entity;
    if (!gpu.entity) continue;
    for (size_t i = 0; i < gpu.energy.size(); ++i)
      Set(gpu.energy[i], kEnergyLedger, gpu.entity, kMicro, out,
          {{"state", ledger::Name(static_cast<ledger::EnergyState>(i))}});
    Set(gpu.unattributed, kGpuEnergyUnattributed, gpu.entity, kMicro, out, {});
    for (Compute& one : gpu.compute) {
      const AttributeSet::Attribute state{"state", ledger::Name(one.state)};
      const AttributeSet::Attribute cause{"cause", ledger::Name(one.cause)};
      if (one.cause == ledger::Cause::kNone)
        Set(one.time_ms, kEffectiveCompute, gpu.entity, kMilli, out, {state});
      else Set(one.time_ms, kEffectiveCompute, gpu.entity, kMilli, out, {state, cause});
    }
  }
}

void LedgerSeries::WriteProcesses(Instant now, FrameWriter& out) {
  for (auto at = processes_.begin(); at != processes_.end();) {
    const auto& [gpu, pid, start_ticks, method] = at->first;
    Process& process = at->second;
    EntityRef entity = entities_.process(gpu, pid, start_ticks);
    if (entity) process.seen_ns = now.boot_ns;
    if (entity && entity != process.entity) {
      out.table().Retire(process.energy.series);
      process.energy.series = {};
      process.entity = std::move(entity);
    }
    if (now.boot_ns - process.seen_ns > options_.keep.count()) {
      out.table().Retire(process.energy.series);
      at = processes_.erase(at);
      continue;
    }
    if (process.entity)
      Set(process.energy, kGpuProcessEnergy, process.entity, kMicro, out,
          {{"gpu.energy.method", ledger::Name(method)}});
    ++at;
  }
}

void LedgerSeries::WriteOwners(FrameWriter& out) {
  using namespace std::string_view_literals;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    for (auto& [name, owner] : owners_[kind]) {
      if (!owner.has_series) continue;
      const AttributeSet::Attribute of_kind{"owner.kind", kKindNames[kind]},
          of{"owner", name.empty() ? kNoOwner : std::string_view(name)};
      Set(owner.energy, kEnergyLedgerOwner, options_.host, kMicro, out, {of_kind, of});
      if (!owner.priced) continue;
      Set(owner.allocation, kCostLedgerOwner, options_.host, kPico, out,
          {{"cost.basis", "allocation"sv}, of_kind, of});
      Set(owner.usage, kCostLedgerOwner, options_.host, kPico, out, {{"cost.basis", "usage"sv}, of_kind, of});
    }
  }
}

void LedgerSeries::WriteRatios(FrameWriter& out) {
  std::array<int64_t, ledger::kComputeStates> ms{};
  const int64_t now = out.begun_at().boot_ns / kMinuteNs;
  for (const Minute& minute : minutes_) {
    if (minute.minute < 0 || now - minute.minute >= static_cast<int64_t>(minutes_.size())) continue;
    for (size_t i = 0; i < ms.size(); ++i) ms[i] += minute.ms[i];
  }
  auto of = [&](ComputeState state) { return static_cast<double>(ms[static_cast<size_t>(state)]); };
  const double all =
      static_cast<double>(std::accumulate(ms.begin(), ms.end(), int64_t{0})) - of(ComputeState::kUnobserved);
  const double allocated = all - of(ComputeState::kUnavailable) - of(ComputeState::kUnallocated);
  const double held = allocated - of(ComputeState::kAllocatedUnheld);
  const double active = held - of(ComputeState::kHeldIdle), useful = of(ComputeState::kUseful);
  const std::pair<double, double> shares[] = {
      {allocated, all}, {held, allocated}, {active, held}, {useful, active}, {useful, all}};
  for (size_t i = 0; i < std::size(shares); ++i) {
    auto [part, whole] = shares[i];
    // Adjustments may leave a little less than nothing.
    if (whole > 0)
      out.DeclareAndSet(ratios_[i], kEffectiveComputeRatio, options_.host, {{"ratio", kRatioNames[i]}},
                        std::clamp(part / whole, 0.0, 1.0));
    else if (ratios_[i]) out.Clear(ratios_[i]);
  }
}

void LedgerSeries::Write(Instant now, FrameWriter& out) {
  if (std::exchange(rank_, false)) {
    for (Owners& owners : owners_) RankOwners(owners, out.table());
  }
  if (now.boot_ns - decayed_ns_ >= kHalfLifeNs) {
    decayed_ns_ = now.boot_ns;
    for (Owners& owners : owners_) {
      for (auto& [name, owner] : owners) owner.lately_uj /= 2;
      // Forgets those without a series that have used nothing for hours.
      std::erase_if(owners,
                    [](const auto& one) { return !one.second.has_series && one.second.lately_uj < 1; });
    }
  }
  WriteGpus(now, out);
  WriteProcesses(now, out);
  WriteOwners(out);
  WriteRatios(out);
  if (!gpus_.empty()) out.DeclareAndSet(residual_, kLedgerResidual, options_.host, {}, residual_j_);
}

}  // namespace gpulens::cost
