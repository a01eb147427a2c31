// What the agent's own parts count, for the collector that reports on the agent itself.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "net/server/connection_set.h"

namespace gpulens {

// Why the page at /metrics leaves series out.
inline constexpr std::string_view kPageLossNames[] = {"type_conflict", "duplicate", "name_clash"};
inline constexpr size_t kPageLosses = std::size(kPageLossNames);

// Written by the agent and its sinks, read from any thread. Pointers are set before the pipeline
// starts and stay valid while it runs; null: there is no such server.
struct AgentStats {
  std::atomic<uint64_t> reloads_applied{0}, reloads_rejected{0}, reloads_unchanged{0};
  std::atomic<bool> last_reload_ok{true};
  std::atomic<int64_t> last_reload_unix_ns{0};
  std::atomic<int32_t> nvml_driver_pid{0};  // 0: does not run
  std::atomic<int32_t> amdsmi_driver_pid{0};
  std::array<std::atomic<uint64_t>, kPageLosses> page_losses{};  // of the last page, by kPageLossNames
  std::atomic<const ServerStats*> http{nullptr};
  std::atomic<const ServerStats*> websocket{nullptr};
};

}  // namespace gpulens
