// Series of one AMD GPU, or of one partition of it, from the readings of its driver.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <map>

#include "core/frame_writer.h"
#include "pipeline/reader_series.h"
#include "plugins/collectors/amd/metric_rows.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"
#include "reader/source.h"

namespace gpulens::amd {

// Used inside the collector's run. Declares what the driver supports when it first answers, never before.
class AmdSeries {
 public:
  struct Options {
    bool simulated = false;
    bool serial = false;   // whether gpu.info has the board's serial number
    bool engines = false;  // single video engines and memory stacks
  };

  explicit AmdSeries(Options options) : options_(options) {}

  // Ends all series: the identity changed, or the device is gone.
  void Retire(SeriesTable& table);
  // `board`: the entity of the whole GPU, for a partition other than the first; null: not known yet.
  void Update(const reader::DeviceEntry& device, const EntityRef& board, const FieldMaxAge& max_age,
              FrameWriter& out);

  // The entity of the whole GPU; null until it is known, and for a partition other than the first.
  const EntityRef& board() const noexcept { return board_; }
  // The entity of the device's events: the GPU, or the partition. May be null.
  const EntityRef& home() const noexcept { return first_ ? board_ : partition_; }
  bool first() const noexcept { return first_; }

 private:
  struct Rate {
    Series series;
    int64_t raw = 0, at_ns = 0;
  };
  struct Throttle {
    Series reason, share;
    int64_t raw = 0;
  };
  struct Process {
    Series used, peak, host, graphics, encode, occupancy;
    EntityRef entity;
    uint64_t peak_bytes = 0, seen = 0;
  };
  using Reading = reader::FieldReading;
  static constexpr size_t kLinks = amdsmi::CopiesOf(Field::kXgmiRead);

  void Declare(const reader::DeviceEntry& device, const EntityRef& board, SeriesTable& table);
  void DeclareBoard(const reader::DeviceEntry& device, SeriesTable& table);
  Series DeclareRow(const MetricRow& row, unsigned copy, SeriesTable& table) const;
  void UpdateState(FrameWriter& out);
  void UpdateRows(FrameWriter& out);
  bool Skips(const MetricRow& row, unsigned copy) const;
  void UpdateMemory(FrameWriter& out);
  void UpdatePower(FrameWriter& out);
  void UpdateFan(FrameWriter& out);
  void UpdateLinks(FrameWriter& out);
  void UpdateRate(Field field, unsigned copy, std::string_view direction, FrameWriter& out);
  void UpdateThrottling(FrameWriter& out);
  void UpdateResidencies(const Reading& cycles, FrameWriter& out);
  void UpdateHealth(FrameWriter& out);
  void UpdateModes(FrameWriter& out);
  void UpdateProcesses(FrameWriter& out);
  void UpdateProcess(const reader::ProcessUse& use, FrameWriter& out);
  void DeclareProcess(const reader::ProcessUse& use, Process& process, SeriesTable& table) const;
  bool ErrorsAgree(FrameWriter& out) const;

  const Reading& At(Field field, unsigned copy = 0) const noexcept {
    return device_->fields[amdsmi::SlotOf(field, copy)];
  }
  // Returns a good and fresh reading, else null. Sets the time of the next values of `out`.
  const Reading* Fresh(Field field, FrameWriter& out) const { return Fresh(field, 0, out); }
  const Reading* Fresh(Field field, unsigned copy, FrameWriter& out) const;
  // Like Fresh, for readings from which values are derived: null for a sentinel of the metric, too.
  const Reading* Valid(Field field, const MetricDesc& metric, FrameWriter& out) const;

  Options options_;
  EntityRef board_, partition_;  // The same when the GPU is not divided.
  uint32_t identity_version_ = 0;
  bool first_ = true;
  double compute_units_ = 0;
  uint64_t update_ = 0;

  // Arguments of the current Update.
  const reader::DeviceEntry* device_ = nullptr;
  const FieldMaxAge* max_age_ = nullptr;
  Instant now_;

  std::array<Series, kRowSeries> rows_;
  std::array<std::array<Rate, kLinks>, 2> rates_;
  std::array<Throttle, std::size(kThrottles)> throttles_;
  int64_t cycles_ = 0, cycles_at_ns_ = 0;
  std::array<Series, 8> states_;
  std::array<Series, std::size(amdsmi::kPerformanceLevels)> levels_;
  Series info_, sample_age_, used_, free_, percent_, power_, average_, power_share_, fan_, ecc_mode_,
      pages_pending_, links_active_, links_inactive_, partition_info_, process_count_;
  int64_t partition_mode_ = -1;
  std::map<uint32_t, Process> processes_;  // by pid
};

// Reports what happened to AMD GPUs and to their reader process, once for each change. Used inside the
// collector's run. Allocates only when something happened.
class AmdEvents {
 public:
  explicit AmdEvents(Env& env) noexcept : env_(env) {}

  void OnReader(const reader::ReaderState& state, Instant now);
  void OnDevice(const reader::DeviceEntry& device, const EntityRef& entity, Instant now);

 private:
  void Report(std::string_view name, const EntityRef& entity, AttributeSet attributes, std::string body,
              Instant now, EventSeverity severity = EventSeverity::kUnset) const;

  Env& env_;
  uint64_t starts_ = 0;
  reader::ReaderFault fault_ = reader::ReaderFault::kNone;
  std::vector<reader::DeviceState> states_;  // by index, as last reported
  std::vector<uint32_t> hangs_;
};

}  // namespace gpulens::amd
