// Rows of the file of experiments as plain values, its schema, and the paths and IDs of runs. Times are
// wall-clock nanoseconds since 1970; NaN is a measured NaN or, for energy, not measured.
//
//   ~/.gpulens/experiments.db                  or the file of $GPULENS_EXPERIMENTS_DB or --db
//   ~/.gpulens/runs/ID/output.log              output of a run, next to the file
//   ~/.gpulens/runs/ID/artifacts/NAME
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gpulens/status.h>

#include "store/sqlite/sqlite.h"

namespace gpulens::experiments {

// Values of a status. `crashed` is never stored: readers derive it.
inline constexpr const char *kRunning = "running", *kDone = "done", *kFailed = "failed",
                            *kCrashed = "crashed";

struct EnergyRow {
  double joules = kNotMeasured, uncertainty_joules = kNotMeasured;
  std::string attribution = {};         // method that determined the run's share
  double device_joules = kNotMeasured;  // of the devices, whichever process used them
  std::string method, validity, reason;
  std::string vendor = {};
  int64_t devices = 0;
  double mean_power_watts = kNotMeasured, peak_power_watts = kNotMeasured;
  double mean_utilization_ratio = kNotMeasured, peak_utilization_ratio = kNotMeasured;
  double mean_memory_used_bytes = kNotMeasured, peak_memory_used_bytes = kNotMeasured;

  bool queried() const noexcept { return joules == joules || !validity.empty(); }
  // Number of GPUs among the devices; absent: unknown.
  std::optional<int64_t> gpus() const noexcept {
    if (vendor.empty() || vendor == "none") return std::nullopt;
    return vendor == "cpu_rapl" ? 0 : devices;
  }
};

struct RunRow {
  std::string id, name;
  std::string status = kRunning;  // of old files also other words
  std::string parent_id;          // empty: none
  int64_t started_ns = 0;
  std::optional<int64_t> ended_ns;  // of a crashed run its last sign of life
  std::string script, command, folder, git_commit, host;
  std::optional<int64_t> exit_code;
  std::string reason;  // why it failed
  int64_t resumed = 0;
  int64_t dropped = 0;  // records that were given and not kept
  EnergyRow energy;

  // Seconds from start to end, or to `now_ns`; NaN when the end of an ended one is not known.
  double duration_seconds(int64_t now_ns) const noexcept;
};

// A text, an integer, a real number or a truth value.
using RunParamValue = std::variant<std::string, int64_t, double, bool>;
std::string ValueText(const RunParamValue& value);

struct ParamRow {
  std::string key;
  RunParamValue value;
};
struct TagRow {
  std::string key, value;
};

struct MetricRow {
  std::string key;
  std::optional<int64_t> count;  // of points; absent in old files, which have only the last value
  int64_t nan_count = 0;
  std::optional<int64_t> last_step;
  double last = kNotMeasured;
  double min = kNotMeasured, max = kNotMeasured;  // of the points that are numbers
};
// The greatest step of all metrics.
std::optional<int64_t> LastStep(const std::vector<MetricRow>& metrics);
// By the last step. NaN where not known, and of a resumed run, whose energy excludes the earlier steps.
double JoulesPerStep(const RunRow& run, const std::vector<MetricRow>& metrics);

struct PointRow {
  int64_t step = 0, unix_ns = 0;
  double value = kNotMeasured;
};

struct ArtifactRow {
  std::string name;  // a path below the run's artifacts
  std::string path;  // of the bytes
  int64_t bytes = 0;
  std::string sha256;  // in hexadecimal; empty: too large to be read
  bool copied = false;
  int64_t unix_ns = 0;
};

// A process that writes into a run.
struct ProcessRow {
  // "main", "member" (joined), "runner" (gpulens run); "fork": of a main or member, which the end of the run
  // does not wait for.
  std::string role;
  std::string host, place;  // `place`: whose pids these are
  int64_t pid = 0;
  int64_t start_ticks = 0;  // distinguishes a pid from a later process with the same one
  int64_t started_ns = 0, heartbeat_ns = 0, heartbeat_every_ns = 0;
  std::optional<int64_t> ended_ns;
};

// Number of missing heartbeats that count as the end of a process.
inline constexpr int64_t kMissedHeartbeats = 6;
inline constexpr int64_t kLeastHeartbeatLimitNs = 60'000'000'000;

// Place and time of the decision.
struct ProcessObserver {
  std::string host, place;
  int64_t now_ns = 0;
  // Start time of the process with this pid in clock ticks since boot; nothing: none, or a zombie.
  std::function<std::optional<int64_t>(int64_t pid)> start_of;
};

// Observer of this process with the machine's clock.
ProcessObserver HereAndNow();
// A row for this process; heartbeats, started and role are the caller's.
ProcessRow ThisProcess(const ProcessObserver& here);

// Whether a process still writes into a run. Where its PIDs are ours (same boot and namespace) the kernel is
// queried; elsewhere (another machine or container, before a reboot) its heartbeat decides.
bool IsAlive(const ProcessRow& process, const ProcessObserver& observer);

inline constexpr size_t kMostKeyBytes = 250;        // of a metric, a param, a tag: MLflow's bound
inline constexpr size_t kMostTextBytes = 64 << 10;  // of a param's or tag's text
inline constexpr size_t kMostIdBytes = 64;

// Returns `given`, else $GPULENS_EXPERIMENTS_DB, else the file below the home folder; expands a leading ~/.
// kInvalidArgument: there is no home folder.
Result<std::string> FindDatabase(std::string_view given);

// exp-YYYYMMDD-HHMMSS-<8 hexadecimal digits>: the time in UTC, and a random number.
std::string MakeRunId(int64_t unix_ns);
// Letters, digits, `.`, `_` and `-`, not a dot first, as an id is also the name of a folder.
bool IsRunId(std::string_view text) noexcept;
// 1 to kMostKeyBytes of UTF-8 without control bytes.
bool IsKey(std::string_view text) noexcept;

// Folder of a run next to its file. `old`: a file of the zernel project.
std::string RunFolder(const std::string& database, std::string_view id, bool old = false);
std::string LogPath(const std::string& database, std::string_view id, bool old = false);

// Schema of the file of experiments, and the same tables made from an old file of the zernel project. Table
// names are singular; the views for SQL queries (run_query.h) have plural names.
extern const sqlite::Schema kRunSchema;

// Whether the file has the one table of the zernel project and none of ours.
Result<bool> IsOldFile(const sqlite::Database& database);
// Makes temporary tables of our names with the content of the old file, which is not written. kDataLoss: its
// table is of an unknown version.
Status MakeTablesOfOldFile(const sqlite::Database& database);

// Makes empty temporary tables for those that a file of an earlier version lacks.
Status AddMissingTables(const sqlite::Database& database);

}  // namespace gpulens::experiments
