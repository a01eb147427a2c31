// Native part of gpulens.experiments. Calls that may wait release the GIL.
#include <gpulens/experiment_energy.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>

#include "src/values.h"

namespace gpulens::python {
namespace {

constexpr const char* kStatusNames[] = {"running", "done", "failed"};  // by ExperimentStatus

// Runs are long, so a longer interval suffices: counters are exact at any interval.
constexpr Duration kEnergyInterval = std::chrono::milliseconds(200);

// Options of Python's experiment().
struct RunOptions {
  std::string db, resume;
  std::map<std::string, std::string> tags;
  bool join = true;
  size_t queue_points = 16'384;
  double flush_interval_seconds = 1, heartbeat_interval_seconds = 10;
  bool measure = true;                   // with a monitor of its own,
  std::optional<EnergyMonitor> monitor;  // or with this one

  // Converts the options and begins to measure energy.
  ExperimentOptions Native() const {
    ExperimentOptions options;
    options.db = db, options.resume = resume, options.join = join;
    options.tags.assign(tags.begin(), tags.end());
    options.queue_points = queue_points;
    options.flush_interval = Span(flush_interval_seconds, "flush_interval_seconds");
    options.heartbeat_interval = Span(heartbeat_interval_seconds, "heartbeat_interval_seconds");
    if (monitor) options.energy = EnergyOf(*monitor);
    else if (measure) options.energy = EnergyOfThisMachine({.interval = kEnergyInterval});
    return options;
  }
};

constexpr const char* kElsewhere =
    "log from the other process into the same run with gpulens.experiment(name, resume=run.id), or read it "
    "with gpulens.load_run(run.id)";

double ToNumber(nb::handle value) {
  const double number =
      PyFloat_AsDouble(value.ptr());  // calls __float__, so scalars of NumPy and PyTorch work, too
  if (number == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    throw nb::type_error("a metric must be a number, or a tensor of one element");
  }
  return number;
}

int64_t ToStep(nb::handle step) {
  const nb::object whole = nb::steal(PyNumber_Index(step.ptr()));
  int64_t out = 0;
  if (!whole.is_valid() || !nb::try_cast(whole, out)) {
    PyErr_Clear();
    throw nb::type_error("a step must be a 64-bit integer");
  }
  return out;
}

class Run {
 public:
  explicit Run(Experiment experiment) : experiment_(std::move(experiment)) {}
  Run(Run&&) = delete;
  ~Run() {
    const nb::gil_scoped_release released;
    experiment_.reset();
  }

  static Run* Start(const std::string& name, const RunOptions& given) {
    ExperimentOptions options = given.Native();
    return new Run(Take(WithoutGil([&] { return Experiment::Start(name, std::move(options)); })));
  }
  Run* Nested(const std::string& name, const RunOptions& given) const {
    ExperimentOptions options = given.Native();
    return new Run(Take(WithoutGil([&] { return experiment_->Nested(name, std::move(options)); })));
  }

  Experiment& get() { return *experiment_; }
  void LogMetric(std::string_view key, nb::handle value, nb::handle step) {
    const double number = ToNumber(value);
    if (step.is_none()) experiment_->LogMetric(key, number);
    else experiment_->LogMetric(key, number, ToStep(step));
  }
  void LogArtifact(const std::string& path, const std::string& name) {
    Check(WithoutGil([&] { return experiment_->LogArtifact(path, name); }));
  }
  void Flush(double timeout_seconds) {
    const auto timeout = Span(timeout_seconds, "timeout_seconds");
    Check(WithoutGil([&] { return experiment_->Flush(timeout); }));
  }
  // Only the first call has an effect. Thread-safe.
  void End(bool failed, const std::string& reason) {
    if (ended_.exchange(true)) return;
    Check(WithoutGil([&] {
      return experiment_->End(failed ? ExperimentStatus::kFailed : ExperimentStatus::kDone, reason);
    }));
  }

 private:
  std::optional<Experiment> experiment_;
  std::atomic<bool> ended_ = false;
};

void BindEnergyOfRun(nb::module_& m) {
  using E = ExperimentEnergy;
  ValueClass<E>(m, "ExperimentEnergy",
                "Energy of the processes of a run, and the use of their devices during the run. Unknown "
                "values are NaN, and `validity` and `reason` explain why.")
      .def_ro("energy_joules", &E::energy_joules)
      .def_ro("uncertainty_joules", &E::uncertainty_joules, "Half-width of the uncertainty interval.")
      .def_ro("attribution", &E::attribution,
              "How the run's share was determined from the devices' energy: \"exclusive\", "
              "\"shared_by_utilization\", \"cpu_time\", \"shared_equally\" or \"whole_board\"; \"\": not "
              "reported.")
      .def_ro("device_energy_joules", &E::device_energy_joules,
              "Energy of the devices, regardless of which process used them.")
      .def_ro("method", &E::method, "\"counter\", \"power_integral\" or \"none\".")
      .def_ro("validity", &E::validity, "\"valid\", \"no_device\", …; \"\": not measured.")
      .def_ro("reason", &E::reason, "Why the energy is not valid; else additional information.")
      .def_ro("vendor", &E::vendor, "\"nvidia\", \"amd\", \"cpu_rapl\" or \"none\".")
      .def_ro("devices", &E::devices, "Number of devices that the run's processes used.")
      .def_ro("mean_power_watts", &E::mean_power_watts,
              "Mean power of the run's share of these devices, in watts; peak_power_watts likewise.")
      .def_ro("peak_power_watts", &E::peak_power_watts)
      .def_ro("mean_utilization_ratio", &E::mean_utilization_ratio,
              "Mean over the devices; peak_utilization_ratio likewise.")
      .def_ro("peak_utilization_ratio", &E::peak_utilization_ratio)
      .def_ro("mean_memory_used_bytes", &E::mean_memory_used_bytes,
              "Memory of the run's processes; peak_memory_used_bytes likewise.")
      .def_ro("peak_memory_used_bytes", &E::peak_memory_used_bytes)
      .def("__repr__", [](const E& self) {
        return "ExperimentEnergy(energy_joules=" + FloatText(self.energy_joules) + ", validity='" +
               self.validity + "')";
      });
}

void BindOptions(nb::module_& m) {
  nb::class_<RunOptions> options(m, "ExperimentOptions", "Options of gpulens.experiment().");
  RefusesPickle(options, kElsewhere);
  options.def(nb::init<>())
      .def_rw("db", &RunOptions::db)
      .def_rw("resume", &RunOptions::resume)
      .def_rw("tags", &RunOptions::tags)
      .def_rw("join", &RunOptions::join)
      .def_rw("queue_points", &RunOptions::queue_points)
      .def_rw("flush_interval_seconds", &RunOptions::flush_interval_seconds)
      .def_rw("heartbeat_interval_seconds", &RunOptions::heartbeat_interval_seconds)
      .def_rw("measure", &RunOptions::measure)
      .def("use_monitor", [](RunOptions& self, const EnergyMonitor& monitor) { self.monitor = monitor; });
}

// Adds an overload; they are tried in order. Only the last one, for texts, converts its value.
template <class T>
void BindParam(nb::class_<Run>& run) {
  run.def(
      "log_param", [](Run& self, std::string_view key, T value) { self.get().LogParam(key, value); }, "key"_a,
      nb::arg("value").noconvert(!std::is_same_v<T, std::string_view>));
}

}  // namespace

void BindExperiment(nb::module_& m) {
  BindEnergyOfRun(m);
  BindOptions(m);
  nb::class_<Run> run(m, "ExperimentRun", "The native part of gpulens.Experiment. Thread-safe.");
  RefusesPickle(run, kElsewhere);
  BindParam<bool>(run), BindParam<int64_t>(run), BindParam<double>(run), BindParam<std::string_view>(run);
  run.def_static("start", &Run::Start, "name"_a, "options"_a, nb::rv_policy::take_ownership)
      .def("nested", &Run::Nested, "name"_a, "options"_a, nb::rv_policy::take_ownership)
      .def("log_metric", &Run::LogMetric, "key"_a, "value"_a.none(), "step"_a.none())
      .def(
          "set_tag",
          [](Run& self, std::string_view key, std::string_view value) { self.get().SetTag(key, value); },
          "key"_a, "value"_a)
      .def("log_artifact", &Run::LogArtifact, "path"_a, "name"_a)
      .def("flush", &Run::Flush, "timeout_seconds"_a)
      .def("end", &Run::End, "failed"_a, "reason"_a)
      .def_prop_ro("id", [](Run& self) { return self.get().id(); })
      .def_prop_ro("name", [](Run& self) { return self.get().name(); })
      .def_prop_ro("db", [](Run& self) { return self.get().db(); })
      .def_prop_ro("status", [](Run& self) { return kStatusNames[static_cast<size_t>(self.get().status())]; })
      .def_prop_ro("energy", [](Run& self) { return self.get().energy(); })
      .def_prop_ro(
          "health",
          [](Run& self) {
            const ExperimentHealth health = self.get().health();
            return nb::make_tuple(health.written, health.queued, health.dropped, health.last_error.detail);
          },
          nb::sig("def health(self) -> tuple[int, int, int, str]"));
}

}  // namespace gpulens::python
