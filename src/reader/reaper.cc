#include "reader/reaper.h"

#include <signal.h>

#include <utility>

namespace gpulens::driver {
namespace {

constexpr int64_t kTimeoutNs = 1'000'000'000;  // A process that was killed ends within milliseconds.

}  // namespace

void Reaper::Take(ChildProcess child, int64_t boot_ns) {
  child.Signal(SIGKILL);
  if (child.running() && !child.TryWait()) dying_.push_back({std::move(child), boot_ns});
}

pid_t Reaper::Look(Instant now, std::vector<int>& stuck) {
  if (dying_.empty()) return -1;
  std::erase_if(dying_, [](Dying& dying) { return dying.child.TryWait().has_value(); });
  stuck.clear();
  pid_t first = -1;
  for (Dying& dying : dying_) {
    if (now.boot_ns - dying.since_ns <= kTimeoutNs) continue;
    stuck.push_back(dying.child.pid());
    if (first < 0 && !std::exchange(dying.told, true)) first = dying.child.pid();
  }
  return first;
}

}  // namespace gpulens::driver
