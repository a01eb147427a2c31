// Native part of gpulens.training, which stores and exports the measurements.
#include <gpulens/training.h>

#include <optional>
#include <vector>

#include <nanobind/stl/optional.h>

#include "src/values.h"

namespace gpulens::python {
namespace {

void Construct(TrainingMonitor* self, TrainingOptions options, const std::string& product,
               const std::string& precision, Registry* registry) {
  const auto parsed = ParsePrecision(precision);
  if (!parsed)
    Raise({Code::kInvalidArgument,
           "precision: unknown precision \"" + precision + "\"; use bf16, fp16, fp8, tf32, …"});
  options.precision = *parsed;
  options.product = product;
  new (self) TrainingMonitor(Take(TrainingMonitor::Create(options, OrProcess(registry))));
}

template <auto Record>
void RecordCheckpoint(TrainingMonitor& self, double seconds, std::optional<double> bytes) {
  (self.*Record)(seconds, bytes.value_or(kNotMeasured));
}

void BindOptions(nb::module_& m) {
  using Options = TrainingOptions;
  nb::class_<Options> bound(m, "TrainingOptions", "Options of gpulens.TrainingMonitor; NaN: unknown.");
  RefusesPickle(bound, "make a TrainingMonitor in the other process");
  bound.def(nb::init<>())
      .def_rw("num_params", &Options::num_params)
      .def_rw("active_params", &Options::active_params)
      .def_rw("tokens_per_step", &Options::tokens_per_step)
      .def_rw("gpu_count", &Options::gpu_count)
      .def_rw("rank", &Options::rank)
      .def_rw("peak_flops_per_gpu", &Options::peak_flops_per_gpu)
      .def_rw("gradient_checkpointing", &Options::gradient_checkpointing)
      .def_rw("max_norm", &Options::max_norm);
}

void BindMetrics(nb::module_& m) {
  using Metrics = TrainingMetrics;
  ValueClass<Metrics>(m, "TrainingMetrics",
                      "The last value of each metric, as a plain value; NaN where there was none.")
      .def_ro("steps", &Metrics::steps)
      .def_ro("nonfinite_losses", &Metrics::nonfinite_losses,
              "Number of steps whose loss was NaN or infinite.")
      .def_ro("loss", &Metrics::loss, "Loss of the last step; also NaN where that loss is not finite.")
      .def_ro("step_seconds", &Metrics::step_seconds)
      .def_ro("mfu", &Metrics::mfu, "Model FLOPs utilisation, a ratio.")
      .def_ro("hfu", &Metrics::hfu, "Hardware FLOPs utilisation, a ratio: includes recomputed operations.")
      .def_ro("flops_per_second", &Metrics::flops_per_second,
              "Operations per second of the model, over the whole job.")
      .def_ro("gradient_norm", &Metrics::gradient_norm)
      .def_ro("gradient_nonfinite_params", &Metrics::gradient_nonfinite_params)
      .def_ro("gradient_clip_ratio", &Metrics::gradient_clip_ratio)
      .def_ro("data_wait_seconds", &Metrics::data_wait_seconds)
      .def_ro("checkpoint_save_seconds", &Metrics::checkpoint_save_seconds)
      .def_ro("checkpoint_save_bytes_per_second", &Metrics::checkpoint_save_bytes_per_second)
      .def_ro("checkpoint_restore_seconds", &Metrics::checkpoint_restore_seconds)
      .def_ro("checkpoint_restore_bytes_per_second", &Metrics::checkpoint_restore_bytes_per_second)
      .def_ro("busy_ratio_to_median", &Metrics::busy_ratio_to_median,
              "Busy time of this rank divided by the median of all ranks.")
      .prints_all();
}

}  // namespace

void BindTraining(nb::module_& m) {
  using Monitor = TrainingMonitor;
  BindOptions(m);
  BindMetrics(m);
  nb::class_<Monitor> recorder(
      m, "TrainingRecorder", "Stores and exports the measurements of gpulens.TrainingMonitor. Thread-safe.");
  RefusesPickle(recorder, "make a TrainingMonitor in the other process, and send its metrics");
  recorder
      .def("__init__", &Construct, "options"_a, nb::kw_only(), "product"_a, "precision"_a,
           "registry"_a.none(), nb::keep_alive<1, 5>())
      .def("record_step", &Monitor::RecordStep, "seconds"_a, "loss"_a = nb::none())
      .def("record_loss", &Monitor::RecordLoss, "loss"_a)
      .def("record_data_wait", &Monitor::RecordDataWait, "seconds"_a)
      .def("record_checkpoint_save", &RecordCheckpoint<&Monitor::RecordCheckpointSave>, "seconds"_a,
           "size_bytes"_a = nb::none())
      .def("record_checkpoint_restore", &RecordCheckpoint<&Monitor::RecordCheckpointRestore>, "seconds"_a,
           "size_bytes"_a = nb::none())
      .def("record_gradient", &Monitor::RecordGradient, "l2_norm"_a, "nonfinite_params"_a,
           "clipped"_a = nb::none())
      .def(
          "record_ranks",
          [](Monitor& self, const std::vector<double>& busy_seconds) { self.RecordRanks(busy_seconds); },
          "busy_seconds"_a)
      .def_prop_ro("metrics", &Monitor::metrics)
      .def_prop_ro(
          "mfu_reason",
          [](const Monitor& self) -> std::optional<std::string> {
            const Status status = self.mfu_status();
            return status.ok() ? std::nullopt : std::optional(status.detail);
          },
          "Reason why there is no MFU; None when there is one.");
  m.def(
      "find_straggler",
      [](nb::handle busy_seconds) -> std::optional<std::pair<int, double>> {
        const Straggler found = FindStraggler(Numbers(busy_seconds, "busy_seconds"));
        return found.rank < 0 ? std::nullopt : std::optional(std::pair(found.rank, found.ratio_to_median));
      },
      "busy_seconds"_a.none(),
      nb::sig(
          "def find_straggler(busy_seconds: collections.abc.Iterable[float]) -> tuple[int, float] | None"),
      "Returns the rank with the longest busy time and the ratio of that time to the median of all; None for "
      "fewer than two known times. NaN and times that are not positive are ignored.");
}

}  // namespace gpulens::python
