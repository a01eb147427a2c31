// Decides how much probes may measure, so that they never cost more than a budget. A pure object that is told
// the time, what events cost and how many there were.
//
// A target is a library's file (its probes run in every process that maps it) or the machine (waits for
// data). Each Step compares the cost of the last interval with the budget. Over the budget for two steps:
// fewer calls are timed; then none; then the probes are detached, at the third step or within 1 s if Step is
// called four times a second. A target whose counting alone is too much is measured in windows: attached for
// 100 ms in 10 s. A target that was detached is tried again after 60 s, doubled each time up to 1 h; after
// three times it is left alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace gpulens::bpf {

struct GovernorOptions {
  double thread_budget = 0.002;  // of the time of the hottest thread
  double host_budget = 0.01;     // seconds a second, of the whole machine
  uint32_t most_sampling = 4096;
  Duration first_back_off = std::chrono::seconds(60);
  Duration most_back_off = std::chrono::hours(1);
  int most_strikes = 3;
  bool windows = true;  // measure heavy targets in windows instead of not at all
  Duration window = std::chrono::milliseconds(100);
  Duration window_period = std::chrono::seconds(10);
};

enum class ProbeState : uint8_t {
  kTimed,     // all calls are counted, one in `sampling` is timed
  kCounted,   // all calls are counted, none is timed
  kWindow,    // attached for a window now; counts are samples
  kPaused,    // between windows: detached
  kDetached,  // over the budget: detached until `until`
  kGivenUp,   // over the budget too often: detached until the end of this process
};
std::string_view ProbeStateName(ProbeState state) noexcept;

// Load of a target since the last Step, from totals that only grow.
struct TargetLoad {
  std::string target;         // any name that stays
  uint64_t events = 0;        // total
  uint64_t timed_events = 0;  // total, part of `events`
  uint64_t hottest_events = 0,
           hottest_timed = 0;         // totals of the process with the most events: counted as one thread
  double count_ns = 0, timed_ns = 0;  // costs of an event
};

struct Decision {
  std::string target;
  ProbeState state = ProbeState::kTimed;
  uint32_t sampling = 1;  // for kTimed and kWindow; 0 otherwise
  bool attached = true;   // what the caller has to bring about
  bool exact = true;      // counts from now on are exact
  std::string reason;     // a sentence with numbers
};

class Governor {
 public:
  explicit Governor(const GovernorOptions& options) : options_(options) {}

  // The decisions that changed since the last call; the caller carries them out at once. Call it four times a
  // second, and with an empty list where there is nothing. A target that is not in the list any more is
  // forgotten unless it is detached.
  std::vector<Decision> Step(Instant now, const std::vector<TargetLoad>& loads);

  // The present decision of a target; null: not known.
  const Decision* Of(std::string_view target) const noexcept;
  // Seconds a second that all probes cost in the last interval.
  double host_overhead() const noexcept { return host_overhead_; }

 private:
  struct Target;
  GovernorOptions options_;
  double host_overhead_ = 0;
};

}  // namespace gpulens::bpf
