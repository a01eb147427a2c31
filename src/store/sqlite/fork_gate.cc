#include "store/sqlite/fork_gate.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <vector>

#include "base/check.h"
#include "base/ref.h"

namespace gpulens::sqlite {

std::atomic<uint32_t> internal::forks = 0;

namespace {

constexpr auto kLongestWait = std::chrono::seconds(10);

// Never destroyed: programs fork in destructors, too.
struct Gate {
  std::shared_timed_mutex inside;
  std::mutex list;  // taken inside of `inside`
  std::vector<Forkable*> holders;
  bool closed = false;  // of the thread that forks
  std::atomic<bool> unsafe = false;

  static Gate& Instance() noexcept {
    static Immortal<Gate> gate;
    return *gate;
  }
  Gate() { CHECK(::pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild) == 0); }

  static void BeforeFork() noexcept {
    Gate& gate = Instance();
    gate.closed = gate.inside.try_lock_for(kLongestWait);
    if (!gate.closed) return;
    for (Forkable* holder : gate.holders) holder->CloseForFork();
  }
  static void AfterForkInParent() noexcept {
    Gate& gate = Instance();
    if (gate.closed) gate.inside.unlock();
  }
  // The lock remembers a thread that has another number now.
  static void AfterForkInChild() noexcept {
    Gate& gate = Instance();
    if (!gate.closed) gate.unsafe = true;
    new (&gate.inside) std::shared_timed_mutex;
    new (&gate.list) std::mutex;
    gate.holders.clear();
    internal::forks.fetch_add(1, std::memory_order_relaxed);
  }
};

}  // namespace

Use::Use() { Gate::Instance().inside.lock_shared(); }
Use::~Use() { Gate::Instance().inside.unlock_shared(); }

void AddForkable(Forkable* holder) {
  Gate& gate = Gate::Instance();
  std::lock_guard lock(gate.list);
  gate.holders.push_back(holder);
}

void RemoveForkable(Forkable* holder) noexcept {
  Gate& gate = Gate::Instance();
  std::lock_guard lock(gate.list);
  std::erase(gate.holders, holder);
}

bool UnsafeSinceFork() noexcept { return Gate::Instance().unsafe.load(std::memory_order_relaxed); }

}  // namespace gpulens::sqlite
