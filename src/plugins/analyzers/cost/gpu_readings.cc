#include "plugins/analyzers/cost/gpu_readings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parse.h"
#include "catalog/gpu.h"

namespace gpulens::cost {
namespace {

using ledger::Cause;
using ledger::GpuReading;
using ledger::GpuUser;
using ledger::MigSlice;
using ledger::Owner;

int64_t NumberOf(const AttributeSet& attributes, std::string_view key, int64_t fallback) {
  const AttributeSet::Value value = attributes.Find(key, fallback);
  if (const int64_t* number = std::get_if<int64_t>(&value)) return *number;
  const std::string_view* text = std::get_if<std::string_view>(&value);
  return text ? ParseInt<int64_t>(*text).value_or(fallback) : fallback;
}

std::string FirstText(const AttributeSet& attributes, std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    if (std::string text = attributes.Text(key); !text.empty()) return text;
  }
  return {};
}

// The GPU that the entity is or belongs to, and the MIG instance on the way. Null: none.
const Entity* GpuAbove(const Entity* entity, const Entity** slice) {
  for (; entity && entity->type != "gpu"; entity = entity->parent.get()) {
    if (entity->type == "mig") *slice = entity;
  }
  return entity;
}

std::string KeyOf(const Entity& gpu) {
  std::string key = gpu.attributes.Text("gpu.uuid");
  if (!key.empty()) return key;
  std::string vendor = FirstText(gpu.facts, {"gpu.vendor"});
  std::string place = FirstText(gpu.attributes, {"gpu.index", "gpu.pci.bus_id"});
  return (vendor.empty() ? "gpu" : vendor) + "-" + place;
}

// "INSTANCE/COMPUTE INSTANCE".
std::string SliceName(const AttributeSet& attributes) {
  return attributes.Text("gpu.mig.instance_id") + "/" +
         std::to_string(NumberOf(attributes, "gpu.mig.compute_instance_id", 0));
}

// Compute slices of a MIG device: "3g.40gb" has 3, and "1c.3g.40gb", one of several in an instance, 1.
int64_t SlicesOf(const AttributeSet& attributes) {
  const std::string profile = attributes.Text("gpu.mig.profile");
  auto before = [&](std::string_view unit) {
    const size_t end = profile.find(unit);
    if (end == profile.npos) return int64_t{0};
    return ParseInt<int64_t>(std::string_view(profile).substr(0, end)).value_or(0);
  };
  if (int64_t part = before("c."); part > 0) return part;
  if (int64_t slices = NumberOf(attributes, "gpu.mig.slices", 0); slices > 0) return slices;
  return before("g.");
}

bool IsPresent(const Frame& frame, uint32_t slot) {
  return slot < frame.quality.size() && frame.quality[slot] != Quality::kAbsent;
}
double ValueAt(const Frame& frame, uint32_t slot) {
  const SeriesInfo& info = (*frame.layout)[slot];
  const Cell cell = frame.cells[info.first_cell];
  return info.desc->number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
}
// Of this run only.
std::optional<double> Fresh(const Frame& frame, uint32_t slot) {
  if (slot >= frame.quality.size() || frame.quality[slot] != Quality::kOk) return std::nullopt;
  return ValueAt(frame, slot);
}
// Of this run, or an earlier one: what is read less often.
std::optional<double> Latest(const Frame& frame, uint32_t slot) {
  return IsPresent(frame, slot) ? std::optional(ValueAt(frame, slot)) : std::nullopt;
}

Cause ThrottleCauseOf(std::string_view cause) {
  if (cause == "power_software" || cause == "power_brake") return Cause::kThrottlePower;
  return cause.starts_with("temp_") ? Cause::kThrottleThermal : Cause::kNone;
}

bool IsOfProcess(const MetricDesc* desc) {
  return desc == &kGpuProcessMemoryUsed || desc == &kGpuProcessUtilization ||
         desc == &kGpuProcessEngineTime || desc == &kGpuProcessCuOccupancy || desc == &kGpuProcessMemoryPeak;
}

}  // namespace

Owner OwnerOf(const AttributeSet& attributes, std::span<const std::string> tenant_keys) {
  Owner out;
  out.process = attributes.Text("process.executable.name");
  out.name_space = attributes.Text("k8s.namespace.name");
  out.pod = FirstText(attributes, {"k8s.pod.name", "k8s.pod.uid", "k8s.pod.names"});
  out.job = FirstText(attributes, {"slurm.job.id", "slurm.job.ids", "k8s.job.name"});
  for (const std::string& key : tenant_keys) {
    out.tenant = attributes.Text(key);
    if (!out.tenant.empty()) break;
  }
  return out;
}

int64_t MicrojoulesOf(double joules) noexcept {
  constexpr double kMost = 9e12;  // 9e18 microjoules: what an int64_t holds
  if (!(joules > 0)) return 0;
  if (joules >= kMost) return static_cast<int64_t>(kMost * 1e6);
  const double milli = std::nearbyint(joules * 1e3);
  if (milli / 1e3 == joules) return static_cast<int64_t>(milli) * 1000;
  return std::llround(joules * 1e6);
}

bool GpuReadings::Follow(const Snapshot& snapshot) {
  bool changed = false;
  for (Source& source : sources_) source.seen = source.fresh = false;
  for (size_t i = 0; i < snapshot.frames.size(); ++i) {
    const SnapshotEntry& entry = snapshot.frames[i];
    // Frames mostly keep their order.
    auto at = i < sources_.size() && sources_[i].name == entry.source
                  ? sources_.begin() + static_cast<std::ptrdiff_t>(i)
                  : std::ranges::find(sources_, entry.source, &Source::name);
    if (at == sources_.end()) at = sources_.insert(at, Source{.name = std::string(entry.source), .gpus = {}});
    if (std::exchange(at->seen, true)) continue;
    at->fresh = at->run != entry.frame->run;
    at->run = entry.frame->run;
    if (at->layout_id == entry.frame->layout->id()) continue;
    const bool had = !at->gpus.empty();
    Plan(*entry.frame, *at);
    changed = changed || had || !at->gpus.empty();
  }
  std::erase_if(sources_, [&](const Source& source) {
    changed = changed || (!source.seen && !source.gpus.empty());
    return !source.seen;
  });
  return changed;
}

void GpuReadings::Plan(const Frame& frame, Source& source) {
  std::vector<Gpu> before = std::exchange(source.gpus, {});
  source.layout_id = frame.layout->id();
  for (uint32_t slot = 0; slot < frame.layout->slots(); ++slot) {
    const SeriesInfo& info = (*frame.layout)[slot];
    if (info.desc && info.entity) PlanSeries(info, slot, source);
  }
  KeepGone(frame, before, source);
  for (Gpu& gpu : source.gpus) {
    if (gpu.reading.mig) gpu.reading.allocated = {};
    auto old = std::ranges::find(before, gpu.known, &Gpu::known);
    if (old == before.end()) continue;
    gpu.last_at_ns = old->last_at_ns;
    for (User& user : gpu.users) {
      for (const User& was : old->users) {
        if (was.identity.pid != user.identity.pid || was.start_ticks != user.start_ticks) continue;
        user.last_time_s = was.last_time_s;
        user.last_at_ns = was.last_at_ns;
        user.busy = was.busy;
      }
    }
  }
}

void GpuReadings::KeepGone(const Frame& frame, const std::vector<Gpu>& before, const Source& source) {
  constexpr size_t kMostGone = 1024;
  const int64_t now = frame.read_at.boot_ns;
  std::erase_if(gone_, [&](const Gone& one) { return one.until_ns < now; });
  for (const Gpu& old : before) {
    const auto gpu = std::ranges::find(source.gpus, old.known, &Gpu::known);
    for (const User& user : old.users) {
      auto same = [&](const User& one) {
        return one.identity.pid == user.identity.pid && one.start_ticks == user.start_ticks;
      };
      const bool stays = gpu != source.gpus.end() && std::ranges::any_of(gpu->users, same);
      if (!stays && user.entity && gone_.size() < kMostGone)
        gone_.push_back({old.reading.gpu, user.identity.pid, user.start_ticks, user.entity, now + kKeepGone});
    }
  }
}

GpuReadings::Gpu* GpuReadings::GpuOf(const EntityRef& entity, Source& source) {
  for (Gpu& gpu : source.gpus) {
    if (gpu.entity == entity) return &gpu;
  }
  std::string key = KeyOf(*entity);
  auto known = std::ranges::find(known_, key, &Known::key);
  if (known == known_.end()) {
    if (known_.size() >= kMostGpus) return nullptr;
    known = known_.insert(known, Known{.key = key});
  }
  const size_t place = static_cast<size_t>(known - known_.begin());
  // A page may describe a GPU and its slices by two entities.
  for (Gpu& gpu : source.gpus) {
    if (gpu.known == place) return &gpu;
  }
  Gpu& gpu = source.gpus.emplace_back();
  gpu.known = place;
  gpu.entity = entity;
  gpu.slots.fill(kNone);
  gpu.index = NumberOf(entity->attributes, "gpu.index", -1);
  gpu.reading.gpu = std::move(key);
  gpu.reading.model = entity->attributes.Text("gpu.model");
  const AttributeSet::Value mig = entity->attributes.Find("gpu.mig.enabled", false);
  const bool* enabled = std::get_if<bool>(&mig);
  gpu.reading.mig = enabled && *enabled;
  return &gpu;
}

void GpuReadings::PlanSeries(const SeriesInfo& info, uint32_t slot, Source& source) {
  const Entity* slice = nullptr;
  const Entity* top = GpuAbove(info.entity.get(), &slice);
  if (!top) return;
  EntityRef gpu_entity = info.entity;
  while (gpu_entity.get() != top) gpu_entity = gpu_entity->parent;
  // Only what is used makes a GPU of the source.
  const bool of_process = IsOfProcess(info.desc) && info.attributes.Has("process.pid");
  const bool of_slice = slice && (info.desc == &kGpuMigInfo || info.desc == &kGpuGrEngineActive ||
                                  info.desc == &kGpuSmActive || info.desc == &kGpuMigMemoryUsed);
  constexpr const MetricDesc* kOfGpu[] = {
      &kGpuEnergyConsumption,   &kGpuEnergyEstimate, &kGpuPowerDraw,      &kGpuPowerInstant,
      &kGpuPowerState,          &kGpuUtilization,    &kGpuGrEngineActive, &kGpuSmActive,
      &kGpuClockFrequency,      &kGpuClockMax,       &kGpuSampleAge,      &kGpuState,
      &kGpuThrottleReason,      &kGpuProcesses,      &kGpuRecoveryAction, &kGpuRowRemapResetPending,
      &kGpuRetiredPagesPending, &kGpuXidRecent,      &kGpuMigInstancesMax};
  const bool of_gpu = !slice && std::ranges::find(kOfGpu, info.desc) != std::end(kOfGpu);
  if (!of_process && !of_slice && !of_gpu) return;
  Gpu* gpu = GpuOf(gpu_entity, source);
  if (!gpu) return;
  if (of_process) return PlanUserSeries(info, slot, slice, *gpu);
  if (of_slice) return PlanSliceSeries(info, slot, *gpu);
  PlanGpuSeries(info, slot, *gpu);
}

void GpuReadings::PlanGpuSeries(const SeriesInfo& info, uint32_t slot, Gpu& gpu) const {
  auto first = [&](Use use) {
    uint32_t& kept = gpu.slots[static_cast<size_t>(use)];
    if (kept == kNone) kept = slot;
    gpu.readable = true;
  };
  const MetricDesc* desc = info.desc;
  if (desc == &kGpuEnergyConsumption) first(Use::kEnergy);
  else if (desc == &kGpuEnergyEstimate) first(Use::kEstimate);
  else if (desc == &kGpuPowerDraw) first(Use::kPower);
  else if (desc == &kGpuPowerInstant) first(Use::kPowerInstant);
  else if (desc == &kGpuPowerState) first(Use::kPowerState);
  else if (desc == &kGpuGrEngineActive) first(Use::kEngineActive);
  else if (desc == &kGpuSmActive) first(Use::kSmActive);
  else if (desc == &kGpuSampleAge) first(Use::kSampleAge);
  else if (desc == &kGpuUtilization) {
    const std::string task = info.attributes.Text("gpu.task.type");
    gpu.readable = true;
    if (task.empty() || task == "compute") gpu.utilizations.push_back(slot);
  } else if (desc == &kGpuClockFrequency || desc == &kGpuClockMax) {
    const std::string type = info.attributes.Text("gpu.clock.type");
    const Use use = desc == &kGpuClockMax ? Use::kClockMax : Use::kClock;
    if (type == "graphics") gpu.slots[static_cast<size_t>(use)] = slot;
    else if (type == "sm") first(use);
  } else if (desc == &kGpuState) {
    const std::string state = info.attributes.Text("gpu.state");
    const bool not_read = state == "no_permission" || state == "unread" || state == "starting";
    gpu.readable = true;
    gpu.states.emplace_back(slot, state == "ok" ? State::kAnswers
                                  : not_read    ? State::kNotRead
                                                : State::kBroken);
  } else if (desc == &kGpuThrottleReason) {
    const Cause cause = ThrottleCauseOf(info.attributes.Text("gpu.throttle.cause"));
    if (cause != Cause::kNone) gpu.throttles.push_back({slot, cause});
  } else if (desc == &kGpuMigInstancesMax) {
    gpu.most_slices = slot;
  } else if (desc == &kGpuProcesses) {
    gpu.process_counts.push_back(slot);
  } else if (desc == &kGpuRecoveryAction) {
    if (info.attributes.Text("gpu.recovery.action") == "none")
      gpu.repairs.emplace_back(slot, Repair::kActionNone);
  } else if (desc == &kGpuXidRecent) {
    const std::string action = info.attributes.Text("gpu.xid.action");
    if (action == "reset_gpu" || action == "reboot") gpu.repairs.emplace_back(slot, Repair::kFlag);
  } else {
    gpu.repairs.emplace_back(slot, Repair::kFlag);
  }
  // The enrichers' attributes are on every series of the entity.
  if (desc == &kGpuXidRecent || !gpu.reading.allocated.empty()) return;
  gpu.reading.allocated = OwnerOf(info.attributes, tenant_keys_);
  gpu.pod = PodOf(info.attributes);
}

void GpuReadings::PlanUserSeries(const SeriesInfo& info, uint32_t slot, const Entity* slice, Gpu& gpu) const {
  const int64_t pid = NumberOf(info.attributes, "process.pid", 0);
  const EntityRef entity = info.entity->type == "process" ? info.entity : EntityRef();
  std::string slice_name;
  if (slice || info.attributes.Has("gpu.mig.instance_id")) slice_name = SliceName(info.attributes);
  auto user = std::ranges::find_if(gpu.users, [&](const User& one) {
    return one.identity.pid == pid && one.entity == entity && gpu.all_users[one.place].slice == slice_name;
  });
  if (user == gpu.users.end()) {
    user = gpu.users.insert(user, User{});
    user->entity = entity;
    user->place = gpu.all_users.size();
    user->identity.pid = pid;
    user->identity.gpu_index = gpu.index;
    user->identity.gpu_uuid = gpu.reading.gpu;
    user->identity.pod = PodOf(info.attributes);
    GpuUser& out = gpu.all_users.emplace_back();
    out.pid = pid;
    out.slice = slice_name;
    out.owner = OwnerOf(info.attributes, tenant_keys_);
    if (entity) {
      out.start_ticks = user->start_ticks = NumberOf(entity->facts, "process.start_ticks", 0);
      const std::string parents = entity->facts.Text("process.parents");
      for (std::string_view rest = parents; !rest.empty();) {
        if (auto parent = ParseInt<int64_t>(TakeUntil(rest, ','))) user->identity.parents.push_back(*parent);
      }
    }
  }
  user->slots.push_back(slot);
  if (info.desc == &kGpuProcessMemoryUsed) {
    user->memory = slot;
  } else if (info.desc == &kGpuProcessUtilization) {
    const std::string task = info.attributes.Text("gpu.task.type");
    if (task.empty() || task == "compute") user->utilization = slot;
  } else if (info.desc == &kGpuProcessCuOccupancy) {
    user->occupancy = slot;
  } else if (info.desc == &kGpuProcessEngineTime) {
    if (info.attributes.Text("gpu.engine.type") == "gfx") user->engine_times.push_back(slot);
  }
}

GpuReadings::Slice& GpuReadings::SliceOf(const SeriesInfo& info, Gpu& gpu) const {
  std::string name = SliceName(info.attributes);
  for (Slice& slice : gpu.slices) {
    if (gpu.all_slices[slice.place].slice == name) return slice;
  }
  Slice& slice = gpu.slices.emplace_back();
  slice.place = gpu.all_slices.size();
  slice.pod = PodOf(info.attributes);
  MigSlice& out = gpu.all_slices.emplace_back();
  out.slice = std::move(name);
  out.allocated = OwnerOf(info.attributes, tenant_keys_);
  gpu.reading.mig = true;
  return slice;
}

void GpuReadings::PlanSliceSeries(const SeriesInfo& info, uint32_t slot, Gpu& gpu) const {
  Slice& slice = SliceOf(info, gpu);
  slice.slots.push_back(slot);
  if (info.desc == &kGpuMigInfo) gpu.all_slices[slice.place].compute_slices = SlicesOf(info.attributes);
  else if (info.desc == &kGpuGrEngineActive) slice.engine_active = slot;
  else if (info.desc == &kGpuSmActive) slice.sm_active = slot;
}

void GpuReadings::Bind(const EngineRules& rules, const std::vector<EngineIdentity>& engines) {
  for (Source& source : sources_) {
    for (Gpu& gpu : source.gpus) {
      for (const User& user : gpu.users)
        gpu.all_users[user.place].owner.engine = rules.EngineOf(user.identity, engines);
      for (const Slice& slice : gpu.slices) {
        Owner& owner = gpu.all_slices[slice.place].allocated;
        if (!owner.empty()) owner.engine = rules.EngineOfGpu(-1, {}, slice.pod, engines);
      }
      Owner& owner = gpu.reading.allocated;
      if (!owner.empty()) owner.engine = rules.EngineOfGpu(gpu.index, gpu.reading.gpu, gpu.pod, engines);
      gpu.reading.users.clear();
      gpu.reading.slices.clear();
    }
  }
}

void GpuReadings::ReadRepairs(const Frame& frame, const Gpu& gpu) {
  for (auto [slot, repair] : gpu.repairs) {
    const std::optional<double> value = Latest(frame, slot);
    if (value && (*value == 0) == (repair == Repair::kActionNone)) known_[gpu.known].needs_repair = true;
  }
}

// Returns whether the list of users is complete.
bool GpuReadings::ReadUsers(const Frame& frame, Gpu& gpu) {
  std::vector<GpuUser>& users = gpu.reading.users;
  size_t count = 0, pids = 0;
  for (User& user : gpu.users) {
    const bool here = std::ranges::any_of(user.slots, [&](uint32_t slot) { return IsPresent(frame, slot); });
    if (!here) continue;
    if (count == users.size()) users.emplace_back();
    GpuUser& out = users[count];
    const GpuUser& fixed = gpu.all_users[user.place];
    if (out.pid != fixed.pid || out.slice != fixed.slice || out.start_ticks != fixed.start_ticks) out = fixed;
    const bool first = std::none_of(users.begin(), users.begin() + static_cast<std::ptrdiff_t>(count),
                                    [&](const GpuUser& one) { return one.pid == fixed.pid; });
    pids += first;
    ++count;
    out.memory_bytes.reset();
    if (auto bytes = Latest(frame, user.memory)) out.memory_bytes = static_cast<int64_t>(*bytes);
    out.utilization = Fresh(frame, user.utilization);
    double time_s = 0;
    bool timed = !user.engine_times.empty();
    for (uint32_t slot : user.engine_times) {
      const std::optional<double> time = Fresh(frame, slot);
      timed = timed && time;
      time_s += time.value_or(0);
    }
    if (timed) {
      const int64_t at_ns = gpu.reading.at_ns;
      user.busy.reset();
      if (user.last_time_s >= 0 && time_s >= user.last_time_s && at_ns > user.last_at_ns)
        user.busy = std::min(
            1.0, (time_s - user.last_time_s) / (static_cast<double>(at_ns - user.last_at_ns) * 1e-9));
      user.last_time_s = time_s;
      user.last_at_ns = at_ns;
    }
    if (!out.utilization) out.utilization = timed ? user.busy : Fresh(frame, user.occupancy);
  }
  users.resize(count);
  double listed = 0;
  bool counted = false;
  for (uint32_t slot : gpu.process_counts) {
    if (auto processes = Latest(frame, slot)) {
      listed += *processes;
      counted = true;
    }
  }
  return counted ? static_cast<double>(pids) >= listed : count > 0;
}

void GpuReadings::ReadSlices(const Frame& frame, Gpu& gpu) {
  std::vector<MigSlice>& slices = gpu.reading.slices;
  size_t count = 0;
  for (const Slice& slice : gpu.slices) {
    const bool here = std::ranges::any_of(slice.slots, [&](uint32_t slot) { return IsPresent(frame, slot); });
    if (!here) continue;
    if (count == slices.size()) slices.emplace_back();
    MigSlice& out = slices[count++];
    const MigSlice& fixed = gpu.all_slices[slice.place];
    if (out.slice != fixed.slice || out.compute_slices != fixed.compute_slices) out = fixed;
    out.utilization = Fresh(frame, slice.engine_active);
    if (!out.utilization) out.utilization = Fresh(frame, slice.sm_active);
  }
  slices.resize(count);
}

void GpuReadings::ReadThrottles(const Frame& frame, Gpu& gpu) {
  gpu.reading.throttled = 0;
  gpu.reading.throttle_cause = Cause::kNone;
  for (const Throttle& throttle : gpu.throttles) {
    if (Fresh(frame, throttle.slot).value_or(0) <= 0) continue;
    // Heat cannot be helped by another power limit.
    if (gpu.reading.throttle_cause != Cause::kThrottleThermal) gpu.reading.throttle_cause = throttle.cause;
  }
  const auto clock = Fresh(frame, gpu.slots[static_cast<size_t>(Use::kClock)]);
  const auto most = Latest(frame, gpu.slots[static_cast<size_t>(Use::kClockMax)]);
  if (gpu.reading.throttle_cause != Cause::kNone && clock && most && *most > 0)
    gpu.reading.throttled = std::clamp(1 - *clock / *most, 0.0, 1.0);
}

// Returns false when there is no new reading.
bool GpuReadings::Read(const Frame& frame, Gpu& gpu) {
  GpuReading& out = gpu.reading;
  auto slot = [&](Use use) { return gpu.slots[static_cast<size_t>(use)]; };
  State state = gpu.states.empty() ? State::kAnswers : State::kNotRead;
  for (auto [at, which] : gpu.states) {
    if (Fresh(frame, at).value_or(0) == 0) continue;
    if (state != State::kAnswers) state = which;
  }
  if (state == State::kNotRead) return false;
  out.available = state == State::kAnswers;
  out.unavailable_cause = out.available ? Cause::kNone : Cause::kHardware;
  out.at_ns = frame.read_at.boot_ns;
  out.energy_uj.reset();
  out.energy_source = ledger::EnergySource::kNone;
  out.power_watts = out.utilization = std::nullopt;
  out.performance_state.reset();
  out.users_known = false;
  if (!out.available) {
    out.users.clear();
    out.throttled = 0;
    out.throttle_cause = Cause::kNone;
    ReadSlices(frame, gpu);
    return std::exchange(gpu.last_at_ns, out.at_ns) < out.at_ns;
  }
  uint32_t energy = slot(Use::kEnergy);
  out.energy_source = ledger::EnergySource::kCounter;
  if (!IsPresent(frame, energy)) {
    energy = slot(Use::kEstimate);
    out.energy_source = ledger::EnergySource::kPowerIntegral;
  }
  if (!IsPresent(frame, energy)) out.energy_source = ledger::EnergySource::kNone;
  const std::optional<double> joules = Fresh(frame, energy);
  if (out.energy_source != ledger::EnergySource::kNone) {
    if (!joules) return false;  // the next run has it
    out.energy_uj = MicrojoulesOf(*joules);
  }
  if (auto age = Fresh(frame, slot(Use::kSampleAge))) out.at_ns -= std::llround(*age * 1e9);
  else if (joules) out.at_ns -= int64_t{frame.AgeMs(energy)} * 1'000'000;
  if (out.at_ns <= gpu.last_at_ns) return false;
  out.power_watts = Fresh(frame, slot(Use::kPower));
  if (!out.power_watts) out.power_watts = Fresh(frame, slot(Use::kPowerInstant));
  if (auto level = Fresh(frame, slot(Use::kPowerState))) out.performance_state = static_cast<int>(*level);
  for (uint32_t at : gpu.utilizations) {
    if (auto share = Fresh(frame, at)) out.utilization = std::max(out.utilization.value_or(0), *share);
  }
  if (!out.utilization) out.utilization = Fresh(frame, slot(Use::kEngineActive));
  if (!out.utilization) out.utilization = Fresh(frame, slot(Use::kSmActive));
  if (auto most = Latest(frame, gpu.most_slices)) out.compute_slices = std::llround(*most);
  if (!joules && !out.power_watts && !out.utilization) return false;  // a GPU of which nothing is measured
  ReadThrottles(frame, gpu);
  out.users_known = ReadUsers(frame, gpu);
  if (!out.users_known) out.users.clear();
  ReadSlices(frame, gpu);
  // It waits for a reset, and nothing uses it.
  if (known_[gpu.known].needs_repair && out.users.empty() && out.utilization.value_or(0) == 0) {
    out.available = false;
    out.unavailable_cause = Cause::kMaintenance;
  }
  gpu.last_at_ns = out.at_ns;
  return true;
}

std::span<const GpuReading* const> GpuReadings::Take(const Snapshot& snapshot) {
  out_.clear();
  for (Known& known : known_) known.needs_repair = known.taken = false;
  auto for_each = [&](auto&& visit) {
    for (Source& source : sources_) {
      if (source.gpus.empty()) continue;
      auto entry = std::ranges::find(snapshot.frames, source.name, &SnapshotEntry::source);
      if (entry == snapshot.frames.end()) continue;
      for (Gpu& gpu : source.gpus) visit(source, *entry->frame, gpu);
    }
  };
  for_each([&](const Source&, const Frame& frame, const Gpu& gpu) { ReadRepairs(frame, gpu); });
  for_each([&](const Source& source, const Frame& frame, Gpu& gpu) {
    if (!gpu.readable || known_[gpu.known].taken) return;
    auto present = [&](auto slot) { return IsPresent(frame, slot); };
    const bool here = std::ranges::any_of(gpu.slots, present) ||
                      std::ranges::any_of(gpu.utilizations, present) ||
                      std::ranges::any_of(gpu.states, [&](const auto& one) { return present(one.first); });
    if (!here) return;
    known_[gpu.known].taken = true;
    if (source.fresh && Read(frame, gpu)) out_.push_back(&gpu.reading);
  });
  return out_;
}

const GpuReadings::Gpu* GpuReadings::FindGpu(std::string_view gpu) const {
  for (const Source& source : sources_) {
    for (const Gpu& one : source.gpus) {
      if (one.readable && one.reading.gpu == gpu) return &one;
    }
  }
  return nullptr;
}

EntityRef GpuReadings::GpuEntity(std::string_view gpu) const {
  const Gpu* found = FindGpu(gpu);
  return found ? found->entity : EntityRef();
}

EntityRef GpuReadings::ProcessEntity(std::string_view gpu, int64_t pid, int64_t start_ticks) const {
  auto same_start = [&](int64_t start) { return start_ticks == 0 || start == start_ticks; };
  if (const Gpu* found = FindGpu(gpu)) {
    for (const User& user : found->users) {
      if (user.identity.pid == pid && same_start(user.start_ticks)) return user.entity;
    }
  }
  for (const Gone& one : gone_) {
    if (one.gpu == gpu && one.pid == pid && same_start(one.start_ticks)) return one.entity;
  }
  return {};
}

}  // namespace gpulens::cost
