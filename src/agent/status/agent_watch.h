// Collects the findings of a running agent: the states of its collectors, the results of their probes with
// its permissions, its GPUs, its sinks, its state folder.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/status/status_report.h"
#include "delivery/queue_folders.h"
#include "pipeline/pipeline.h"
#include "plugins/analyzers/fleet_health/gpu_inputs.h"
#include "plugins/plugin.h"

namespace gpulens {

// Runs the probes of all enabled plugins in this process. Reads files; may take a moment.
std::vector<Finding> ProbePlugins(const Config& config, Env& env);

// Thread-safe.
class AgentWatch {
 public:
  // Called after each tick; counts failures over time.
  void Observe(const Snapshot& snapshot);
  // Sets why the last reload failed; empty: it did not.
  void ReloadFailed(std::string why);

  // Unplanned ends of the reader process within the last five minutes.
  double Failures(std::string_view driver) const;
  // Identity of the agent, and its findings. Waits for the probes: call on a worker.
  StatusReport Report(const Config& config, Env& env, const Pipeline& pipeline) const;
  std::vector<Finding> Findings(const Config& config, Env& env, const Pipeline& pipeline) const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  DriverFailures failures_;
  std::string reload_failure_;
};

// The parts of Findings, as pure functions.
struct CollectorState {
  std::string name;            // of the instance
  std::string_view collector;  // its spec's name
  bool up = false, answered = false, worked = false, one_of_many = false;
  Status last;
  uint32_t series = 0;
};
// `probed`: findings of the probes. A collector's own state takes precedence.
std::vector<Finding> CollectorFindings(const std::vector<CollectorState>& states,
                                       std::vector<Finding> probed);
// GPUs that are not healthy, or whose health is unknown.
std::vector<Finding> GpuFindings(const Snapshot& snapshot);
// Sinks that do not deliver, data that waits in queues, also for removed sinks, and events that cannot be
// stored.
std::vector<Finding> DeliveryFindings(const Snapshot& snapshot);
// Empty when the folder can be written or made.
std::vector<Finding> StateFolderFindings(const std::string& folder);

struct SinkQueues {
  std::vector<std::string> sinks;  // enabled, and sending over a network
  std::vector<QueuePlace> chosen;  // configured folders
};
SinkQueues SinkQueuesOf(const Config& config);

// The queue folder of a state folder; empty without one.
std::string QueueRootOf(const std::string& state_dir);

Finding LeftoverFinding(const std::string& sink, uint64_t bytes);
// Scans the disk, for use without a running agent. Empty without a state folder.
std::vector<Finding> LeftoverFindings(const Config& config, const std::string& state_dir);

// 812 B, 3.4 KiB, 1.5 GiB
std::string SizeText(uint64_t bytes);

}  // namespace gpulens
