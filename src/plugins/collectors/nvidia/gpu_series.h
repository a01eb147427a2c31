// The series of one GPU, from the readings of its driver.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>

#include "core/frame_writer.h"
#include "plugins/collectors/nvidia/board_series.h"
#include "plugins/collectors/nvidia/field_rows.h"
#include "plugins/collectors/nvidia/gpu_run.h"
#include "plugins/collectors/nvidia/link_series.h"
#include "plugins/collectors/nvidia/part_series.h"
#include "plugins/collectors/nvidia/process_series.h"
#include "sources/nvml/nvml_source.h"

namespace gpulens {

// Used inside the collector's run. Declares what the driver supports when it first answers, never before.
class GpuSeries {
 public:
  struct Options {
    bool simulated = false;
    bool serial = false;                      // whether gpu.info tells the board's serial number
    bool links = false;                       // whether every link is shown by itself
    bool details = false;                     // whether rows that are off by default are shown
    nvml::ProcessTable* processes = nullptr;  // who processes are; null: nobody knows
    EventQueue* ended = nullptr;              // who is told of processes that left; null: nobody
  };

  explicit GpuSeries(Options options)
      : options_(options),
        board_({options.serial, options.details}),
        links_(options.links),
        parts_(options.details),
        processes_(options.processes, options.ended) {}

  // Ends all series of this GPU: its identity changed, or it is gone.
  void Retire(SeriesTable& table);
  // `all`: the GPUs of the machine, for the paths between them.
  void Update(const nvml::Gpu& gpu, const FieldMaxAge& max_age, Instant now, FrameWriter& out,
              std::span<const nvml::Gpu> all = {});
  // Null until the GPU has been opened.
  const EntityRef& entity() const noexcept { return entity_; }

 private:
  struct Rate {
    Series series;
    int64_t raw = 0, at_ns = 0;
  };

  void Declare(const nvml::Gpu& gpu, SeriesTable& table);
  void UpdateState(const nvml::Gpu& gpu, Instant now, FrameWriter& out);
  void UpdateFields(const nvml::Gpu& gpu, FrameWriter& out);
  void UpdateRates(const nvml::Gpu& gpu, FrameWriter& out);
  void UpdateRate(const RateRow& row, Rate& rate, const nvml::Gpu& gpu, FrameWriter& out);
  void UpdateShares(const nvml::Gpu& gpu, FrameWriter& out);
  void UpdateThrottling(const nvml::Gpu& gpu, FrameWriter& out);
  void UpdateRemapping(const nvml::Gpu& gpu, FrameWriter& out);
  void UpdateLinks(const nvml::Gpu& gpu, FrameWriter& out);
  void UpdateProcesses(const nvml::Gpu& gpu, FrameWriter& out);
  // A rate of the same name by GPM, for where there is no counter; null when there is none, either.
  const nvml::PartValue* GpmRate(const nvml::Gpu& gpu, nvml::Field counter, FrameWriter& out) const;

  // The reading when it is good and young enough; null otherwise. Makes `out` date it.
  const nvml::FieldReading* Fresh(const nvml::Gpu& gpu, nvml::Field field, FrameWriter& out) const;
  void SetFrom(const nvml::FieldReading& reading, double per, Series series, FrameWriter& out) const;

  Options options_;
  EntityRef entity_;
  uint32_t identity_version_ = 0;
  Instant now_;
  FieldMaxAge max_age_;

  std::array<ReadingSeries, std::size(kFieldRows)> fields_;
  BoardSeries board_;
  LinkSeries links_;
  std::array<Rate, std::size(kRateRows)> rates_;
  std::array<Series, std::size(kThrottleBits)> throttle_;
  std::array<Series, 8> states_;
  Series info_, sample_age_, throttle_mask_, clock_idle_, power_share_, memory_percent_;
  ReadingSeries remapped_correctable_, remapped_uncorrectable_;
  Series links_active_, links_inactive_;
  PartSeries parts_;
  ProcessSeries processes_;
};

}  // namespace gpulens
