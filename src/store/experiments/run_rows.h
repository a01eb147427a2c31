// Rows of the file of experiments as plain values. Times are wall-clock nanoseconds since 1970; NaN is a
// measured NaN or, for energy, not measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::experiments {

// The words of a status, in the file and everywhere else. `crashed` is nowhere written: a reader sees it.
inline constexpr const char *kRunning = "running", *kDone = "done", *kFailed = "failed",
                            *kCrashed = "crashed";

struct EnergyRow {
  double joules = kNotMeasured, uncertainty_joules = kNotMeasured;
  std::string attribution = {};         // how the run's share was determined
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

// Text, whole number, real number, truth.
using Value = std::variant<std::string, int64_t, double, bool>;
std::string ValueText(const Value& value);

struct ParamRow {
  std::string key;
  Value value;
};
struct TagRow {
  std::string key, value;
};

struct MetricRow {
  std::string key;
  std::optional<int64_t> count;  // of points; absent in old files, which keep the last value alone
  int64_t nan_count = 0;
  std::optional<int64_t> last_step;
  double last = kNotMeasured;
  double min = kNotMeasured, max = kNotMeasured;  // of the points that are numbers
};
struct PointRow {
  int64_t step = 0, unix_ns = 0;
  double value = kNotMeasured;
};

struct ArtifactRow {
  std::string name;  // a path below the run's artifacts
  std::string path;  // where the bytes are
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

// Decides whether a process still writes into a run. Where its PIDs are ours (same boot and namespace) the
// kernel is queried; elsewhere (another machine or container, before a reboot) its heartbeat decides.
//
// Number of missing heartbeats that count as an end.
inline constexpr int64_t kMissedHeartbeats = 6;
inline constexpr int64_t kLeastHeartbeatLimitNs = 60'000'000'000;

// Place and time of the decision.
struct Observer {
  std::string host, place;
  int64_t now_ns = 0;
  // Start time of the process with this pid in clock ticks since boot; nothing: none, or a zombie.
  std::function<std::optional<int64_t>(int64_t pid)> start_of;
};

// Observer of this process with the machine's clock.
Observer HereAndNow();
// A row for this process; heartbeats, started and role are the caller's.
ProcessRow ThisProcess(const Observer& here);

bool IsAlive(const ProcessRow& process, const Observer& observer);

}  // namespace gpulens::experiments
