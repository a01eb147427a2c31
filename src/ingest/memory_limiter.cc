#include "ingest/memory_limiter.h"

#include <malloc.h>

#include <algorithm>

namespace gpulens {
namespace {

constexpr int64_t kLookEvery = 100'000'000, kTrimEvery = 1'000'000'000;

uint64_t Soft(const MemoryLimiter::Options& options) {
  const double share = std::max(0.0, options.share - options.spike);
  return static_cast<uint64_t>(static_cast<double>(options.limit) * share);
}

}  // namespace

MemoryLimiter::MemoryLimiter(Options options, const Clock& clock, Used used)
    : soft_(Soft(options)), clock_(clock), used_(std::move(used)) {}

bool MemoryLimiter::HasRoom() {
  if (soft_ == 0) return true;
  const int64_t now = clock_.Now().boot_ns;
  if (looked_ns_ >= 0 && now - looked_ns_ < kLookEvery) return room_;
  looked_ns_ = now;
  room_ = used_() <= soft_;
  if (room_) return true;
  // What was freed and not given back does not count against senders.
  if (trimmed_ns_ >= 0 && now - trimmed_ns_ < kTrimEvery) return room_;
  trimmed_ns_ = now;
  ::malloc_trim(0);
  return room_ = used_() <= soft_;
}

}  // namespace gpulens
