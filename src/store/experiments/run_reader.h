// Reads a file of experiments, ours or the zernel project's, and never writes to it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "store/experiments/run_rows.h"
#include "store/sqlite/sqlite.h"

namespace gpulens::experiments {

// Used by one thread at a time. Sees what writers committed.
class RunReader {
 public:
  // Of a metric's last value, both bounds included; NaN: no bound. A run without the metric, or whose last
  // value is NaN, is outside.
  struct MetricRange {
    std::string key;
    double least = kNotMeasured, most = kNotMeasured;
  };
  struct Filter {
    size_t limit = 20;
    std::string status = {};  // empty: any
    std::string name = {};    // exactly; empty: any
    bool nested = true;       // also runs within runs
    // A run has all of these.
    std::vector<ParamRow> params = {};
    std::vector<TagRow> tags = {};
    std::vector<MetricRange> metrics = {};
    // "started", "ended", "duration", "name", "status", "energy_joules", "metrics.KEY" (the last value),
    // "params.KEY" or "tags.KEY". Runs without the value come last, of equal ones the newest first.
    std::string order = "started";
    bool ascending = false;
  };

  // kUnavailable: there is no file. kDataLoss: it is no file of experiments. `longest`: OpenOptions::longest.
  static Result<RunReader> Open(const std::string& path, ProcessObserver observer = HereAndNow(),
                                Duration longest = {});
  // The same in a process with other databases: OpenOptions::bound_memory.
  static Result<RunReader> OpenForAgent(const std::string& path, ProcessObserver observer, Duration longest);

  // Determines again which runs have crashed, as Open does.
  Status Validate(const ProcessObserver& observer);

  // The runs that match, by default the newest first. kInvalidArgument: an unknown order.
  Result<std::vector<RunRow>> List(const Filter& filter);
  // Finds a run by id, by a unique end or beginning of an id of at least four characters, or by name: then
  // the newest. kInvalidArgument: none, or several, which are named.
  Result<RunRow> Find(std::string_view text);
  Result<RunRow> ById(std::string_view id);
  Result<std::vector<RunRow>> Children(std::string_view id);

  Result<std::vector<ParamRow>> Params(std::string_view id);
  Result<std::vector<TagRow>> Tags(std::string_view id);
  Result<std::vector<MetricRow>> Metrics(std::string_view id);
  // By step, then time.
  Result<std::vector<PointRow>> Points(std::string_view id, std::string_view key);
  // The points reduced to at most `most` (4 or more), in their order: the first, the last, and of equal parts
  // between them the least and the greatest, so that no peak is lost. A part without a number gives one point
  // of NaN. Its memory does not depend on the number of points.
  Result<std::vector<PointRow>> Curve(std::string_view id, std::string_view key, size_t most);
  Result<std::vector<ArtifactRow>> Artifacts(std::string_view id);
  Result<std::vector<ProcessRow>> Processes(std::string_view id);

  bool old_file() const noexcept { return old_; }
  const std::string& path() const noexcept { return database_.path(); }
  // For SQL queries (run_query.h). The temporary view `run_now` has the effective state of each run.
  const sqlite::Database& database() const noexcept { return database_; }
  int64_t now_ns() const noexcept { return now_ns_; }

 private:
  static Result<RunReader> Prepare(sqlite::Database database, const ProcessObserver& observer);
  RunReader(sqlite::Database database, bool old) : database_(std::move(database)), old_(old) {}
  Result<std::vector<RunRow>> Rows(const std::string& where, std::initializer_list<std::string_view> texts,
                                   size_t limit);
  static Result<std::vector<RunRow>> ReadRuns(sqlite::Statement& rows);

  sqlite::Database database_;
  bool old_ = false;
  int64_t now_ns_ = 0;
};

// Runs that are marked as running but whose processes have ended, with their last sign of life.
struct CrashedRun {
  std::string id;
  int64_t last_ns = 0;
};
Result<std::vector<CrashedRun>> FindCrashed(const sqlite::Database& database,
                                            const ProcessObserver& observer);

}  // namespace gpulens::experiments
