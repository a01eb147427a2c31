// Decides how much probes may measure, so that they never cost more than a budget. The time, what
// events cost and how many there were are parameters.
//
// A target is a library's file (its probes run in every process that maps it) or the machine (waits for
// data). Each Step compares the cost since the last one with the budget. A target that is over the budget in
// two steps gets the first of these that is predicted to fit: a quarter of the timed calls, again and again;
// no timed calls; windows, in which it is attached for 100 ms in 10 s; nothing: it is detached, and tried
// again for a window after 60 s, doubled each time up to 1 h. After the third time it is left alone. A target
// that could do more for 5 s with less than half of the budget gets the step back.
//
// Called four times a second, a target that is over the budget is detached 0.5 s later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
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
  kDetached,  // over the budget: detached, tried again later
  kGivenUp,   // over the budget too often: detached until the end of this process
};
// "timed". Static storage.
std::string_view ProbeStateName(ProbeState state) noexcept;

// Calls of one process, which count as if one thread made them all. Totals that only grow.
struct ProcessLoad {
  int32_t pid = 0;  // 0: of those that are not attached, together
  uint64_t start_boot_ns = 0;
  uint64_t events = 0;
  uint64_t timed_events = 0;  // part of `events`
};
struct TargetLoad {
  std::string target;  // ProbeSession names them
  uint64_t events = 0, timed_events = 0;
  std::vector<ProcessLoad> processes;  // empty: no thread is known, the host's budget alone holds
  double count_ns = 0, timed_ns = 0;   // what an event costs
};

struct Decision {
  std::string target;
  ProbeState state = ProbeState::kTimed;
  uint32_t sampling = 1;  // one call in so many is timed; 0: none
  bool attached = true;   // what the caller has to bring about
  bool exact = true;      // counts are of all calls since the target was attached first
  std::string reason;     // a sentence with numbers
};

class Governor {
 public:
  explicit Governor(const GovernorOptions& options) : options_(options) {}

  // Returns the decisions that changed; the caller carries them out at once. `loads` has all targets that are
  // or could be attached; one that is absent for an hour is forgotten, with its strikes.
  std::vector<Decision> Step(Instant now, const std::vector<TargetLoad>& loads);

  // When Step should be called next: 250 ms, or less where a window ends before.
  Duration Wait(Instant now) const noexcept;
  // The present decision of a target; null: not known.
  const Decision* Of(std::string_view target) const noexcept;
  // Seconds a second that all probes cost in the last interval.
  double host_overhead() const noexcept { return host_overhead_; }
  // The share of the hottest thread's time in the last interval.
  double thread_overhead() const noexcept { return thread_overhead_; }

 private:
  using ProcessId = std::pair<int32_t, uint64_t>;
  struct Totals {
    uint64_t events = 0, timed = 0;
  };
  struct Target {
    Decision decision;
    Instant stepped, until, seen;
    Totals totals;
    std::map<ProcessId, Totals> processes;
    int over = 0, strikes = 0, fits = 0;
    Duration back_off{};
    bool fresh = true;
  };
  // Events a second since the last step.
  struct Rates {
    double events = 0, timed = 0, hottest = 0, hottest_timed = 0;
  };
  static Rates RatesOf(Target& target, const TargetLoad& load, Instant now);
  bool Fits(const TargetLoad& load, const Rates& rates, double timed_share, double time_share,
            double budget_share) const;
  void Reduce(Target& target, const TargetLoad& load, const Rates& rates, Instant now);
  void CloseWindow(Target& target, const TargetLoad& load, const Rates& rates, Instant now);
  void Detach(Target& target, Instant now, const std::string& why);
  void Set(Target& target, ProbeState state, uint32_t sampling, std::string reason);
  // The least sampling that fits; 0: none but counting, -1: not even that.
  int64_t Sampling(const TargetLoad& load, const Rates& rates, uint32_t from, double budget_share) const;

  GovernorOptions options_;
  std::map<std::string, Target, std::less<>> targets_;
  std::vector<std::string> changed_;
  double host_overhead_ = 0, thread_overhead_ = 0;
};

}  // namespace gpulens::bpf
