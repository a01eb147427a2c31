// gpulens.experiments: the native half. Whatever may wait lets go of the GIL.
#include <gpulens/experiment.h>

#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include "src/bind.h"

namespace gpulens::python {
namespace {

std::chrono::nanoseconds Span(double seconds, const char* name) {
  if (!(seconds > 0 && seconds < 1e9))
    Raise({Code::kInvalidArgument,
           std::string(name) + " is a positive number of seconds; got " + Spell(seconds)});
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

const char* StatusName(ExperimentStatus status) {
  switch (status) {
    case ExperimentStatus::kRunning: return "running";
    case ExperimentStatus::kDone: return "done";
    case ExperimentStatus::kFailed: return "failed";
  }
  return "";
}

// What Python's experiment() was told; names as in the C++ options.
struct Options {
  std::string db, resume;
  std::map<std::string, std::string> tags;
  bool join = true;
  size_t queue_points = 16'384;
  double flush_interval_seconds = 1, heartbeat_interval_seconds = 10;

  ExperimentOptions Native() const {
    ExperimentOptions options;
    options.db = db, options.resume = resume;
    options.tags.assign(tags.begin(), tags.end());
    options.join = join;
    options.queue_points = queue_points;
    options.flush_interval = Span(flush_interval_seconds, "flush_interval_seconds");
    options.heartbeat_interval = Span(heartbeat_interval_seconds, "heartbeat_interval_seconds");
    return options;
  }
};

// One run. Logging holds the GIL and does not wait; what waits holds `ending_`, so that two threads that end
// one run do it in turn.
class Run {
 public:
  explicit Run(Experiment experiment) : experiment_(std::move(experiment)) {}
  Run(Run&&) = delete;
  ~Run() {
    const nb::gil_scoped_release released;
    std::optional<Experiment>().swap(experiment_);
  }

  Experiment& operator*() { return *experiment_; }
  Status End(ExperimentStatus status, const std::string& reason) {
    const nb::gil_scoped_release released;
    const std::lock_guard lock(ending_);
    if (experiment_->status() != ExperimentStatus::kRunning) return Ok();
    return experiment_->End(status, reason);
  }

 private:
  std::optional<Experiment> experiment_;
  std::mutex ending_;
};
