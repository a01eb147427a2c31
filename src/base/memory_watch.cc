#include "base/memory_watch.h"

#include <malloc.h>

#include <string>

#include "base/log.h"

namespace gpulens {
namespace {

constexpr int64_t kLookEvery = 100'000'000, kTrimEvery = 1'000'000'000;
// So many series take some hundred kilobytes.
constexpr uint64_t kQueries = 256;
constexpr double kMiB = 1 << 20;

std::string MiB(uint64_t bytes) {
  return std::to_string(static_cast<int>(static_cast<double>(bytes) / kMiB)) + " MiB";
}

}  // namespace

bool MemoryWatch::HasRoom() {
  if (limit_ == 0) return true;
  const bool turn = queried_.fetch_add(1, std::memory_order_relaxed) % kQueries == 0;
  const int64_t now = clock_.Now().boot_ns, looked = looked_ns_;
  if (turn || looked == INT64_MIN || now - looked >= kLookEvery) Look(now);
  return room_;
}

void MemoryWatch::Look(int64_t now) {
  std::unique_lock lock(looking_, std::try_to_lock);
  if (!lock) return;  // another thread is looking
  looked_ns_ = now;
  uint64_t used = used_();
  // What was freed and not given back is not held.
  if (used > limit_ && (trimmed_ns_ == INT64_MIN || now - trimmed_ns_ >= kTrimEvery)) {
    trimmed_ns_ = now;
    ::malloc_trim(0);
    used = used_();
  }
  const bool room = used <= limit_;
  if (room_.exchange(room) == room) return;
  if (room)
    Log(LogLevel::kInfo, "agent", "memory_below_limit", "series of pages and programs are accepted again.");
  else
    Log(LogLevel::kWarn, "agent", "memory_limit",
        MiB(used) + " are in use, above limits.memory of " + MiB(limit_) +
            ": new series of pages and programs are refused and counted.");
}

}  // namespace gpulens
