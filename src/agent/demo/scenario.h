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
  double busy = 0.9;        // of a GPU
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

}  // namespace gpulens::demo
