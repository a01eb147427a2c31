// Series of one GPU, from the readings of its reader process.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "plugins/collectors/nvidia/board_series.h"
#include "plugins/collectors/nvidia/metric_rows.h"
#include "plugins/collectors/nvidia/slice_series.h"

namespace gpulens::nvidia {

// Used inside the collector's run. Declares a series when the library first answers for it, never before.
class GpuSeries {
 public:
  struct Options {
    bool simulated = false;
    bool serial = false;                      // whether gpu.info has the board's serial number
    bool links = false;                       // whether every link has series of its own
    bool details = false;                     // whether rows that are off by default are exported
    nvml::ProcessTable* processes = nullptr;  // names of processes; null: none are known
    EventQueue* ended = nullptr;              // receives processes that left; may be null
  };
  explicit GpuSeries(Options options)
      : options_(options),
        board_({options.serial, options.details}),
        links_(options.links),
        slices_(options.details),
        processes_(options.processes, options.ended) {}

  // Ends all series of this GPU: its identity changed, or it is gone.
  void Retire(SeriesTable& table);
  // `all`: the GPUs of the machine, for the paths between them.
  void Update(const nvml::Gpu& gpu, const FieldMaxAge& max_age, Instant now, FrameWriter& out,
              std::span<const nvml::Gpu> all = {});
  // Null until the GPU has been opened.
  const EntityRef& entity() const noexcept { return entity_; }

 private:
  void Declare(const nvml::Gpu& gpu, SeriesTable& table);
  void UpdateState(const GpuRun& run);
  void UpdateFields(const GpuRun& run);
  void UpdateRate(const GpuRun& run, const RateRow& row, RateSeries& rate) const;
  void UpdateShares(const GpuRun& run);
  void UpdateThrottling(const GpuRun& run);
  void UpdateRemapping(const GpuRun& run);
  void UpdateLinks(const GpuRun& run);
  void UpdateProcesses(const GpuRun& run);

  Options options_;
  EntityRef entity_;
  uint32_t identity_version_ = 0;
  std::array<ReadingSeries, std::size(kFieldRows)> fields_;
  BoardSeries board_;
  LinkSeries links_;
  std::array<RateSeries, std::size(kRateRows)> rates_;
  std::array<Series, std::size(kThrottleBits)> throttle_;
  std::array<Series, 8> states_;
  Series info_, sample_age_, throttle_mask_, clock_idle_, power_share_, memory_percent_;
  ReadingSeries remapped_correctable_, remapped_uncorrectable_;
  Series links_active_, links_inactive_;
  SliceSeries slices_;
  ProcessSeries processes_;
};

}  // namespace gpulens::nvidia
