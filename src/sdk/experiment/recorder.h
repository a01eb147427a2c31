// Records the points, parameters and tags of one run from any thread, and writes them on a thread of its own.
// Used by Experiment and by `gpulens run`.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/experiment.h>

#include "base/clock.h"
#include "store/experiments/run_writer.h"

namespace gpulens::experiments {

struct RunRecorderOptions {
  std::string database;
  RunStart start;
  PointSource source = PointSource::kProgram;
  ExperimentEnergyMeter energy = {};  // read at each heartbeat
  size_t queue_points = 16'384;
  Duration flush_interval = std::chrono::seconds(1);
  Duration heartbeat_interval = std::chrono::seconds(10);
};

// Thread-safe. Must not be used or destroyed in a child after a fork.
class RunRecorder {
 public:
  // Begins or joins the run and starts the thread.
  static Result<std::unique_ptr<RunRecorder>> Begin(RunRecorderOptions options);
  // Does not wait for a thread that hangs in a write. The run remains open unless Leave was called.
  ~RunRecorder();
  RunRecorder(const RunRecorder&) = delete;
  RunRecorder& operator=(const RunRecorder&) = delete;

  void Point(std::string_view key, double value, int64_t step) noexcept;
  void Param(std::string_view key, RunParamValue value) noexcept;
  void Tag(std::string_view key, std::string_view value) noexcept;
  // Counts a record that the caller could not create.
  void Drop() noexcept;
  Status Artifacts(std::vector<ArtifactRow> artifacts, Duration timeout);

  Status Flush(Duration timeout);
  // Writes queued records, leaves the run and ends the thread. kTimeout: the file does not answer.
  Status Leave(const RunEnd& end, Duration timeout);
  ExperimentHealth health() const;

  const std::string& run_id() const noexcept;
  const std::string& run_name() const noexcept;
  bool joined() const noexcept;

 private:
  struct Shared;
  explicit RunRecorder(std::shared_ptr<Shared> shared) noexcept;
  std::shared_ptr<Shared> shared_;
};

// Calls `meter` and turns exceptions into a reason.
ExperimentEnergy QueryEnergy(const ExperimentEnergyMeter& meter, bool ended);
EnergyRow ToRow(const ExperimentEnergy& energy);

// Returns the wall-clock time in nanoseconds.
int64_t UnixNow() noexcept;

}  // namespace gpulens::experiments
