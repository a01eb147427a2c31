#include "sdk/energy/sampler.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/threads.h"

namespace gpulens::sdk {
namespace {

using std::chrono::steady_clock;

// Least pause between readings for results, since counters are not updated more often, and the least multiple
// of a reading's duration, so that busy programs use at most a tenth of a processor.
constexpr Duration kLeastPause = std::chrono::milliseconds(2);
constexpr int kPausesPerReading = 9;
// Wait for a thread that is reading when the process exits.
constexpr Duration kLongestGoodbye = std::chrono::milliseconds(200);

}  // namespace

// The samplers of the process, for fork handlers. Its locks are taken before those of samplers.
struct ForkGuard {
  std::mutex making;  // held while the sampler of the process is created; taken before `mutex`
  std::mutex mutex;
  std::vector<EnergySampler*> samplers;
  std::weak_ptr<EnergySampler> of_process;
  // Condition variables that the parent's threads waited on are abandoned.
  std::vector<std::shared_ptr<void>> left_behind;

  static ForkGuard& Instance() {
    static ForkGuard* const guard = new ForkGuard;
    return *guard;
  }
  ForkGuard() { CHECK(::pthread_atfork(&Before, &InParent, &InChild) == 0); }

  static void Before() noexcept {
    ForkGuard& guard = Instance();
    guard.making.lock();
    guard.mutex.lock();
    for (EnergySampler* one : guard.samplers) {
      one->core_->mutex.lock();
      one->engine().Lock();
    }
  }
  static void UnlockAll() noexcept {
    for (EnergySampler* one : Instance().samplers) {
      one->engine().Unlock();
      one->core_->mutex.unlock();
    }
  }
  static void InParent() noexcept {
    UnlockAll();
    Instance().mutex.unlock();
    Instance().making.unlock();
  }
  // The reading thread does not exist in the child; its state is abandoned.
  static void InChild() noexcept {
    UnlockAll();
    for (EnergySampler* one : Instance().samplers) one->core_->orphaned.store(true);
    Instance().mutex.unlock();
    Instance().making.unlock();
  }

  // Stops the threads at the end of the process, before vendors' libraries are torn down.
  static void AtExit() noexcept {
    ForkGuard& guard = Instance();
    std::lock_guard lock(guard.mutex);
    for (EnergySampler* one : guard.samplers) {
      if (one->orphaned()) continue;
      std::unique_lock inner(one->core_->mutex);
      one->core_->stop = true;
      one->core_->wake.notify_all();
      one->core_->read.wait_for(inner, kLongestGoodbye, [&] { return !one->core_->running; });
    }
  }
};

EnergySampler::EnergySampler(EnergySources sources) : core_(std::make_shared<Core>(std::move(sources))) {
  {
    ForkGuard& guard = ForkGuard::Instance();
    std::lock_guard lock(guard.mutex);
    guard.samplers.push_back(this);
  }
  const SignalsBlocked quiet;
  status_ = StartDetachedThread([core = core_] { Run(core); });
}

EnergySampler::~EnergySampler() {
  {
    ForkGuard& guard = ForkGuard::Instance();
    std::lock_guard lock(guard.mutex);
    std::erase(guard.samplers, this);
    if (orphaned()) {
      guard.left_behind.push_back(core_);
      return;
    }
  }
  std::lock_guard lock(core_->mutex);
  core_->stop = true;
  core_->wake.notify_all();
}

std::shared_ptr<EnergySampler> EnergySampler::OfProcess(MakeSources make) {
  ForkGuard& guard = ForkGuard::Instance();
  std::lock_guard lock(guard.making);
  std::shared_ptr<EnergySampler> found;
  {
    std::lock_guard inner(guard.mutex);
    found = guard.of_process.lock();
  }
  if (found && !found->orphaned()) return found;
  found = std::make_shared<EnergySampler>(make());
  std::lock_guard inner(guard.mutex);
  guard.of_process = found;
  return found;
}

void EnergySampler::Run(const std::shared_ptr<Core>& core) {
  ::pthread_setname_np(::pthread_self(), "gpulens-energy");
  core->engine.Open();
  // Registered after the libraries were loaded, so it runs before they are torn down.
  static std::once_flag once;
  std::call_once(once, [] { CHECK(std::atexit(&ForkGuard::AtExit) == 0); });
  TimePoint ticked{};
  std::unique_lock lock(core->mutex);
  const auto wanted = [&] { return core->stop || core->fast_readers > 0 || core->woken; };
  while (!core->stop) {
    core->woken = false;
    lock.unlock();
    const TimePoint begun = steady_clock::now(), due = ticked + core->engine.interval();
    const bool whole = begun >= due;
    core->engine.Round(whole);
    // Missed ticks are skipped.
    if (whole) ticked = begun - due > core->engine.interval() ? begun : due;
    lock.lock();
    ++core->rounds;
    core->read.notify_all();
    const TimePoint done = steady_clock::now();
    const Duration pause = std::max<Duration>(kLeastPause, kPausesPerReading * (done - begun));
    const TimePoint next = std::min(done + pause, ticked + core->engine.interval());
    core->wake.wait_until(lock, std::max(next, done + kLeastPause), [&] { return core->stop; });
    if (core->engine.idle()) core->wake.wait(lock, wanted);
    else if (!core->engine.learning()) core->wake.wait_until(lock, ticked + core->engine.interval(), wanted);
  }
  core->running = false;
  core->read.notify_all();
}

void EnergySampler::Wake() {
  std::lock_guard lock(core_->mutex);
  core_->woken = true;
  core_->wake.notify_all();
}

EnergySampler::FastReading::FastReading(Core& core) : core_(core) {
  std::lock_guard lock(core_.mutex);
  ++core_.fast_readers;
  core_.wake.notify_all();
}

EnergySampler::FastReading::~FastReading() {
  std::lock_guard lock(core_.mutex);
  --core_.fast_readers;
}

bool EnergySampler::AwaitRound(int64_t deadline_ns) {
  std::unique_lock lock(core_->mutex);
  const uint64_t before = core_->rounds;
  return core_->read.wait_until(lock, TimeOf(deadline_ns), [&] { return core_->rounds != before; });
}

}  // namespace gpulens::sdk
