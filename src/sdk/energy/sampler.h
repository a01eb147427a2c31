// An engine with a thread that reads: the one of the process, and one for each set of sources that a program
// brings itself, so that its hanging hangs no other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "sdk/energy/engine.h"

namespace gpulens::sdk {

// Makes the sources of this machine; called once in each process.
using MakeSources = Sources (*)();

// The thread ends with it, when it is not stuck in a source; it is never waited for. Thread-safe.
class Sampler {
 public:
  explicit Sampler(Sources sources);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // The sampler of this process; created when there is none, and again in the child of a fork.
  static std::shared_ptr<Sampler> OfProcess(MakeSources make);

  Engine& engine() noexcept { return core_->engine; }
  const Status& status() const noexcept { return status_; }  // not ok: there is no thread
  // The process forked since: there is no thread any more, and the locks are not to be trusted.
  bool orphaned() const noexcept { return core_->orphaned.load(std::memory_order_relaxed); }

  // The next reading at once, without a wait for it.
  void Wake();
  // Requests readings until `done` returns true; false: not by the deadline. `done` is called without a lock.
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
    explicit Core(Sources sources) : engine(std::move(sources), SteadyClock()) {}
    Engine engine;
    std::mutex mutex;
    std::condition_variable wake, read;
    uint64_t rounds = 0;
    uint32_t fast_readers = 0;
    bool stop = false, running = true, woken = false;
    std::atomic<bool> orphaned{false};
  };
  // While one exists the reader reads as often as it may.
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
