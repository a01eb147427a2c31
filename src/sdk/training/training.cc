#include <gpulens/training.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <iterator>
#include <string>
#include <vector>

#include <gpulens/instruments.h>
#include <gpulens/stats.h>

namespace gpulens {
namespace {

bool IsTime(double seconds) noexcept { return seconds >= 0 && std::isfinite(seconds); }

// Returns the instrument's series of this rank; `rank` is the only attribute of a monitor's series.
template <class Instrument>
Instrument OfRank(std::string_view name, std::string_view unit, std::string_view description,
                  Registry& registry, int rank) {
  return Instrument(name, {.unit = unit, .description = description}, registry)
      .Bind({{"rank", static_cast<int64_t>(rank)}});
}

// A gauge that also stores its last value. Thread-safe.
class RememberedGauge {
 public:
  RememberedGauge(std::string_view name, std::string_view unit, std::string_view description,
                  Registry& registry, int rank)
      : gauge_(OfRank<Gauge>(name, unit, description, registry, rank)) {}
  void Set(double value) noexcept {
    last_.store(value, std::memory_order_relaxed);
    gauge_.Set(value);
  }
  double last() const noexcept { return last_.load(std::memory_order_relaxed); }

 private:
  Gauge gauge_;
  std::atomic<double> last_{kNotMeasured};
};

struct OptionRule {
  bool broken;
  const char* detail;
};

Status Check(const TrainingOptions& options) {
  const auto size = [](double n) { return n >= 0 && std::isfinite(n); };
  const std::array rules{
      OptionRule{!size(options.num_params), "num_params must be 0 or more"},
      OptionRule{!size(options.active_params) ||
                     (options.num_params > 0 && options.active_params > options.num_params),
                 "active_params must be at least 0 and at most num_params"},
      OptionRule{!size(options.tokens_per_step), "tokens_per_step must be 0 or more"},
      OptionRule{options.gpu_count < 1, "gpu_count must be at least 1"},
      OptionRule{options.rank < 0, "rank must be at least 0"},
      OptionRule{options.peak_flops_per_gpu <= 0 || std::isinf(options.peak_flops_per_gpu),
                 "peak_flops_per_gpu must be positive, or NaN if unknown"},
      OptionRule{options.max_norm <= 0, "max_norm must be positive, or NaN if gradients are not clipped"},
  };
  for (const OptionRule& rule : rules) {
    if (rule.broken) return {Code::kInvalidArgument, rule.detail};
  }
  return {};
}

// Returns the median of the known times; NaN for fewer than two.
double MedianOf(std::span<const double> seconds) {
  std::vector<double> known;
  std::copy_if(seconds.begin(), seconds.end(), std::back_inserter(known),
               [](double time) { return time > 0 && std::isfinite(time); });
  if (known.size() < 2) return kNotMeasured;
  std::sort(known.begin(), known.end());
  return Percentile(known, 0.5);
}

double PeakOf(const TrainingOptions& options) noexcept {
  if (!std::isnan(options.peak_flops_per_gpu)) return options.peak_flops_per_gpu;
  const auto spec = FindGpuSpec(options.product);
  return spec ? spec->PeakFlops(options.precision) : kNotMeasured;
}

Status MfuStatus(const TrainingOptions& options, double peak) {
  const auto no = [](std::string detail) {
    return Status{Code::kUnavailable, "no MFU: " + std::move(detail)};
  };
  if (options.num_params <= 0 && options.active_params <= 0) return no("num_params is not given");
  if (options.tokens_per_step <= 0) return no("tokens_per_step is not given");
  if (!std::isnan(peak)) return {};
  if (options.product.empty()) return no("neither peak_flops_per_gpu nor product is given");
  const std::string product(options.product);
  if (!FindGpuSpec(product))
    return no("\"" + product + "\" is not in the table of hardware; give peak_flops_per_gpu");
  return no("no " + std::string(PrecisionName(options.precision)) + " peak of " + product +
            " is published; give peak_flops_per_gpu");
}

}  // namespace

struct TrainingMonitor::State {
  State(const TrainingOptions& given, Registry& registry)
      : peak(PeakOf(given)),
        mfu_status(MfuStatus(given, peak)),
        flops_per_step(TrainingFlops(given.active_params > 0 ? given.active_params : given.num_params,
                                     given.tokens_per_step)),
        // Recomputation is one more forward pass: 2 operations more than 6 per parameter and token.
        executed_ratio(given.gradient_checkpointing ? 4.0 / 3 : 1.0),
        tokens_per_step(given.tokens_per_step),
        max_norm(given.max_norm),
        gpu_count(given.gpu_count),
        rank(given.rank),
        gauges(registry, given.rank),
        steps(OfRank<Counter>("training.steps", "{step}", "Steps that ended.", registry, rank)),
        tokens(OfRank<DoubleCounter>("training.tokens", "{token}", "Tokens of those steps, all ranks.",
                                     registry, rank)),
        nonfinite_losses(OfRank<Counter>("training.loss.nonfinite", "{step}",
                                         "Steps whose loss was NaN or infinite.", registry, rank)),
        data_wait_total(OfRank<DoubleCounter>("training.dataloader.wait_time", "s",
                                              "All time spent waiting for batches.", registry, rank)),
        step_times(OfRank<Histogram>("training.step.duration", "s", "Time of a step.", registry, rank)) {}

  // The names are those of l9gpu's TrainingMetrics, and HFU.
  struct Gauges {
    Gauges(Registry& registry, int rank)
        : mfu("training.mfu", "1", "Model FLOPs utilisation of the last step.", registry, rank),
          hfu("training.hfu", "1", "Hardware FLOPs utilisation of the last step: with what was recomputed.",
              registry, rank),
          tflops("training.tflops", "TFLOPS", "Model FLOPs a second of the whole job, 10^12.", registry,
                 rank),
          step_time("training.step_time", "s", "Time of the last step.", registry, rank),
          loss("training.loss", "1", "Loss of the last step.", registry, rank),
          norm("training.gradient.norm", "1", "L2 norm of the finite gradients, before clipping.", registry,
               rank),
          nonfinite("training.gradient.nan_count", "{param}", "Parameters whose gradient is NaN or infinite.",
                    registry, rank),
          clipped("training.gradient.clip_rate", "1", "Share of the steps whose gradient was clipped.",
                  registry, rank),
          wait("training.dataloader.wait", "s", "Wait for the last batch.", registry, rank),
          save("training.checkpoint.save_duration", "s", "Time of the last checkpoint.", registry, rank),
          save_rate("training.checkpoint.save_bandwidth", "By/s", "Rate of the last checkpoint.", registry,
                    rank),
          restore("training.checkpoint.restore_duration", "s", "Time of the last restore.", registry, rank),
          restore_rate("training.checkpoint.restore_bandwidth", "By/s", "Rate of the last restore.", registry,
                       rank),
          busy("training.step.busy_ratio", "1", "This rank's busy time by the median of all ranks.", registry,
               rank) {}
    RememberedGauge mfu, hfu, tflops, step_time, loss, norm, nonfinite, clipped, wait, save, save_rate,
        restore, restore_rate, busy;
  };

  const double peak;
  const Status mfu_status;
  const double flops_per_step, executed_ratio, tokens_per_step, max_norm;
  const int gpu_count, rank;
  Gauges gauges;
  const Counter steps;
  const DoubleCounter tokens;
  const Counter nonfinite_losses;
  const DoubleCounter data_wait_total;
  const Histogram step_times;
  std::atomic<uint64_t> step_count{0}, nonfinite_count{0}, gradient_steps{0}, clipped_steps{0};
};

TrainingMonitor::Scope::Scope(TrainingMonitor& monitor, Part part) noexcept
    : monitor_(&monitor),
      begun_(std::chrono::steady_clock::now()),
      exceptions_(std::uncaught_exceptions()),
      part_(part) {
  if (part == Part::kDataWait) wait_.emplace();
  if (part == Part::kCheckpointSave || part == Part::kCheckpointRestore)
    phase_.emplace(JobPhase::kCheckpoint);
}

TrainingMonitor::Scope::Scope(Scope&& other) noexcept
    : monitor_(std::exchange(other.monitor_, nullptr)),
      begun_(other.begun_),
      loss_(other.loss_),
      bytes_(other.bytes_),
      exceptions_(other.exceptions_),
      part_(other.part_),
      wait_(std::move(other.wait_)),
      phase_(std::move(other.phase_)) {}

TrainingMonitor::Scope::~Scope() {
  if (!monitor_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    if (wait_) wait_->Discard();
    return;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun_;
  switch (part_) {
    case Part::kStep: monitor_->RecordStep(took.count(), loss_); break;
    case Part::kDataWait: monitor_->RecordDataWait(took.count()); break;
    case Part::kCheckpointSave: monitor_->RecordCheckpointSave(took.count(), bytes_); break;
    case Part::kCheckpointRestore: monitor_->RecordCheckpointRestore(took.count(), bytes_); break;
  }
}

Result<TrainingMonitor> TrainingMonitor::Create(const TrainingOptions& options, Registry& registry) {
  if (Status status = Check(options); !status.ok()) return status;
  return TrainingMonitor(std::make_unique<State>(options, registry));
}

TrainingMonitor::TrainingMonitor(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TrainingMonitor::TrainingMonitor(TrainingMonitor&&) noexcept = default;
TrainingMonitor& TrainingMonitor::operator=(TrainingMonitor&&) noexcept = default;
TrainingMonitor::~TrainingMonitor() = default;

void TrainingMonitor::RecordStep(double seconds, std::optional<double> loss) noexcept {
  if (!IsTime(seconds)) return;
  State& s = *state_;
  s.step_count.fetch_add(1, std::memory_order_relaxed);
  s.steps.Add(1);
  s.tokens.Add(s.tokens_per_step);
  s.step_times.Record(seconds);
  s.gauges.step_time.Set(seconds);
  if (loss) RecordLoss(*loss);
  if (s.flops_per_step <= 0 || seconds <= 0) return;
  const double mfu = Mfu(s.flops_per_step, seconds, s.peak, s.gpu_count);
  s.gauges.tflops.Set(s.flops_per_step / seconds / 1e12);
  s.gauges.mfu.Set(mfu);
  s.gauges.hfu.Set(mfu * s.executed_ratio);
}

void TrainingMonitor::RecordLoss(double loss) noexcept {
  State& s = *state_;
  const bool finite = std::isfinite(loss);
  s.gauges.loss.Set(finite ? loss : kNotMeasured);
  if (finite) return;
  s.nonfinite_count.fetch_add(1, std::memory_order_relaxed);
  s.nonfinite_losses.Add(1);
}

void TrainingMonitor::RecordDataWait(double seconds) noexcept {
  if (!IsTime(seconds)) return;
  state_->gauges.wait.Set(seconds);
  state_->data_wait_total.Add(seconds);
}

namespace {

void RecordCheckpoint(RememberedGauge& duration, RememberedGauge& rate, double seconds,
                      double bytes) noexcept {
  if (!IsTime(seconds)) return;
  duration.Set(seconds);
  // The rate of an earlier checkpoint would not match this duration.
  rate.Set(bytes >= 0 && std::isfinite(bytes) && seconds > 0 ? bytes / seconds : kNotMeasured);
}

}  // namespace

void TrainingMonitor::RecordCheckpointSave(double seconds, double bytes) noexcept {
  RecordCheckpoint(state_->gauges.save, state_->gauges.save_rate, seconds, bytes);
}

void TrainingMonitor::RecordCheckpointRestore(double seconds, double bytes) noexcept {
  RecordCheckpoint(state_->gauges.restore, state_->gauges.restore_rate, seconds, bytes);
}

void TrainingMonitor::RecordGradient(double l2_norm, int64_t nonfinite_params,
                                     std::optional<bool> clipped) noexcept {
  State& s = *state_;
  s.gauges.norm.Set(std::isfinite(l2_norm) ? l2_norm : kNotMeasured);
  s.gauges.nonfinite.Set(nonfinite_params < 0 ? kNotMeasured : static_cast<double>(nonfinite_params));
  if (!clipped && std::isnan(s.max_norm)) return;
  const uint64_t cut = clipped.value_or(l2_norm > s.max_norm) ? 1 : 0;
  const uint64_t all = s.gradient_steps.fetch_add(1, std::memory_order_relaxed) + 1;
  const uint64_t of_them = s.clipped_steps.fetch_add(cut, std::memory_order_relaxed) + cut;
  s.gauges.clipped.Set(static_cast<double>(of_them) / static_cast<double>(all));
}

void TrainingMonitor::RecordRanks(std::span<const double> busy_seconds) noexcept {
  const double median = MedianOf(busy_seconds);
  const auto rank = static_cast<size_t>(state_->rank);
  const double mine = rank < busy_seconds.size() ? busy_seconds[rank] : kNotMeasured;
  state_->gauges.busy.Set(mine > 0 ? mine / median : kNotMeasured);
}

TrainingMetrics TrainingMonitor::metrics() const noexcept {
  const State& s = *state_;
  const State::Gauges& gauges = s.gauges;
  const double tflops = gauges.tflops.last();
  return {.steps = s.step_count.load(std::memory_order_relaxed),
          .nonfinite_losses = s.nonfinite_count.load(std::memory_order_relaxed),
          .loss = gauges.loss.last(),
          .step_seconds = gauges.step_time.last(),
          .mfu = gauges.mfu.last(),
          .hfu = gauges.hfu.last(),
          .flops_per_second = tflops * 1e12,
          .gradient_norm = gauges.norm.last(),
          .gradient_nonfinite_params = gauges.nonfinite.last(),
          .gradient_clip_ratio = gauges.clipped.last(),
          .data_wait_seconds = gauges.wait.last(),
          .checkpoint_save_seconds = gauges.save.last(),
          .checkpoint_save_bytes_per_second = gauges.save_rate.last(),
          .checkpoint_restore_seconds = gauges.restore.last(),
          .checkpoint_restore_bytes_per_second = gauges.restore_rate.last(),
          .busy_ratio_to_median = gauges.busy.last()};
}

Status TrainingMonitor::mfu_status() const { return state_->mfu_status; }

Straggler FindStraggler(std::span<const double> busy_seconds) {
  const double median = MedianOf(busy_seconds);
  if (std::isnan(median)) return {};
  Straggler slowest{.rank = -1, .ratio_to_median = 0};
  for (size_t i = 0; i < busy_seconds.size(); ++i) {
    const double ratio = busy_seconds[i] / median;
    if (ratio > slowest.ratio_to_median) slowest = {static_cast<int>(i), ratio};
  }
  return slowest;
}

}  // namespace gpulens
