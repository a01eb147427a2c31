// Counters of the agent's components, for the collector `self`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/sandbox/sandbox.h"
#include "net/server/server.h"

namespace gpulens {

// Reasons for which the page /metrics drops series.
inline constexpr std::string_view kPageDropReasonNames[] = {"type_conflict", "duplicate", "name_clash"};
inline constexpr size_t kPageDropReasons = std::size(kPageDropReasonNames);

// Written by the agent and its sinks, read from any thread. Pointers are set before the pipeline starts and
// are valid while it runs; null: no such server.
struct AgentStats {
  std::atomic<uint64_t> reloads_applied{0}, reloads_rejected{0}, reloads_unchanged{0};
  std::atomic<bool> last_reload_ok{true};
  std::atomic<int64_t> last_reload_unix_ns{0};
  std::atomic<int32_t> nvml_driver_pid{0};  // 0: not running
  std::atomic<int32_t> amdsmi_driver_pid{0};
  std::array<std::atomic<uint64_t>, kPageDropReasons>
      page_losses{};  // of the last page, by kPageDropReasonNames
  // What EnterSandbox returned in the agent's process. Set before the pipeline starts.
  SandboxMode sandbox_mode = SandboxMode::kOff;
  std::vector<SandboxLayer> sandbox;
  std::atomic<const ServerStats*> http{nullptr};
  std::atomic<const ServerStats*> websocket{nullptr};
};

}  // namespace gpulens
