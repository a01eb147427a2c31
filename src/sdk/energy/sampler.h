// An engine with a reading thread: one for the process, and one for each set of sources of a program's own,
// so that a hanging source affects no other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "sdk/energy/engine.h"

namespace gpulens::sdk {

// Creates the sources of this machine; called once in each process.
using MakeSources = EnergySources (*)();

// The destructor ends the thread, unless it is stuck in a source, without waiting for it. Thread-safe.
class EnergySampler {
 public:
  explicit EnergySampler(EnergySources sources);
  ~EnergySampler();
  EnergySampler(const EnergySampler&) = delete;
  EnergySampler& operator=(const EnergySampler&) = delete;

  // Returns the sampler of this process, creating it if needed, also in the child of a fork.
  static std::shared_ptr<EnergySampler> OfProcess(MakeSources make);

  EnergyEngine& engine() noexcept { return core_->engine; }
  const Status& status() const noexcept { return status_; }  // an error: there is no thread
  // Whether this is a child of the process that created it: there is no thread, and its locks must not be
  // used.
  bool orphaned() const noexcept { return core_->orphaned.load(std::memory_order_relaxed); }

  // Requests a reading now, without waiting for it.
  void Wake();
  // Requests readings until `done` returns true; returns false at the deadline. `done` is called without a
  // lock.
  template <class Done>
  bool ReadUntil(int64_t deadline_ns, Done done) {
    if (done()) return true;
    const FastReading reading(*core_);
    do {
      const bool good = AwaitRound(deadline_ns);
      if (done()) return true;
      if (!good) return false;
    } while (true);
  }

 private:
  struct Core {
    explicit Core(EnergySources sources) : engine(std::move(sources), SteadyClock()) {}
    EnergyEngine engine;
    std::mutex mutex;
    std::condition_variable wake, read;
    uint64_t rounds = 0;
    uint32_t fast_readers = 0;
    bool stop = false, running = true, woken = false;
    std::atomic<bool> orphaned{false};
  };
  // While one exists, the thread reads as often as allowed.
  class FastReading {
   public:
    explicit FastReading(Core& core);
    ~FastReading();

   private:
    Core& core_;
  };
  friend struct ForkGuard;

  bool AwaitRound(int64_t deadline_ns);
  static void Run(const std::shared_ptr<Core>& core);

  const std::shared_ptr<Core> core_;
  Status status_;
};

}  // namespace gpulens::sdk
