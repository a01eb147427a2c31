// Another profiler plugin behind this one (GPULENS_NCCL_CHAIN): it gets the events that it wants, with its
// own handles. While one is chained, every handle that NCCL gets joins two: ours and the other's.
#pragma once

#include <cstdint>

#include "inject/nccl/profiler_abi.h"

namespace gpulens::nccl_plugin {

inline constexpr char kChainVariable[] = "GPULENS_NCCL_CHAIN";

// The table of functions that the other plugin exports for a version, or null: no other plugin, or one that
// does not know this version (which the page then explains). Opens the library at the first call.
void* ChainedTable(int version) noexcept;

// For tests: the next call of ChainedTable reads the environment again.
void ForgetChain() noexcept;

// Both contexts of a communicator: ours, and the other's.
struct ChainedContext {
  void* own = nullptr;
  void* other = nullptr;
  int32_t pid = 0;
  int mask = 0;  // the other's; it may change it at any time
};
bool IsChainedContext(const void* context) noexcept;
// Null: too many.
ChainedContext* TakeChainedContext() noexcept;
void ReleaseChainedContext(ChainedContext* context) noexcept;

// One handle for two. Null when both are null or there is no room; an entry is used again when its event
// ended and all others that ended before it were used again, so that children find their parent for long.
void* JoinHandles(void* own, void* other) noexcept;
struct HandlePair {
  void* own = nullptr;
  void* other = nullptr;
};
// Nulls for a handle that is too old.
HandlePair SplitHandle(void* joined) noexcept;
// As SplitHandle; the other's handle is given once only.
HandlePair EndHandle(void* joined) noexcept;

}  // namespace gpulens::nccl_plugin
