// Telemetry of training: hardware utilization, time lost to input and checkpoints, gradients.
//
//   auto monitor = gpulens::TrainingMonitor::Create(
//       {.num_params = 70e9, .tokens_per_step = 4096, .gpu_count = 8, .product = "NVIDIA H100 80GB HBM3"});
//   { auto step = monitor->Time(gpulens::TrainingMonitor::Part::kStep); …; step.set_loss(loss); }
//
// It writes instruments, which any exporter of the registry exports: training.mfu, training.hfu,
// training.step_time … with the attribute rank. Unknown values are omitted: without a peak there is no MFU.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <gpulens/efficiency.h>
#include <gpulens/job.h>
#include <gpulens/registry.h>
#include <gpulens/status.h>
#include <gpulens/time.h>

namespace gpulens {

struct TrainingOptions {
  double num_params = 0;       // of the model; 0: unknown, no MFU
  double active_params = 0;    // parameters that one token uses in a mixture of experts; 0: all
  double tokens_per_step = 0;  // of the whole job, all ranks together
  int gpu_count = 1;           // of the whole job
  int rank = 0;
  double peak_flops_per_gpu = kNotMeasured;  // per second, without sparsity; NaN: that of `product`
  std::string_view product = {};             // see FindGpuSpec
  Precision precision = Precision::kBf16;
  bool gradient_checkpointing = false;  // activations are computed twice: counts in HFU, not in MFU
  double max_norm = kNotMeasured;       // norm above which gradients are clipped
};

// The last value of each metric; NaN where there was none.
struct TrainingMetrics {
  uint64_t steps = 0, nonfinite_losses = 0;
  double loss = kNotMeasured;
  double step_seconds = kNotMeasured;
  double mfu = kNotMeasured, hfu = kNotMeasured;  // ratios
  double flops_per_second = kNotMeasured;         // of the model, whole job
  double gradient_norm = kNotMeasured;
  double gradient_nonfinite_params = kNotMeasured;
  double gradient_clip_ratio = kNotMeasured;  // clipped steps over steps with a gradient, since the start
  double data_wait_seconds = kNotMeasured;
  double checkpoint_save_seconds = kNotMeasured, checkpoint_save_bytes_per_second = kNotMeasured;
  double checkpoint_restore_seconds = kNotMeasured, checkpoint_restore_bytes_per_second = kNotMeasured;
  double busy_ratio_to_median = kNotMeasured;  // this rank's time over the median of all ranks
};

// Records training metrics. Recording is noexcept and thread-safe, without locks and I/O and, except for
// RecordRanks, without allocation. NaN, negative and infinite times are dropped. Losses that are not finite
// are counted in training.loss.nonfinite.
class TrainingMonitor {
 public:
  enum class Part : uint8_t { kStep, kDataWait, kCheckpointSave, kCheckpointRestore };

  // Records its lifetime as the time of one part; nothing when an exception ends it. A wait for data and a
  // checkpoint are also what the agent sees of this process (gpulens/job.h). Ends in the thread that began
  // it.
  class [[nodiscard]] Scope {
   public:
    Scope(TrainingMonitor& monitor, Part part) noexcept;
    Scope(Scope&& other) noexcept;
    Scope& operator=(Scope&&) = delete;
    ~Scope();
    void set_loss(double loss) noexcept { loss_ = loss; }
    void set_bytes(double bytes) noexcept { bytes_ = bytes; }

   private:
    TrainingMonitor* monitor_;
    TimePoint begun_;
    std::optional<double> loss_;
    double bytes_ = kNotMeasured;
    int exceptions_;
    Part part_;
    std::optional<DataWaitScope> wait_;
    std::optional<PhaseScope> phase_;
  };

  // kInvalidArgument names the option.
  static Result<TrainingMonitor> Create(const TrainingOptions& options,
                                        Registry& registry = Registry::Process());
  TrainingMonitor(TrainingMonitor&&) noexcept;
  TrainingMonitor& operator=(TrainingMonitor&&) noexcept;
  ~TrainingMonitor();

  Scope Time(Part part) noexcept { return Scope(*this, part); }  // the monitor must outlive it
  void RecordStep(double seconds, std::optional<double> loss = {}) noexcept;
  void RecordLoss(double loss) noexcept;         // of a step that was recorded without it
  void RecordDataWait(double seconds) noexcept;  // from requesting a batch to receiving it
  void RecordCheckpointSave(double seconds, double bytes = kNotMeasured) noexcept;
  void RecordCheckpointRestore(double seconds, double bytes = kNotMeasured) noexcept;
  // Records the L2 norm of all finite gradients before clipping, and the number of parameters without a
  // finite one. `clipped`: whether the step was clipped; the default is whether the norm is above max_norm.
  void RecordGradient(double l2_norm, int64_t nonfinite_params, std::optional<bool> clipped = {}) noexcept;
  // Records how long each rank was busy in the same steps, by rank. In synchronous training all steps take
  // equally long, and the rank that was busy longest delays the others. Only a hint where kernels run
  // asynchronously: the times are then those of the host.
  void RecordRanks(std::span<const double> busy_seconds) noexcept;

  TrainingMetrics metrics() const noexcept;
  // Ok if there is an MFU, otherwise the reason.
  Status mfu_status() const;

 private:
  struct State;
  explicit TrainingMonitor(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

// The slowest rank, and its time over the median of all; rank -1 for fewer than two known times. Times that
// are NaN or not positive are ignored.
struct Straggler {
  int rank = -1;
  double ratio_to_median = kNotMeasured;
};
Straggler FindStraggler(std::span<const double> busy_seconds);

}  // namespace gpulens
