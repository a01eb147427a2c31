#include "sources/amdsmi/simulated/fake_world.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/files.h"
#include "sources/amdsmi/reader/amdsmi_abi.h"

namespace gpulens::amdsmi {
namespace {

constexpr int64_t kLookEveryNs = 20'000'000;
constexpr double kLinkKibPerSecond = 62.5e6;  // 64 GB/s

// A share of the cap, from the idle power up.
double PowerAt(const FakeModel& model, double busy) noexcept {
  return model.idle_w + (model.cap_w * 0.97 - model.idle_w) * busy;
}

}  // namespace

double FakeView::Throttled(FakeThrottle::Cause cause) const noexcept {
  double sum = 0;
  for (const FakeThrottle& rule : profile->throttles) {
    bool mine = rule.when.gpu < 0 || rule.when.gpu == static_cast<int>(gpu);
    if (rule.cause != cause || !mine) continue;
    sum += std::max(0.0, std::min(since_open, rule.when.to) - rule.when.from);
  }
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

double FakeWorld::SecondsSince(int64_t boot_ns) const noexcept {
  return static_cast<double>(clock_->Now().boot_ns - boot_ns) * 1e-9;
}

Status FakeWorld::Use(const std::string& yaml, const Clock* clock) {
  Result<FakeProfile> profile = ParseFakeProfile(yaml);
  if (!profile) return profile.error();
  std::lock_guard lock(mutex_);
  clock_ = clock ? clock : &RealClock();
  profile_ = std::make_shared<const FakeProfile>(*std::move(profile));
  calls_.clear();
  opened_ns_ = clock_->Now().boot_ns;
  given_ = true;
  return Status{};
}

void FakeWorld::ReloadWhenChanged() {
  int64_t now = RealClock().Now().boot_ns;
  if (given_ || path_.empty() || now - last_look_ns_ < kLookEveryNs) return;
  last_look_ns_ = now;
  FileMark seen = MarkOf(path_);
  if (!seen.there() || seen == seen_) return;
  seen_ = seen;
  std::string text;
  if (!ReadFile(path_.c_str(), text)) return;
  Result<FakeProfile> profile = ParseFakeProfile(text);
  if (profile) {
    profile_ = std::make_shared<const FakeProfile>(*std::move(profile));
  } else {
    std::fprintf(stderr, "simulated AMD SMI: %s: %s\n", path_.c_str(), profile.error().detail.c_str());
  }
}

int FakeWorld::Open() {
  std::unique_lock lock(mutex_);
  opened_ns_ = clock_->Now().boot_ns;
  if (!given_ && !profile_) {
    const char* path = std::getenv("GPULENS_FAKE_AMDSMI");
    if (path && *path) {
      path_ = path;
      last_look_ns_ = 0;
      ReloadWhenChanged();
    } else {
      profile_ = std::make_shared<const FakeProfile>(*ParseFakeProfile(std::string(DefaultProfile())));
    }
  }
  if (!profile_) return kFileError;
  lock.unlock();
  int code = Enter("amdsmi_init", -1);
  lock.lock();
  open_ = code == kSuccess;
  return code;
}

bool FakeWorld::open() const noexcept {
  std::lock_guard lock(mutex_);
  return open_;
}

std::shared_ptr<const FakeProfile> FakeWorld::profile() {
  std::lock_guard lock(mutex_);
  return profile_;
}

int FakeWorld::Enter(const char* call, int gpu) {
  std::unique_lock lock(mutex_);
  uint64_t number = ++calls_[call][static_cast<size_t>(gpu + 1)];
  double now = 0;
  auto holds = [&](const FakeWhen& when) {
    return gpu >= 0 ? when.Holds(static_cast<unsigned>(gpu), now)
                    : when.gpu < 0 && now >= when.from && now < when.to;
  };
  auto hits = [&](const FakeRule& rule) {
    bool named = rule.call == call || (rule.call == "*" && gpu >= 0);
    return named && (rule.nth == 0 || rule.nth == number) && holds(rule.when);
  };
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

uint64_t FakeWorld::Calls(const std::string& call) {
  std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (uint64_t count : calls_[call]) sum += count;
  return sum;
}

}  // namespace gpulens::amdsmi
