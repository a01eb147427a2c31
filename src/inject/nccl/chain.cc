#include "inject/nccl/chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "inject/nccl/profiler.h"
#include "job_page/dynamic_loader.h"

namespace gpulens::nccl_plugin {
namespace {

struct ChainEntry {
  // Generation, and in the lowest bits whether the event goes on.
  std::atomic<uint64_t> state;
  std::atomic<void*> own;
  std::atomic<void*> other;
};
constexpr uint64_t kFree = 0, kLives = 1, kChanges = 2, kStateBits = 3;
constexpr size_t kEntries = 1 << 18;

constinit std::atomic<ChainEntry*> entries{nullptr};
constinit std::atomic<uint64_t> next_entry{0};

enum : uint32_t { kChainNotTried, kChainOpens, kChainOpen, kNoChain };
constinit std::atomic<uint32_t> chain_state{kChainNotTried};
constinit void* chain_library = nullptr;

constexpr size_t kChainedContexts = 4096;
constinit ChainedContext chained_contexts[kChainedContexts];
constinit std::atomic<uint32_t> chained_contexts_used[kChainedContexts];

void OpenChain() noexcept {
  const char* path = ::secure_getenv(kChainVariable);
  if (!path || *path == '\0') return chain_state.store(kNoChain, std::memory_order_release);
  void* memory = ::mmap(nullptr, kEntries * sizeof(ChainEntry), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) chain_library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!chain_library) {
    if (memory != MAP_FAILED) ::munmap(memory, kEntries * sizeof(ChainEntry));
    Explain("the plugin in GPULENS_NCCL_CHAIN cannot be loaded");
    return chain_state.store(kNoChain, std::memory_order_release);
  }
  entries.store(static_cast<ChainEntry*>(memory), std::memory_order_release);
  chain_state.store(kChainOpen, std::memory_order_release);
}

// Bits 0-19 number + 1, 20-63 generation.
void* Pack(size_t at, uint64_t generation) noexcept {
  return reinterpret_cast<void*>((at + 1) | generation << 20);
}
struct Found {
  ChainEntry* entry = nullptr;
  uint64_t state = 0;
};
Found Find(void* joined) noexcept {
  ChainEntry* all = entries.load(std::memory_order_acquire);
  const auto bits = reinterpret_cast<uint64_t>(joined);
  const uint64_t number = bits & 0xFFFFF;
  if (!all || number == 0 || number > kEntries) return {};
  ChainEntry& entry = all[number - 1];
  const uint64_t state = entry.state.load(std::memory_order_acquire);
  if ((state >> 2 & (~uint64_t{0} >> 20)) != bits >> 20 || (state & kStateBits) == kChanges) return {};
  return {&entry, state};
}

}  // namespace

void* ChainedTable(int version) noexcept {
  uint32_t state = kChainNotTried;
  if (chain_state.compare_exchange_strong(state, kChainOpens, std::memory_order_acq_rel)) {
    OpenChain();
    state = chain_state.load(std::memory_order_acquire);
  }
  if (state != kChainOpen) return nullptr;
  char name[] = "ncclProfiler_v0";
  name[sizeof name - 2] = static_cast<char>('0' + version);
  void* table = ::dlsym(chain_library, name);
  if (!table) Explain("the plugin in GPULENS_NCCL_CHAIN has no table of the version that this NCCL takes");
  return table;
}

void ForgetChain() noexcept { chain_state.store(kChainNotTried, std::memory_order_release); }

bool IsChainedContext(const void* context) noexcept {
  return context >= chained_contexts && context < chained_contexts + kChainedContexts;
}

ChainedContext* TakeChainedContext() noexcept {
  for (size_t i = 0; i < kChainedContexts; ++i) {
    uint32_t used = 0;
    if (!chained_contexts_used[i].compare_exchange_strong(used, 1, std::memory_order_acq_rel)) continue;
    chained_contexts[i] = {.pid = ::getpid()};
    return chained_contexts + i;
  }
  return nullptr;
}

void ReleaseChainedContext(ChainedContext* context) noexcept {
  chained_contexts_used[context - chained_contexts].store(0, std::memory_order_release);
}

void* JoinHandles(void* own, void* other) noexcept {
  ChainEntry* all = entries.load(std::memory_order_acquire);
  if (!all || (!own && !other)) return nullptr;
  for (int tries = 0; tries < 64; ++tries) {
    const size_t at = next_entry.fetch_add(1, std::memory_order_relaxed) % kEntries;
    ChainEntry& entry = all[at];
    uint64_t state = entry.state.load(std::memory_order_relaxed);
    if ((state & kStateBits) != kFree) continue;
    const uint64_t generation = ((state >> 2) + 1) & (~uint64_t{0} >> 20);
    if (!entry.state.compare_exchange_strong(state, generation << 2 | kChanges, std::memory_order_acq_rel))
      continue;
    entry.own.store(own, std::memory_order_relaxed);
    entry.other.store(other, std::memory_order_relaxed);
    entry.state.store(generation << 2 | kLives, std::memory_order_release);
    return Pack(at, generation);
  }
  return nullptr;
}

HandlePair SplitHandle(void* joined) noexcept {
  const Found found = Find(joined);
  if (!found.entry) return {};
  HandlePair pair{found.entry->own.load(std::memory_order_relaxed),
                  found.entry->other.load(std::memory_order_relaxed)};
  std::atomic_thread_fence(std::memory_order_acquire);
  // Taken for another event meanwhile.
  if (found.entry->state.load(std::memory_order_relaxed) >> 2 != found.state >> 2) return {};
  return pair;
}

HandlePair EndHandle(void* joined) noexcept {
  const Found found = Find(joined);
  if (!found.entry) return {};
  HandlePair pair{found.entry->own.load(std::memory_order_relaxed),
                  found.entry->other.load(std::memory_order_relaxed)};
  uint64_t state = found.state;
  if ((state & kStateBits) != kLives ||
      !found.entry->state.compare_exchange_strong(state, state & ~kStateBits, std::memory_order_acq_rel))
    return {};
  return pair;
}

}  // namespace gpulens::nccl_plugin
