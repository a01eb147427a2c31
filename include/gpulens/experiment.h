// Experiments: a run of a program with its parameters and the full history of its metrics, in an SQLite file
// that `gpulens exp` reads: ~/.gpulens/experiments.db, or $GPULENS_EXPERIMENTS_DB.
//
//   if (auto run = gpulens::Experiment::Start("my-run")) {
//     run->LogParam("lr", 1e-3);
//     for (int64_t step = 0; step < 1000; ++step) run->LogMetric("loss", Train(), step);
//   }                                     // done; during an exception: failed; killed: crashed
//
// Start returns an error. Logging neither fails nor waits: a thread writes queued records, at most a second
// later; records that do not fit into the queue are dropped and counted, which is logged once. Several
// processes may write to one run, and several runs to one file.
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

// Energy of a run's processes, and how they used their devices. Unknown values are NaN; validity and reason
// are as in EnergyResult.
struct ExperimentEnergy {
  double energy_joules = kNotMeasured, uncertainty_joules = kNotMeasured;
  // "exclusive", "shared_by_utilization", "cpu_time", "shared_equally", "whole_board": how the run's part was
  // separated from the devices' energy (EnergyAttribution). Empty: unknown.
  std::string attribution = {};
  double device_energy_joules = kNotMeasured;  // of the devices, for all processes
  std::string method;                          // "counter", "power_integral"
  std::string validity;                        // "valid", "running", "no_device", …; empty: not measured
  std::string reason;
  std::string vendor = {};  // of the devices: "nvidia", "amd", "cpu_rapl"
  uint32_t devices = 0;     // number of devices that its processes used
  // Of all these devices together; the run's part where they are shared.
  double mean_power_watts = kNotMeasured, peak_power_watts = kNotMeasured;
  double mean_utilization_ratio = kNotMeasured, peak_utilization_ratio = kNotMeasured;  // their mean
  double mean_memory_used_bytes = kNotMeasured, peak_memory_used_bytes = kNotMeasured;  // of its processes
};

// Measures a run. false: the energy up to now, without waiting; true: called once, at the end. The text of an
// exception becomes the reason.
using ExperimentEnergyMeter = std::function<ExperimentEnergy(bool ended)>;

struct ExperimentOptions {
  std::string db;  // the file; empty: as above
  std::string
      resume;  // the id of a run to continue; "auto": the last one of this name that failed or crashed
  std::string parent_id;  // the run that contains this one
  std::vector<std::pair<std::string, std::string>> tags;
  // Join the run that $GPULENS_RUN_ID names; `gpulens run` sets it, and the ranks of a job may share it. The
  // first experiment of a process is that run; further ones are nested in it.
  bool join = true;
  size_t queue_points = 16'384;
  Duration flush_interval = std::chrono::seconds(1);
  Duration heartbeat_interval = std::chrono::seconds(10);
  // Called by the writing thread at each heartbeat, so that a killed run has joules, too, and by the thread
  // that ends the run. experiment_energy.h has implementations. Not used by a process that joins another's
  // run.
  ExperimentEnergyMeter energy;
};

struct ExperimentHealth {
  uint64_t written = 0, queued = 0;  // points
  uint64_t dropped = 0;              // records that were given and will not be written
  Status last_error;                 // of writing, which is retried
};

// Movable. Log*, Set*, Flush and health are thread-safe; the others are called by one thread at a time. After
// a fork the child's first record reopens the file and waits for it: the child writes to the same run, which
// only the parent ends.
class Experiment {
 public:
  using ParamValue = std::variant<std::string_view, int64_t, double, bool>;

  // kInvalidArgument: an invalid name, id or option, or no run to resume. Other codes: the file cannot be
  // written.
  static Result<Experiment> Start(std::string_view name, ExperimentOptions options = {});
  // A run within this one, in the same file.
  Result<Experiment> Nested(std::string_view name, ExperimentOptions options = {}) const;
  Experiment(Experiment&&) noexcept;
  Experiment& operator=(Experiment&&) noexcept;
  // Ends the run unless End did: as failed during an exception thrown since Start. Waits at most 5 s for the
  // file.
  ~Experiment();

  const std::string& id() const noexcept;
  const std::string& name() const noexcept;
  const std::string& db() const noexcept;
  ExperimentStatus status() const noexcept;

  // Sets a parameter or tag; the last value of a key wins. Keys have 1 to 250 bytes of UTF-8 without control
  // bytes, texts at most 64 KiB; others are dropped.
  void LogParam(std::string_view key, ParamValue value) noexcept;
  void SetTag(std::string_view key, std::string_view value) noexcept;
  // Appends a value to a metric, NaN and infinities included. The default step is the key's last step plus 1.
  void LogMetric(std::string_view key, double value, int64_t step) noexcept;
  void LogMetric(std::string_view key, double value) noexcept;
  // Copies a file, or a folder with its files, to the run's artifacts next to the store; of a file above 64
  // MiB only the path, size and, up to 1 GiB, SHA-256 are kept. `name` is a path below the run's artifacts.
  // Blocks.
  Status LogArtifact(const std::string& path, std::string name = {});

  // Waits until all earlier records are in the file.
  Status Flush(Duration timeout = std::chrono::seconds(5));
  // Ends the run, once; later records are dropped. `reason`: why it failed.
  Status End(ExperimentStatus status = ExperimentStatus::kDone, std::string_view reason = {});
  // Result of the options' meter, after the end.
  const ExperimentEnergy& energy() const noexcept;
  ExperimentHealth health() const;

 private:
  struct Impl;
  explicit Experiment(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
