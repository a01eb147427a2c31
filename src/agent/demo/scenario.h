// What `agent --demo` simulates, as a YAML text: GPUs, what runs on them and for whom, engines with their
// load over a day, and what goes wrong when. docs/demo.md lists the keys. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "sources/nvml/simulated/load_schedule.h"

namespace gpulens::demo {

// Loads are in percent of what a workload can do; above 100, requests wait.
inline constexpr int kMostLoad = 150;
inline constexpr size_t kMostWorkloads = 32;
inline constexpr size_t kMostScenarioBytes = 256 << 10;

enum class WorkloadKind : uint8_t { kVllm, kSglang, kDynamo, kLmcache, kAibrix, kMooncake, kEpp, kJob };
enum class EngineRole : uint8_t { kBoth, kPrefill, kDecode };

// What a rank of a training does wrong: `for_s` seconds in every `every_s`, the first time `after_s` after
// the boot.
struct RankTrouble {
  int rank = -1;  // -1: nothing
  int64_t every_s = 0, for_s = 0, after_s = 0;
  double by = 0.15;  // of a late one: share of its time of computing

  bool At(int64_t boot_ns) const noexcept { return rank >= 0 && Since(boot_ns) < for_s * nvml::kNsPerSecond; }
  // When the time that At is in ends.
  int64_t EndOf(int64_t boot_ns) const noexcept {
    return boot_ns - Since(boot_ns) + for_s * nvml::kNsPerSecond;
  }

 private:
  // Nanoseconds since it began last.
  int64_t Since(int64_t boot_ns) const noexcept {
    const int64_t every = every_s * nvml::kNsPerSecond;
    return ((boot_ns - after_s * nvml::kNsPerSecond) % every + every) % every;
  }
};

// What processes report from inside.
struct InsideWork {
  double launches = 0;     // of each process at load 100, 1/s; 0: they are not measured
  double collectives = 0;  // of an engine on several GPUs at load 100, 1/s; 0: they are not measured
  int ranks = 0;           // of a training, which reports its phases and collectives; 0: it does not
  int first = 0;           // the rank on its first GPU; the ranks that are not here are on other nodes
  RankTrouble late, hang;
};

// A process or a service, with its owner. Texts may be empty.
struct Workload {
  std::string name;
  WorkloadKind kind = WorkloadKind::kJob;
  EngineRole role = EngineRole::kBoth;
  std::string model, cluster, tenant;
  std::string of;  // of a gateway or cache: the engine whose requests it serves
  std::vector<unsigned> gpus;
  // Its process on each GPU: pid is the first one's, the others follow.
  unsigned pid = 0;
  std::string executable, user;
  double memory = 0;  // bytes on each GPU
  // Who it belongs to: a pod of Kubernetes or a job of Slurm.
  std::string name_space, pod, pod_uid, container, deployment;
  std::string job, job_name, account, partition;
  // At load 100: requests and tokens, times without queueing.
  double requests = 4;                          // 1/s
  double prompt = 800, output = 200;            // tokens of a request
  double cached = 0.3;                          // share of the prompt that a cache has
  double first_token = 0.2, next_token = 0.02;  // s
  double kv_tokens = 400'000;
  bool speculative = false;
  double busy = 0.9;  // of a GPU
  InsideWork inside;
  nvml::LoadSchedule load;  // in percent; kAbsent: it does not run
};

inline bool IsEngine(WorkloadKind kind) noexcept { return kind <= WorkloadKind::kSglang; }
inline bool HasPage(WorkloadKind kind) noexcept { return kind != WorkloadKind::kJob; }
// "vllm", "sglang", "dynamo-frontend", …: a `kind` of targets.
std::string_view TargetKindOf(WorkloadKind kind) noexcept;
// Busy thousandths of a GPU of the workload at a level of its load.
int BusyAt(const Workload& workload, int level) noexcept;

struct Scenario {
  std::string gpu_model = "H100";
  unsigned gpus = 8;
  int64_t day_s = 24 * 60, step_s = 15;
  std::string profile;  // YAML lines for the simulated library: xids, faults, throttle
  std::vector<Workload> workloads;

  const Workload* Find(std::string_view name) const noexcept;
};

// kInvalidArgument names line and key.
Result<Scenario> ParseScenario(std::string_view yaml);

// The scenario of `agent --demo`. Static storage.
std::string_view BuiltInScenario() noexcept;
// The same without the rank that is late and the one that hangs.
std::string CalmScenario();

}  // namespace gpulens::demo
