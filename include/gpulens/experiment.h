// A run of a program with its parameters and the whole history of its metrics, kept in one SQLite file that
// `gpulens exp` reads: ~/.gpulens/experiments.db, or $GPULENS_EXPERIMENTS_DB.
//
//   if (auto run = gpulens::Experiment::Start("my-run")) {
//     run->LogParam("lr", 1e-3);
//     for (int64_t step = 0; step < 1000; ++step) run->LogMetric("loss", Train(), step);
//   }                                     // done; while an exception flies: failed; killed: crashed
//
// Starting may fail and says so. Logging never fails and never waits: a thread writes what was given, a
// second later at most; what does not fit into its queue is dropped and counted. Several processes may write
// into one run, and several runs into one file.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

enum class ExperimentStatus : uint8_t { kRunning, kDone, kFailed };

// What the processes of a run drew, and how they used their devices meanwhile. What is unknown is NaN; joules
// have a validity and a reason, as every energy has them.
struct ExperimentEnergy {
  double energy_joules = kNotMeasured, uncertainty_joules = kNotMeasured;
  // "exclusive", "shared_by_utilization", "cpu_time", "shared_equally", "whole_board": how its part was told
  // from what the devices drew (EnergyAttribution). Empty: nobody said.
  std::string attribution = {};
  double device_energy_joules = kNotMeasured;  // what they drew, whoever used them
  std::string method;                          // "counter", "power_integral"
  std::string validity;                        // "valid", "running", "no_device", …; empty: nobody measured
  std::string reason;
  std::string vendor = {};  // "nvidia", "amd", "cpu_rapl": whose devices
  uint32_t devices = 0;     // that its processes used
  // Of all of these together; where they are shared, the run's part.
  double mean_power_watts = kNotMeasured, peak_power_watts = kNotMeasured;
  double mean_utilization_ratio = kNotMeasured, peak_utilization_ratio = kNotMeasured;  // their mean
  double mean_memory_used_bytes = kNotMeasured, peak_memory_used_bytes = kNotMeasured;  // of its processes
};

// False: up to now, without waiting; true: once, at the end. What it throws is told as the reason.
using ExperimentEnergyMeter = std::function<ExperimentEnergy(bool ended)>;

struct ExperimentOptions {
  std::string db;  // the file; empty: as above
  std::string
      resume;  // an id: go on with this run; "auto": with the last of this name that failed or crashed
  std::string parent_id;  // the run that this one is a part of
  std::vector<std::pair<std::string, std::string>> tags;
  // Join the run that $GPULENS_RUN_ID names, as `gpulens run` sets it and ranks of one job may share it. The
  // first experiment of a process is that run; further ones are runs within it.
  bool join = true;
  size_t queue_points = 16'384;
  Duration flush_interval = std::chrono::seconds(1);
  Duration heartbeat_interval = std::chrono::seconds(10);
  // Asked by the writing thread at each heartbeat, so that a run that is killed has joules, too, and by the
  // thread that ends the run. Ready-made ones: experiment_energy.h. A process that joins a run leaves this to
  // the one that began it.
  ExperimentEnergyMeter energy;
};

struct ExperimentHealth {
  uint64_t written = 0, queued = 0;  // points
  uint64_t dropped = 0;              // records that were given and are lost, each of them
  Status last_error;                 // of writing; it is tried again
};

// Movable; Log*, Set*, Flush and health from any thread, the others from one at a time. After a fork the
// child's first record opens the file anew (and waits for it): it writes into the same run, whose end is the
// parent's affair.
class Experiment {
 public:
  using ParamValue = std::variant<std::string_view, int64_t, double, bool>;

  // kInvalidArgument: a name, id or option that cannot be; no run to resume. Else why the file cannot be
  // written.
  static Result<Experiment> Start(std::string_view name, ExperimentOptions options = {});
  // A run within this one, in the same file.
  Result<Experiment> Nested(std::string_view name, ExperimentOptions options = {}) const;
  Experiment(Experiment&&) noexcept;
  Experiment& operator=(Experiment&&) noexcept;
  // Ends the run when End did not: as failed while an exception flies that began after Start. Waits for the
  // file for 5 s at most.
  ~Experiment();

  const std::string& id() const noexcept;
  const std::string& name() const noexcept;
  const std::string& db() const noexcept;
  ExperimentStatus status() const noexcept;

  // Keys have 1 to 250 bytes of UTF-8 without control bytes, texts at most 64 KiB; others are dropped. The
  // last value of a key wins.
  void LogParam(std::string_view key, ParamValue value) noexcept;
  void SetTag(std::string_view key, std::string_view value) noexcept;
  // NaN and the infinities are kept: a loss of NaN is news. Without a step it is the one after the key's
  // last.
  void LogMetric(std::string_view key, double value, int64_t step) noexcept;
  void LogMetric(std::string_view key, double value) noexcept;
  // A file, or a folder with the files below it, copied beside the store; of a file above 64 MiB the path,
  // size and, up to 1 GiB, SHA-256 are kept. `name` is a path below the run's artifacts. Reads and waits.
  Status LogArtifact(const std::string& path, std::string name = {});

  // Waits until what was given before is in the file.
  Status Flush(Duration timeout = std::chrono::seconds(5));
  // Once; what is logged afterwards is dropped. `reason` says why it failed.
  Status End(ExperimentStatus status = ExperimentStatus::kDone, std::string_view reason = {});
  // After the end, what the options' meter said.
  const ExperimentEnergy& energy() const noexcept;
  ExperimentHealth health() const;

 private:
  struct Impl;
  explicit Experiment(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
