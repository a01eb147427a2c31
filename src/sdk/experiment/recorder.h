// Takes what is logged into one run from any thread, and has a thread that writes it. Experiment is its face;
// `gpulens run` uses it directly.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <gpulens/experiment.h>

#include "base/clock.h"
#include "store/experiments/run_writer.h"

namespace gpulens::experiments {

struct RecorderOptions {
  std::string database;
  Start start;
  Source source = Source::kProgram;
  ExperimentEnergyMeter energy = {};  // read at each heartbeat
  size_t queue_points = 16'384;
  Duration flush_interval = std::chrono::seconds(1);
  Duration heartbeat_interval = std::chrono::seconds(10);
};

// Thread-safe. Not for a child after a fork: there it is left alone, also by the destructor of its owner.
class Recorder {
 public:
  // Begins or joins the run and starts the thread.
  static Result<std::unique_ptr<Recorder>> Begin(RecorderOptions options);
  // A thread that hangs in a write is left behind. Leaves the run open when Leave was not called.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void Point(std::string_view key, double value, int64_t step) noexcept;
  void Param(std::string_view key, Value value) noexcept;
  void Tag(std::string_view key, std::string_view value) noexcept;
  // Counts what a caller could not even give.
  void Drop() noexcept;
  Status Artifacts(std::vector<ArtifactRow> artifacts, Duration timeout);

  Status Flush(Duration timeout);
  // Writes what waits, leaves, ends the thread. kTimeout: the file does not answer.
  Status Leave(const End& end, Duration timeout);
  ExperimentHealth health() const;

  const std::string& run_id() const noexcept;
  const std::string& run_name() const noexcept;
  bool joined() const noexcept;

 private:
  struct Shared;
  explicit Recorder(std::shared_ptr<Shared> shared) noexcept;
  std::shared_ptr<Shared> shared_;
};

// Wall-clock nanoseconds, for stamps.
int64_t UnixNow() noexcept;

}  // namespace gpulens::experiments
