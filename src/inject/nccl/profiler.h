// What the NCCL profiler plugin does with events, whatever the version of NCCL's interface: it counts
// operations, follows the progress of each communicator, and measures how long an operation took on the
// device.
//
// Every function may be called from any thread in any order, with handles that ended, that were ended before,
// or that belong to a communicator that is gone: a handle is a number with a generation, never a pointer.
// After Open nothing allocates, locks or waits; system calls are those of OwnPage::HandOverIfDue alone. In a
// forked child all of it does nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "job_page/job_page_writer.h"

namespace gpulens::nccl_plugin {

// A descriptor of startEvent, without the differences of versions.
struct Event {
  uint64_t type = 0;  // nccl_abi::EventBit
  void* parent = nullptr;
  // Collective and Peer, and what the API has of them (CollectiveApi, PeerApi).
  job_page::Function function = job_page::Function::kOther;
  job_page::Datatype datatype = job_page::Datatype::kUnknown;
  job_page::Algorithm algorithm = job_page::Algorithm::kUnknown;
  job_page::Protocol protocol = job_page::Protocol::kUnknown;
  bool graph_captured = false;
  uint16_t channels = 0;  // how many kernels' ends follow; 0: unknown
  int32_t peer_or_root = -1;
  uint64_t sequence = 0, count = 0;
  // Of the communicator, where init has no such arguments (versions 1 to 3).
  const char* communicator_name = nullptr;
  uint64_t communicator = 0;
  int32_t rank = -1;
  // KernelChannel
  uint8_t channel = 0;
  bool has_timer = false;
  uint64_t timer = 0;
  // ProxyOp, with the peer in peer_or_root
  pid_t pid = 0;
};

// Arguments of init.
struct CommunicatorInfo {
  int version = 0;  // of the interface
  int* mask = nullptr;
  const char* name = nullptr;
  uint64_t hash = 0;
  int32_t nodes = 0, ranks = 0, rank = 0;
  const void* caller = nullptr;  // an address within NCCL
};

// Returns a context, never null. Writes the event mask.
void* OpenContext(const CommunicatorInfo& info) noexcept;
// Returns the handle, null where the rest of the event is of no use.
void* BeginEvent(void* context, const Event& event) noexcept;
void EndEvent(void* handle) noexcept;
// `value`: the timer of kKernelChannelStop, 0: none.
void RecordState(void* handle, int state, uint64_t value) noexcept;
void CloseContext(void* context) noexcept;

// Events that another plugin wants, too: it is called behind this one.
void SetExtraMask(void* context, uint64_t mask) noexcept;
// Explains in the page why less is measured than was wanted.
void Explain(const char* text) noexcept;

// For tests: this process's page, or null.
job_page::Page* CurrentPage() noexcept;
// For tests: how long the level kLink lasts that the environment does not set, unless an agent ends it.
void SetLongestLinks(uint64_t ns) noexcept;
inline constexpr size_t kOperations = 4096;  // that may be in flight at once

}  // namespace gpulens::nccl_plugin
