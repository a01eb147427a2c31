// The machine of `agent --demo` while it runs: a scenario, the changes that `gpulens sim` makes to it, and
// what follows for the GPUs, the owners and the pages of the engines at a time.
//
// All counters are functions of CLOCK_BOOTTIME and of the changes since the boot, which are kept in a file:
// an agent that is restarted, or was killed, goes on where the machine is by then.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "agent/demo/scenario.h"
#include "plugins/gpu_pod_table.h"
#include "plugins/simulated_owners.h"

namespace gpulens::demo {

inline constexpr size_t kMostChanges = 32;  // that have not ended, or ended recently

// How long an engine was at each level of its load since the boot, and where it is.
struct EngineTime {
  std::array<int64_t, kMostLoad + 1> ns{};
  int level = nvml::LoadSchedule::kAbsent;
  double seconds_at_level = 0;  // since the load last changed

  // The sum of rate(level) x seconds: a counter. `rate` is not negative.
  template <class Rate>
  double Sum(Rate rate) const {
    double sum = 0;
    for (size_t level_of = 0; level_of < ns.size(); ++level_of) {
      if (ns[level_of] > 0) sum += static_cast<double>(ns[level_of]) * rate(static_cast<int>(level_of));
    }
    return sum * 1e-9;
  }
};

// Thread-safe.
class DemoNode final : public SimulatedOwners {
 public:
  struct Options {
    std::string state_file;  // of the changes; empty: they end with this object
    std::string boot_id;     // of this boot; those of another one are forgotten
  };

  DemoNode(Scenario scenario, Options options);

  // "engine=chat-a load=0.9 for=2m after=10s": one workload, or all with a load of their own. Takes effect at
  // the second after the next one. Returns what was understood. kInvalidArgument, kExhausted at kMostChanges.
  Result<std::string> Set(std::string_view words, int64_t boot_ns);
  // "engine=chat-a for=2m": its page does not answer and its processes leave the GPUs.
  Result<std::string> Stop(std::string_view words, int64_t boot_ns);
  // "engine=chat-a" or "": ends changes, also those that have not begun.
  Result<std::string> Heal(std::string_view words, int64_t boot_ns);
  // The changes in force and to come, one after the other with ";" between them.
  std::string Describe(int64_t boot_ns) const;

  const Scenario& scenario() const noexcept { return scenario_; }
  // The profile of the simulated NVIDIA library at this time.
  std::string Profile(int64_t boot_ns) const;
  EngineTime TimeOf(size_t workload, int64_t boot_ns) const;
  bool Runs(size_t workload, int64_t boot_ns) const;
  // For gpu_pods: GPUs that a pod has.
  GpuPodTable::List Holdings(int64_t boot_ns) const;
  // Changes whenever a workload begins or stops to run.
  uint64_t RunningHash(int64_t boot_ns) const;

  Process ProcessOf(uint32_t pid) const override;
  AttributeSet OwnerOf(const Entity& entity) const override;
  uint64_t generation() const noexcept override { return generation_.load(std::memory_order_relaxed); }
  void OwnersChanged() noexcept { generation_.fetch_add(1, std::memory_order_relaxed); }
  AttributeSet AttributesOf(const Workload& workload) const;

 private:
  struct Live {
    std::vector<nvml::LoadSchedule::Change> changes;  // in the order of time
    std::array<int64_t, kMostLoad + 1> carried_s{};   // what changes that are forgotten have added
  };

  Result<std::vector<size_t>> Chosen(std::string_view name) const;
  Result<std::string> Change(std::string_view words, bool stop, int64_t boot_ns);
  void Put(size_t workload, nvml::LoadSchedule::Change change);
  void EndAll(size_t workload, int64_t at_s);
  void ForgetOld(int64_t now_s);
  size_t Count() const;
  bool RunsLocked(size_t workload, int64_t boot_ns) const;
  std::string UuidOf(unsigned gpu) const;
  void Load();
  Status Save() const;

  Scenario scenario_;
  const Options options_;
  mutable std::mutex mutex_;  // guards what follows, and the loads of the scenario
  std::vector<Live> live_;
  std::atomic<uint64_t> generation_{1};
};

}  // namespace gpulens::demo
