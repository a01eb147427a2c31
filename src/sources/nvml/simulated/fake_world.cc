#include "sources/nvml/simulated/fake_world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>

#include "base/files.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/fake_profile.h"

namespace gpulens::nvml {
namespace {

constexpr int64_t kLookEveryNs = 20'000'000;
constexpr double kMib = 1024.0 * 1024.0;
constexpr unsigned kSuccessCode = 0, kUnknownCode = 999;

double PowerAt(const FakeModel& model, double busy) noexcept {
  return model.idle_mw + (model.limit_mw * 0.97 - model.idle_mw) * busy;
}

// The rate at full load, in units per second.
double FullRate(const FakeModel& model, const FakeGpu& gpu, FakeFlow flow) noexcept {
  double pcie_lane = model.pcie_gen >= 5 ? 3.9e9 : 1.95e9;
  switch (flow) {
    case FakeFlow::kNvlinkTx: return gpu.nvlink_share * model.links * model.link_mb_per_s * 1e6;
    case FakeFlow::kNvlinkRx: return 0.98 * gpu.nvlink_share * model.links * model.link_mb_per_s * 1e6;
    case FakeFlow::kPcieTx: return 0.3 * gpu.pcie_share * model.pcie_width * pcie_lane;
    case FakeFlow::kPcieRx: return gpu.pcie_share * model.pcie_width * pcie_lane;
    default: return 0;
  }
}

void FillMemory(FakeView& view) {
  const FakeModel& model = *view.model;
  view.total = model.memory_mib << 20;
  view.reserved = model.reserved_mib << 20;
  uint64_t left = view.total - view.reserved;
  for (const FakeProcess& rule : view.profile->processes) {
    if (!rule.when.Holds(static_cast<int>(view.index), view.since_open)) continue;
    GpuProcess process;
    process.pid = rule.when.gpu < 0 ? rule.pid + view.index : rule.pid;
    process.type = static_cast<ProcessType>(rule.type);
    double wave = std::sin(2 * std::numbers::pi * view.seconds / rule.period);
    auto bytes = static_cast<uint64_t>((rule.bytes + rule.swing * wave) / kMib) * (uint64_t{1} << 20);
    process.memory_used = std::min(bytes, left);
    if (rule.mig_instance != kNoFakeInstance) {
      process.gpu_instance = rule.mig_instance, process.compute_instance = rule.compute_instance;
    } else if (view.gpu->mig) {
      process.gpu_instance = 1, process.compute_instance = 0;
    }
    left -= process.memory_used;
    view.processes.push_back(process);
  }
  view.free = left;
  view.used = view.total - view.reserved - left;
}

void FillState(FakeView& view) {
  const FakeModel& model = *view.model;
  double warm = view.gpu->load.Mean(view.seconds, 20);
  view.temperature = model.idle_temperature +
                     static_cast<unsigned>((model.busy_temperature - model.idle_temperature) * warm + 0.5);
  view.core_temperature = view.temperature;
  if (view.busy < 0.01) view.reasons |= 0x1;
  if (view.busy > 0.97) view.reasons |= 0x4;
  for (const FakeRule& rule : view.profile->throttles) {
    if (rule.when.Holds(static_cast<int>(view.index), view.since_open)) view.reasons |= rule.mask;
  }
  double clock = view.ClockOf(view.busy);
  if (view.reasons & 0x60) clock *= 0.75;
  if (view.reasons & 0x88) clock *= 0.5;
  view.clock = static_cast<unsigned>(std::max(clock, double{15}) / 15) * 15;
}

constexpr double kTurn = 2 * std::numbers::pi;

double StepsLength(const FakeLoad& load) noexcept {
  double length = 0;
  for (const FakeLoad::Step& step : load.steps) length += step.seconds;
  return length;
}

double StepsIntegral(const FakeLoad& load, double until) noexcept {
  double sum = 0;
  for (const FakeLoad::Step& step : load.steps) {
    double part = std::min(step.seconds, until);
    sum += part * step.level;
    until -= part;
  }
  return sum;
}

}  // namespace

unsigned FakeView::Faults(FakeFault::Counter counter) const noexcept {
  unsigned sum = 0;
  for (const FakeFault& fault : profile->faults) {
    if (fault.counter == counter && fault.when.Holds(static_cast<int>(index), since_open))
      sum += fault.amount;
  }
  return sum + CountOf(*faults, counter, static_cast<int>(index), boot_ns);
}

uint64_t FakeView::ThrottledNs(uint64_t mask) const noexcept {
  double sum = 0;
  for (const FakeRule& rule : profile->throttles) {
    if ((rule.mask & mask) == 0 || (rule.when.gpu >= 0 && rule.when.gpu != static_cast<int>(index))) continue;
    sum += std::max(0.0, std::min(since_open, rule.when.to) - rule.when.from);
  }
  return static_cast<uint64_t>(sum * 1e9);
}

unsigned FakeView::LinksUp() const noexcept {
  return model->links - std::min(model->links, Faults(FakeFault::Counter::kLinksDown));
}

double FakeView::BusyAt(double at_boot_seconds) const noexcept {
  return std::clamp(gpu->load.At(at_boot_seconds), 0.0, 1.0);
}

unsigned FakeView::PowerAt(double at_boot_seconds) const noexcept {
  return static_cast<unsigned>(nvml::PowerAt(*model, BusyAt(at_boot_seconds)));
}

unsigned FakeView::MeanPower() const noexcept {
  return static_cast<unsigned>(nvml::PowerAt(*model, busy_mean));
}

void FakeView::Fill() {
  FillMemory(*this);
  FillState(*this);
}

unsigned FakeView::ClockOf(double at_busy) const noexcept {
  return static_cast<unsigned>(at_busy < 0.01 ? model->idle_clock : model->max_clock * (1 - 0.08 * at_busy));
}

FakeWorld& FakeWorld::Get() {
  static FakeWorld* world = new FakeWorld;  // Never destroyed: calls may hang while the process ends.
  return *world;
}

double FakeWorld::Seconds() const noexcept { return static_cast<double>(clock_->Now().boot_ns) * 1e-9; }

double FakeWorld::SinceOpen() const noexcept {
  return static_cast<double>(clock_->Now().boot_ns - opened_ns_) * 1e-9;
}

// Loads run from the boot of the machine, not from the start of a process: a reader process that is
// restarted finds its counters where they would be.
double FakeWorld::Flow(const FakeProfile& profile, unsigned index, FakeFlow flow, double seconds) const {
  const FakeGpu& gpu = profile.gpus[index];
  double busy_seconds = gpu.load.Integral(seconds);
  if (flow != FakeFlow::kEnergyMillijoules) return FullRate(*profile.model, gpu, flow) * busy_seconds;
  double idle = profile.model->idle_mw;
  return idle * seconds + (PowerAt(*profile.model, 1) - idle) * busy_seconds;
}

void FakeWorld::Replace(FakeProfile profile) {
  double now = Seconds();
  for (unsigned i = 0; i < kMaxFakeGpus; ++i) {
    for (size_t f = 0; f < kFakeFlows; ++f) {
      auto flow = static_cast<FakeFlow>(f);
      double& base = memory_[i].base[f];
      if (profile_ && i < profile_->gpus.size()) base += Flow(*profile_, i, flow, now);
      if (profile_ && i < profile.gpus.size()) base -= Flow(profile, i, flow, now);
    }
  }
  profile_ = std::make_shared<const FakeProfile>(std::move(profile));
  Number();
}

Status FakeWorld::Use(const std::string& yaml, const Clock* clock) {
  Result<FakeProfile> profile = ParseFakeProfile(yaml);
  if (!profile) return profile.error();
  std::lock_guard lock(mutex_);
  profile_ = nullptr;
  memory_ = {};
  clock_ = clock ? clock : &RealClock();
  Replace(*std::move(profile));
  given_ = true;
  return Status{};
}

void FakeWorld::ReloadWhenChanged() {
  int64_t now = RealClock().Now().boot_ns;
  faults_.Look(now);
  if (given_ || path_.empty() || now - last_look_ns_ < kLookEveryNs) return;
  last_look_ns_ = now;
  FileMark seen = MarkOf(path_);
  if (!seen.there() || seen == seen_) return;
  seen_ = seen;
  std::string text;
  if (!ReadFile(path_.c_str(), text, kMaxRecordingBytes)) return;
  Result<FakeProfile> profile = ParseFakeProfile(text);
  if (profile) {
    Replace(*std::move(profile));
  } else {
    std::fprintf(stderr, "simulated NVML: %s: %s\n", path_.c_str(), profile.error().detail.c_str());
  }
}

void FakeWorld::LoadLocked() {
  if (given_ || profile_) return;
  const char* path = std::getenv("GPULENS_FAKE_NVML");
  if (path && *path) {
    path_ = path;
    last_look_ns_ = 0;
    ReloadWhenChanged();
  } else {
    Replace(*ParseFakeProfile(std::string(DemoProfile())));
  }
}

std::shared_ptr<const FakeProfile> FakeWorld::Load() {
  std::lock_guard lock(mutex_);
  LoadLocked();
  return profile_;
}

int FakeWorld::Open() {
  std::unique_lock lock(mutex_);
  opened_ns_ = clock_->Now().boot_ns;
  LoadLocked();
  if (!profile_) return kUnknownCode;
#ifdef GPULENS_FAKE_NVML_EXPORT
  // A program that opens this file finds the functions of the models by their names.
  if (profile_->recording) {
    std::fprintf(stderr, "simulated NVML: a recording can be replayed by `library: simulated` only\n");
    return kUnknownCode;
  }
#endif
  faults_.Look(RealClock().Now().boot_ns);
  Number();
  lock.unlock();
  int code = Enter("nvmlInit_v2", -1);
  lock.lock();
  open_ = code == kSuccessCode;
  return code;
}

bool FakeWorld::open() const noexcept {
  std::lock_guard lock(mutex_);
  return open_;
}

Instant FakeWorld::Now() const noexcept {
  std::lock_guard lock(mutex_);
  return clock_->Now();
}

double FakeWorld::OpenFor() const noexcept {
  std::lock_guard lock(mutex_);
  return SinceOpen();
}

std::shared_ptr<const FakeProfile> FakeWorld::profile() {
  std::lock_guard lock(mutex_);
  return profile_;
}

uint64_t FakeWorld::Calls(std::string_view call, int gpu) {
  std::lock_guard lock(mutex_);
  auto found = calls_.find(std::string(call));
  if (found == calls_.end()) return 0;
  if (gpu >= 0) return found->second[static_cast<size_t>(gpu + 1)];
  uint64_t sum = 0;
  for (uint64_t count : found->second) sum += count;
  return sum;
}

void FakeWorld::ForgetCalls() {
  std::lock_guard lock(mutex_);
  calls_.clear();
}

double FakeLoad::At(double seconds) const noexcept {
  switch (kind) {
    case Kind::kConstant: return level;
    case Kind::kSine: return level + amplitude * std::sin(kTurn * (seconds / period + phase));
    case Kind::kSteps: break;
  }
  double left = std::fmod(seconds + phase * StepsLength(*this), StepsLength(*this));
  for (const Step& step : steps) {
    if (left < step.seconds) return step.level;
    left -= step.seconds;
  }
  return steps.back().level;
}

double FakeLoad::Integral(double seconds) const noexcept {
  switch (kind) {
    case Kind::kConstant: return level * seconds;
    case Kind::kSine: {
      double swing = std::cos(kTurn * phase) - std::cos(kTurn * (seconds / period + phase));
      return level * seconds + amplitude * period / kTurn * swing;
    }
    case Kind::kSteps: break;
  }
  double length = StepsLength(*this), offset = phase * length;
  auto from_zero = [&](double t) {
    return std::floor(t / length) * StepsIntegral(*this, length) + StepsIntegral(*this, std::fmod(t, length));
  };
  return from_zero(seconds + offset) - from_zero(offset);
}

double FakeLoad::Mean(double seconds, double window) const noexcept {
  double from = std::max(0.0, seconds - window);
  if (seconds - from < 1e-3) return At(seconds);
  return (Integral(seconds) - Integral(from)) / (seconds - from);
}

std::string_view DemoProfile() noexcept {
  return R"(# Eight H100 that train: busy, with a pause between the epochs.
model: H100
gpus: 8
nvlink_share: 0.55
pcie_share: 0.12
load: {kind: sine, level: 0.78, amplitude: 0.2, period: 45}
each:
  - {gpu: 6, load: {kind: steps, steps: [[40, 0.95], [20, 0.1]]}}
  - {gpu: 7, load: {kind: constant, level: 0.05}, nvlink_share: 0.05}
processes:
  - {pid: 41000, memory: 52GiB, swing: 6GiB, period: 90}
  - {gpu: 7, pid: 52000, memory: 4GiB}
faults:
  - {gpu: 2, counter: ecc_corrected, amount: 3, from: 60}
throttle:
  - {gpu: 4, mask: 0x20, from: 30, for: 20}
)";
}

}  // namespace gpulens::nvml
