#include "sources/amdsmi/simulated/fake_world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "sources/amdsmi/reader/amdsmi_abi.h"

namespace gpulens::amdsmi {
namespace {

constexpr double kLinkKibPerSecond = 62.5e6;  // 64 GB/s

// A share of the cap, from the idle power up.
double PowerAt(const FakeModel& model, double busy) noexcept {
  return model.idle_w + (model.cap_w * 0.97 - model.idle_w) * busy;
}

}  // namespace

double FakeView::Throttled(FakeThrottle::Cause cause) const noexcept {
  double sum = 0;
  for (const FakeThrottle& rule : profile->throttles)
    if (rule.cause == cause) sum += rule.when.HeldFor(gpu, since_open);
  return sum;
}

bool FakeView::Throttles(FakeThrottle::Cause cause) const noexcept {
  return std::any_of(profile->throttles.begin(), profile->throttles.end(), [&](const FakeThrottle& rule) {
    return rule.cause == cause && rule.when.Holds(gpu, since_open);
  });
}

uint64_t FakeView::Errors(unsigned block, FakeErrors::Type type) const noexcept {
  uint64_t sum = 0;
  for (const FakeErrors& rule : profile->ecc) {
    if (rule.block == block && rule.type == type && rule.when.Holds(gpu, since_open)) sum += rule.amount;
  }
  return sum;
}

FakeWorld& FakeWorld::Get() {
  static FakeWorld* world = new FakeWorld;  // Never destroyed: calls may hang while the process ends.
  return *world;
}

FakeWorld::FakeWorld()
    : FakeMachine({"AMD SMI", "GPULENS_FAKE_AMDSMI", DefaultProfile(), ParseFakeProfile, 1 << 20}) {}

Status FakeWorld::Use(const std::string& yaml, const Clock* clock) {
  Result<FakeProfile> profile = ParseFakeProfile(yaml);
  if (!profile) return profile.error();
  std::lock_guard lock(mutex_);
  clock_ = clock ? clock : &RealClock();
  Replace(*std::move(profile));
  calls_.clear();
  opened_ns_ = clock_->Now().boot_ns;
  given_ = true;
  return Status{};
}

int FakeWorld::Open() {
  std::unique_lock lock(mutex_);
  opened_ns_ = clock_->Now().boot_ns;
  LoadLocked();
  if (!profile_) return kFileError;
  lock.unlock();
  int code = Enter("amdsmi_init", -1);
  lock.lock();
  open_ = code == kSuccess;
  return code;
}

int FakeWorld::Enter(const char* call, int gpu) {
  std::unique_lock lock(mutex_);
  uint64_t number = CountCall(call, gpu);
  double now = 0;
  auto hits = [&](const FakeRule& rule) { return rule.Hits(call, gpu, number, now); };
  auto holds = [&](const FakeWhen& when) { return when.Holds(gpu, now); };
  while (true) {
    ReloadWhenChanged();
    now = SecondsSince(opened_ns_);
    if (!profile_) return kNotInitialized;
    if (std::none_of(profile_->hangs.begin(), profile_->hangs.end(), hits)) break;
    // Looked at again and again, so that a test can end a hang by changing the profile.
    lock.unlock();
    timespec wait{.tv_sec = 0, .tv_nsec = 5'000'000};
    ::nanosleep(&wait, nullptr);
    lock.lock();
  }
  if (gpu >= 0 && std::any_of(profile_->lost.begin(), profile_->lost.end(), holds)) return kNotFound;
  auto error = std::find_if(profile_->errors.begin(), profile_->errors.end(), hits);
  return error == profile_->errors.end() ? 0 : static_cast<int>(error->code);
}

FakeView FakeWorld::View(unsigned gpu, unsigned partition) {
  std::lock_guard lock(mutex_);
  FakeView out;
  out.profile = profile_;
  out.model = profile_->model;
  out.gpu = gpu;
  out.partition = partition;
  out.since_open = SecondsSince(opened_ns_);
  // Loads run from the boot of the machine, not from the start of a process: a reader process that is
  // restarted finds its counters where they would be.
  out.seconds = SecondsSince(0);
  const FakeModel& model = *out.model;
  const FakeLoad load = gpu < out.profile->gpus.size() ? out.profile->gpus[gpu] : FakeLoad();
  out.busy = std::clamp(load.At(out.seconds), 0.0, 1.0);
  out.power_w = static_cast<unsigned>(PowerAt(model, out.busy) + 0.5);
  out.joules = model.idle_w * out.seconds + (PowerAt(model, 1) - model.idle_w) * load.Integral(out.seconds);
  out.link_kib = kLinkKibPerSecond * out.profile->xgmi_share * load.Integral(out.seconds);
  double warm = load.At(out.seconds);
  out.temperature = model.idle_temperature +
                    static_cast<unsigned>((model.busy_temperature - model.idle_temperature) * warm + 0.5);
  out.clock = out.busy < 0.01 ? model.idle_clock : model.max_clock - static_cast<unsigned>(100 * out.busy);
  out.total = (model.vram_mib / out.profile->partitions) << 20;
  for (const FakeProcess& rule : out.profile->processes) {
    if (!rule.when.Holds(gpu, out.since_open)) continue;
    FakeProcess& process = out.processes.emplace_back(rule);
    if (rule.when.gpu < 0) process.pid = rule.pid + gpu;
    process.bytes = std::min(process.bytes, static_cast<double>(out.total - out.used));
    out.used += static_cast<uint64_t>(process.bytes);
  }
  return out;
}

}  // namespace gpulens::amdsmi
