// The gate that every call of the simulated library passes, and what a GPU shows at a moment: where the
// rules of the profile and the faults of the moment meet the world.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "sources/nvml/simulated/fake_world.h"

namespace gpulens::nvml {
namespace {

constexpr int kNotInitialized = 1;

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
      for (int i = 0; i < 100; ++i) static_cast<void>(::dup(2));
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

int FakeWorld::Enter(const char* call, int gpu) {
  std::unique_lock lock(mutex_);
  uint64_t number = ++calls_[call][static_cast<size_t>(gpu + 1)];
  auto hits = [&](const FakeRule& rule) {
    bool named = rule.call == call || (rule.call == "*" && gpu >= 0);
    return named && (rule.nth == 0 || rule.nth == number) && rule.when.Holds(gpu, SinceOpen());
  };
  bool delayed = false;
  while (true) {
    ReloadWhenChanged();
    if (!profile_) return kNotInitialized;
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
  return error == profile_->errors.end() ? 0 : error->code;
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
