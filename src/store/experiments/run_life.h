// Whether a process that said it writes into a run still does.
//
// Where its pids are ours (same boot, same namespace) the kernel is asked; elsewhere (another machine,
// another container, before a reboot) only its heartbeat tells.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "store/experiments/run_rows.h"

namespace gpulens::experiments {

// So many heartbeats have to be missing.
inline constexpr int64_t kMissedHeartbeats = 6;
inline constexpr int64_t kLeastHeartbeatLimitNs = 60'000'000'000;

// Who asks, and when.
struct Observer {
  std::string host, place;
  int64_t now_ns = 0;
  // When the process with this pid started, in ticks of the kernel since boot; nothing: there is none, or it
  // is a zombie.
  std::function<std::optional<int64_t>(int64_t pid)> start_of;
};

// Of this process and the machine's clock.
Observer HereAndNow();
// A row for this process; heartbeats, started and role are the caller's.
ProcessRow ThisProcess(const Observer& here);

bool IsAlive(const ProcessRow& process, const Observer& observer);

}  // namespace gpulens::experiments
