// Writes into the file of experiments: one object for one process in one run.
//
// Several processes, and several runs of one, may write into a file at once. Each batch is one transaction;
// committed data survives a crash of the program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "store/experiments/run_rows.h"
#include "store/sqlite/sqlite.h"

namespace gpulens::experiments {

// Origin of points. Keys that the program logs itself are ignored in its output.
enum class PointSource : uint8_t { kProgram, kOutput };

// A point whose step is the one after the metric's last.
inline constexpr int64_t kNextStep = INT64_MIN;

// Contents of one flush. Points of a key are in order.
struct RunBatch {
  struct Point {
    uint32_t key = 0;  // in `keys`
    int64_t step = 0, unix_ns = 0;
    double value = 0;
  };
  std::vector<ParamRow> params;
  std::vector<TagRow> tags;
  std::vector<ArtifactRow> artifacts;
  std::vector<std::string> keys;
  std::vector<Point> points;
  EnergyRow energy = {};  // so far
  int64_t heartbeat_ns = 0;
  int64_t dropped = 0;  // since the last batch

  bool empty() const noexcept {
    return params.empty() && tags.empty() && artifacts.empty() && points.empty() && dropped == 0;
  }
};

// Begin or join of a run by a process.
struct RunStart {
  RunRow run;               // its id may name an existing run; empty: a new one
  std::string resume;       // "auto": the last run of this name that failed or crashed; else empty
  bool must_exist = false;  // the id names a run to resume
  bool rename = false;      // an existing run gets this name
  ProcessRow process;
};

// End of a process's part in a run.
struct RunEnd {
  std::string outcome = kDone;  // or kFailed
  std::string reason;
  std::optional<int64_t> exit_code;
  bool decides = false;  // ends the run regardless of other processes
  EnergyRow energy;
  int64_t unix_ns = 0;
};

// Used by one thread at a time; waits for the disk and for other writers.
class RunWriter {
 public:
  // Makes missing files and folders. kInvalidArgument: it is an old file, which is never written. A
  // transaction that takes `longest` fails, kTimeout.
  static Result<std::unique_ptr<RunWriter>> Open(const std::string& path,
                                                 Duration longest = std::chrono::minutes(5));

  // Begins or joins a run; call this or Attach once, first. kInvalidArgument: there is no run to resume. See
  // run_id().
  Status Begin(const RunStart& start, const ProcessObserver& observer);
  // Continues the run of another writer of this process that has closed the file.
  void Attach(std::string run_id, int64_t process_id, int64_t points) noexcept;
  // kUnavailable: the run was deleted.
  Status Write(const RunBatch& batch, PointSource source);
  // The run ends with the last process that leaves it, or with the one that decides.
  Status Leave(const RunEnd& end);

  const std::string& run_id() const noexcept { return run_id_; }
  const std::string& run_name() const noexcept { return run_name_; }
  bool joined() const noexcept { return joined_; }  // the run was there before
  int64_t process_id() const noexcept { return process_id_; }
  int64_t points() const noexcept { return points_; }

  // Deletes a run with the runs within it. Returns their ids, so that the caller can delete their folders.
  Result<std::vector<std::string>> Delete(std::string_view id);

 private:
  explicit RunWriter(sqlite::Database database) : database_(std::move(database)) {}
  Result<std::string> Resumable(const RunStart& start, const ProcessObserver& observer);
  Status InsertRun(const RunRow& run);
  Status ReopenRun(const RunStart& start, const ProcessObserver& observer);
  Status InsertProcess(const ProcessRow& process);
  Status WriteTexts(const RunBatch& batch);
  struct Metric;
  Result<Metric> OpenMetric(const std::string& key, PointSource source);
  Status WritePoints(const RunBatch& batch, PointSource source);
  Status CloseMetric(const Metric& metric);
  Status WriteEnergy(const EnergyRow& energy);

  sqlite::Database database_;
  std::string run_id_, run_name_;
  bool joined_ = false;
  int64_t process_id_ = 0;
  int64_t points_ = 0;  // of this process, for `n`
  sqlite::Statement find_metric_, insert_metric_, update_metric_, insert_point_, heartbeat_;
};

}  // namespace gpulens::experiments
