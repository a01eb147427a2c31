#include "sources/nvml/simulated/fake_world.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numbers>

#include "sources/nvml/reader/nvml_abi.h"
#include "sources/nvml/recording/recording.h"
#include "sources/nvml/simulated/fault_list.h"

namespace gpulens::nvml {
namespace {

constexpr double kMib = 1024.0 * 1024.0;

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
    if (!rule.when.Holds(view.index, view.rule_seconds)) continue;
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
    if (rule.when.Holds(view.index, view.rule_seconds)) view.reasons |= rule.mask;
  }
  double clock = view.ClockOf(view.busy);
  if (view.reasons & 0x60) clock *= 0.75;
  if (view.reasons & 0x88) clock *= 0.5;
  view.clock = static_cast<unsigned>(std::max(clock, double{15}) / 15) * 15;
}

void Rest(int64_t ns) noexcept {
  timespec wait{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  ::nanosleep(&wait, nullptr);
}

// As bugs of drivers do; without a core file, since nothing is to be looked for in it. Comes back from those
// ends that take the process from its agent alone.
void Die(FaultEnd how) {
  constexpr int kFiles = 64;
  constexpr size_t kLeak = size_t{64} << 20, kPage = 4096;
  ::prctl(PR_SET_DUMPABLE, 0);
  switch (how) {
    case FaultEnd::kAbort: std::abort();
    case FaultEnd::kExit: std::exit(3);
    case FaultEnd::kClose:
      for (int fd = 3; fd < kFiles; ++fd) ::close(fd);
      return;
    case FaultEnd::kGarbage:
      for (int fd = 3; fd < kFiles; ++fd)
        static_cast<void>(::send(fd, "garbage", 7, MSG_NOSIGNAL | MSG_DONTWAIT));
      return;
    case FaultEnd::kStop: ::raise(SIGSTOP); return;
    case FaultEnd::kMemory:
      // Never given back: that is the fault. It is volatile so that the compiler does not leave it out.
      if (auto* kept = static_cast<volatile char*>(std::malloc(kLeak))) {
        for (size_t i = 0; i < kLeak; i += kPage) kept[i] = 1;
      }
      return;
    case FaultEnd::kFiles:
      for (int i = 0; i < 100 && ::dup(2) >= 0; ++i) {
      }
      return;
    default: break;
  }
  ::raise(SIGSEGV);
  std::abort();
}

void PutReading(FakeView& view, FaultReading reading, uint64_t bits) noexcept {
  auto narrow = static_cast<unsigned>(bits);
  switch (reading) {
    case FaultReading::kPower: view.power_mw = view.power_mean_mw = narrow; break;
    case FaultReading::kEnergy: view.flows[static_cast<size_t>(FakeFlow::kEnergyMillijoules)] = bits; break;
    case FaultReading::kTemperature: view.core_temperature = narrow; break;
    case FaultReading::kUtilization: view.utilization = narrow; break;
    case FaultReading::kMemory: view.used = bits; break;
    case FaultReading::kClock: view.clock = narrow; break;
    case FaultReading::kCount: break;
  }
}

uint64_t ReadingOf(const FakeView& view, FaultReading reading) noexcept {
  switch (reading) {
    case FaultReading::kPower: return view.power_mean_mw;
    case FaultReading::kEnergy: return view.flows[static_cast<size_t>(FakeFlow::kEnergyMillijoules)];
    case FaultReading::kTemperature: return view.core_temperature;
    case FaultReading::kUtilization: return view.utilization;
    case FaultReading::kMemory: return view.used;
    default: return view.clock;
  }
}

}  // namespace

unsigned FakeView::Faults(FakeFault::Counter counter) const noexcept {
  unsigned sum = 0;
  for (const FakeFault& fault : profile->faults) {
    if (fault.counter != counter) continue;
    const bool holds = fault.when.Holds(index, rule_seconds);
    if (profile->period == 0 || !RowOf(counter).stays) sum += holds ? fault.amount : 0;
    // A count stays when its time is over.
    else if (fault.when.HeldFor(index, 1e18) > 0)
      sum += fault.amount * (static_cast<unsigned>(periods) + (rule_seconds >= fault.when.from ? 1 : 0));
  }
  return sum + CountOf(*faults, counter, static_cast<int>(index), boot_ns);
}

uint64_t FakeView::ThrottledNs(uint64_t mask) const noexcept {
  double sum = 0;
  for (const FakeRule& rule : profile->throttles) {
    if (!(rule.mask & mask)) continue;
    sum += rule.when.HeldFor(index, rule_seconds);
    if (periods > 0) sum += periods * rule.when.HeldFor(index, profile->period);
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

FakeWorld::FakeWorld()
    : FakeMachine({"NVML", "GPULENS_FAKE_NVML", DemoProfile(), ParseFakeProfile, kMaxRecordingBytes}) {}

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
  double now = SecondsSince(0);
  for (unsigned i = 0; i < kMaxFakeGpus; ++i) {
    for (size_t f = 0; f < kFakeFlows; ++f) {
      auto flow = static_cast<FakeFlow>(f);
      double& base = memory_[i].base[f];
      if (profile_ && i < profile_->gpus.size()) base += Flow(*profile_, i, flow, now);
      if (profile_ && i < profile.gpus.size()) base -= Flow(profile, i, flow, now);
    }
  }
  FakeMachine::Replace(std::move(profile));
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
  faults_.Look(RealClock().Now().boot_ns);
  FakeMachine::ReloadWhenChanged();
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
  if (!profile_) return kUnknownError;
#ifdef GPULENS_FAKE_EXPORT
  // A program that opens this file finds the functions of the models by their names.
  if (profile_->recording) {
    std::fprintf(stderr, "simulated NVML: a recording can be replayed by `library: simulated` only\n");
    return kUnknownError;
  }
#endif
  faults_.Look(RealClock().Now().boot_ns);
  Number();
  lock.unlock();
  int code = Enter("nvmlInit_v2", -1);
  lock.lock();
  open_ = code == kSuccess;
  return code;
}

Instant FakeWorld::Now() const noexcept {
  std::lock_guard lock(mutex_);
  return clock_->Now();
}

double FakeWorld::OpenFor() const noexcept {
  std::lock_guard lock(mutex_);
  return SecondsSince(opened_ns_);
}

int FakeWorld::Enter(const char* call, int gpu) {
  std::unique_lock lock(mutex_);
  uint64_t number = CountCall(call, gpu);
  auto hits = [&](const FakeRule& rule) { return rule.Hits(call, gpu, number, SecondsSince(opened_ns_)); };
  bool delayed = false;
  while (true) {
    ReloadWhenChanged();
    if (!profile_) return kUninitialized;
    FaultGate gate = GateOf(*faults_.script(), {call, gpu, clock_->Now().boot_ns, opened_ns_, number});
    if (gate.kind == FaultGate::kDie) {
      Die(gate.how);
      break;
    }
    bool hangs =
        gate.kind == FaultGate::kWait || std::any_of(profile_->hangs.begin(), profile_->hangs.end(), hits);
    if (!hangs && (gate.delay_ns == 0 || delayed)) {
      if (gate.kind == FaultGate::kFail) return gate.code;
      break;
    }
    // Looked at again and again, so that a hang ends when its rule or fault does.
    lock.unlock();
    Rest(hangs ? 5'000'000 : gate.delay_ns);
    delayed = !hangs;
    lock.lock();
  }
  auto error = std::find_if(profile_->errors.begin(), profile_->errors.end(), hits);
  return error == profile_->errors.end() ? 0 : static_cast<int>(error->code);
}

bool FakeWorld::View(unsigned index, FakeView& out) {
  std::lock_guard lock(mutex_);
  if (!profile_ || index >= profile_->gpus.size()) return false;
  FillAt(index, clock_->Now().boot_ns, out);
  auto place = std::find(order_.begin(), order_.end(), index);
  out.shown_index = place == order_.end() ? index : static_cast<unsigned>(place - order_.begin());
  ApplyFaults(out);
  return true;
}

void FakeWorld::FillAt(unsigned index, int64_t boot_ns, FakeView& out) const {
  double now = static_cast<double>(boot_ns) * 1e-9;
  out = FakeView{};
  out.profile = profile_.get();
  out.model = profile_->model;
  out.gpu = &profile_->gpus[index];
  out.index = index;
  out.faults = faults_.script();
  out.boot_ns = boot_ns;
  out.since_open = static_cast<double>(boot_ns - opened_ns_) * 1e-9;
  out.seconds = now;
  out.rule_seconds = out.since_open;
  if (const double period = profile_->period; period > 0) {
    out.periods = std::floor(now / period);
    out.rule_seconds = now - out.periods * period;
  }
  out.unix_us = clock_->Now().unix_ns / 1000;
  out.busy = std::clamp(out.gpu->load.At(now), 0.0, 1.0);
  out.busy_mean = std::clamp(out.gpu->load.Mean(now, 1), 0.0, 1.0);
  out.utilization = static_cast<unsigned>(out.busy_mean * 100 + 0.5);
  out.power_mw = out.PowerAt(now);
  out.power_mean_mw = out.MeanPower();
  int64_t reset_ns = LastReset(*out.faults, static_cast<int>(index), boot_ns);
  for (size_t f = 0; f < kFakeFlows; ++f) {
    auto flow = static_cast<FakeFlow>(f);
    double value = memory_[index].base[f] + Flow(*profile_, index, flow, now);
    if (reset_ns > 0)
      value = Flow(*profile_, index, flow, now) -
              Flow(*profile_, index, flow, static_cast<double>(reset_ns) * 1e-9);
    out.flows[f] = static_cast<uint64_t>(std::max(0.0, value));
  }
  out.Fill();
}

void FakeWorld::ApplyFaults(FakeView& view) const {
  for (const LiveFault& fault : *view.faults) {
    if (!fault.Holds(static_cast<int>(view.index), view.boot_ns)) continue;
    uint64_t& energy = view.flows[static_cast<size_t>(FakeFlow::kEnergyMillijoules)];
    switch (fault.mode) {
      case FaultMode::kThrottle: view.reasons |= fault.value; break;
      case FaultMode::kWrongValue: PutReading(view, fault.reading, fault.value); break;
      case FaultMode::kEnergyBackward: energy -= std::min(energy, uint64_t{fault.amount} * 1000); break;
      case FaultMode::kStuck: {
        FakeView then;
        FillAt(view.index, fault.from_ns, then);
        PutReading(view, fault.reading, ReadingOf(then, fault.reading));
        break;
      }
      default: break;
    }
  }
}

void FakeWorld::UseFaults(std::vector<LiveFault> faults) {
  std::lock_guard lock(mutex_);
  faults_.Use(std::move(faults));
}

FaultScript FakeWorld::faults() {
  std::lock_guard lock(mutex_);
  ReloadWhenChanged();
  return faults_.script();
}

int64_t FakeWorld::boot_ns() const noexcept {
  std::lock_guard lock(mutex_);
  return clock_->Now().boot_ns;
}

// As a library does when it is opened: who is there gets a number, in order.
void FakeWorld::Number() {
  order_.clear();
  int64_t now = clock_->Now().boot_ns;
  const std::vector<LiveFault>& faults = *faults_.script();
  for (unsigned gpu = 0; gpu < profile_->gpus.size(); ++gpu) {
    if (!IsVanished(faults, static_cast<int>(gpu), now)) order_.push_back(gpu);
  }
  for (const LiveFault& fault : faults) {
    auto place = std::find(order_.begin(), order_.end(), static_cast<unsigned>(fault.gpu));
    if (fault.mode != FaultMode::kRenumber || !fault.Holds(fault.gpu, now) || place == order_.end()) continue;
    order_.erase(place);
    order_.insert(order_.begin() + std::min<ptrdiff_t>(fault.index, std::ssize(order_)),
                  static_cast<unsigned>(fault.gpu));
  }
}

int FakeWorld::SlotOf(unsigned shown_index) const noexcept {
  std::lock_guard lock(mutex_);
  return shown_index < order_.size() ? static_cast<int>(order_[shown_index]) : -1;
}

unsigned FakeWorld::Count() {
  std::lock_guard lock(mutex_);
  ReloadWhenChanged();
  unsigned count = 0;
  for (unsigned gpu = 0; gpu < profile_->gpus.size(); ++gpu)
    count += !IsVanished(*faults_.script(), static_cast<int>(gpu), clock_->Now().boot_ns);
  return count;
}

}  // namespace gpulens::nvml
