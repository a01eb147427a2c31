// Context of the series of one GPU in one run, and the series of its board and links that need more than a
// row of metric_rows.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame_writer.h"
#include "pipeline/reader_series.h"
#include "plugins/collectors/nvidia/metric_rows.h"
#include "sources/nvml/nvml_source.h"
#include "sources/pci_aer/pci_aer.h"

namespace gpulens::nvidia {

// A GPU in one run of the collector: its readings, their maximum ages, and conversions of readings to values.
// Valid for this run.
struct GpuRun {
  const nvml::Gpu& gpu;
  const EntityRef& entity;
  const FieldMaxAge& max_age;
  Instant now;
  FrameWriter& out;
  std::span<const nvml::Gpu> all = {};  // the GPUs of the machine, for paths between them

  SeriesTable& table() const noexcept { return out.table(); }
  // Whether the GPU answered within the last interval.
  bool live() const noexcept {
    return gpu.last_read_boot_ns != 0 && now.boot_ns - gpu.last_read_boot_ns <= max_age.ns[0];
  }
  // Returns a good and fresh reading, else null. Sets the time of the next values of `out`. A static reading
  // is fresh as long as the GPU answers.
  const nvml::FieldReading* Fresh(nvml::Field field) const;
  const nvml::FieldReading* Fresh(const nvml::FieldReading& reading, nvml::FieldTier tier) const;
  const nvml::SliceValue* Fresh(const nvml::SliceValue& value, nvml::FieldTier tier) const;
  // Like Fresh, for readings from which values are derived: null for a sentinel of the metric, too.
  const nvml::FieldReading* Valid(nvml::Field field, const MetricDesc& metric) const;
};

// A series and its last reading. Each reading is validated once, however often it is repeated: else
// one glitch of a slow counter would confirm itself.
struct ReadingSeries {
  Series series;
  int64_t at_ns = 0;
  bool good = false;

  explicit operator bool() const noexcept { return static_cast<bool>(series); }
  // `per`: of the library's unit in one of the metric's.
  void Write(const GpuRun& run, const nvml::FieldReading& reading, double per = 1);
  // Returns whether the reading is newer than the last one, and remembers it.
  bool IsNew(const nvml::FieldReading& reading) noexcept;
};

// Rate of a counter, from two readings.
struct RateSeries {
  Series series;
  int64_t raw = 0, at_ns = 0;

  // `declare` declares the series at the second reading. A counter that fell has restarted or wrapped: no
  // rate then.
  template <class Declare>
  void Update(FrameWriter& out, int64_t now_raw, int64_t boot_ns, Declare declare) {
    const bool first = at_ns == 0;
    if (!first && !series) series = declare();
    if (!first && boot_ns == at_ns) return out.Keep(series);
    if (!first && now_raw >= raw)
      out.Set(series, static_cast<double>(now_raw - raw) / (static_cast<double>(boot_ns - at_ns) * 1e-9));
    raw = now_raw;
    at_ns = boot_ns;
  }
};

// Series of one GPU's board: states, facts, memory errors by location, power of slices, throttle events and
// the fabric. Used inside the collector's run. Declares a series when the library first answers for it; the
// series end with the GPU's entity, which is not owned here.
class BoardSeries {
 public:
  struct Options {
    bool serial = false;   // whether serial numbers are exported
    bool details = false;  // whether rows that are off by default are exported
  };
  explicit BoardSeries(Options options) : options_(options) {}
  void Update(const GpuRun& run);

 private:
  using States = std::array<Series, std::tuple_size_v<decltype(StateRow::states)>>;

  void DeclareFacts(const GpuRun& run);
  void DeclarePlatform(const GpuRun& run);
  void DeclareTopology(const GpuRun& run);
  void UpdateEccLocations(const GpuRun& run);
  static void UpdateStates(const GpuRun& run, const StateRow& row, ReadingSeries& seen, States& series);
  void UpdatePower(const GpuRun& run);
  static void UpdatePowerOf(const GpuRun& run, std::array<nvml::Field, 2> fields, bool contained,
                            ReadingSeries& series);
  void UpdateThrottleEvents(const GpuRun& run);
  void UpdateFabric(const GpuRun& run);
  void UpdateBandwidth(const GpuRun& run);
  void UpdateDetails(const GpuRun& run);

  Options options_;
  bool facts_declared_ = false, topology_declared_ = false;
  std::vector<Series> facts_;  // always 1
  std::array<ReadingSeries, kEccLocationFields> ecc_locations_;
  std::array<ReadingSeries, std::size(kStateRows)> states_seen_;
  std::array<States, std::size(kStateRows)> states_;
  ReadingSeries power_average_, memory_power_, module_power_, throttle_seen_;
  std::array<Series, std::size(kThrottleBits)> throttle_events_;
  std::array<uint64_t, std::size(kThrottleBits)> throttle_counts_{};
  uint64_t throttle_mask_ = 0;
  std::array<Series, std::size(kFabricConditions)> conditions_;
  Series fabric_info_, bandwidth_max_, bar1_free_;
  std::array<int64_t, 3> fabric_{};  // clique and cluster that fabric_info_ shows
  RateSeries interconnect_;
};

// Series of one GPU's links: errors over all NVLink and C2C links, and single links where configured or where
// they have errors. Used inside the collector's run. The series end with the GPU's entity, which is not owned
// here.
class LinkSeries {
 public:
  // `each`: export every link; else only links with errors, and only their errors.
  explicit LinkSeries(bool each) : each_(each) {}

  void Update(const GpuRun& run);
  // Sets the numbers of active and inactive links of a type; declares their series first.
  static void SetLinkCounts(const GpuRun& run, std::string_view type, int64_t active, int64_t all,
                            Series& active_series, Series& inactive_series);

 private:
  static constexpr size_t kTotals = 17;
  struct Link {
    std::array<ReadingSeries, nvml::kLinkFieldCount> fields;
    Series info, fec;
    std::array<int64_t, 4> remote{};  // what `info` shows
    bool errors = false;              // had an error: all its error series are declared
  };

  void UpdateTotals(const GpuRun& run);
  void UpdateC2c(const GpuRun& run);
  void UpdateErrors(const GpuRun& run, size_t number, Link& link);
  void UpdateFields(const GpuRun& run, size_t number, Link& link);
  void UpdateInfo(const GpuRun& run, size_t number, Link& link);
  void UpdateFec(const GpuRun& run, size_t number, Link& link);

  bool each_;
  std::array<Series, kTotals> totals_;
  Series c2c_active_, c2c_inactive_;
  std::vector<Link> links_;  // by number - 1
};

// PCIe error reports of one GPU as the kernel counts them, without the GPU's driver. Used inside the
// collector's run; reads once a minute, from the kernel's memory.
class AerSeries {
 public:
  // `entity` of the GPU; null: not known yet.
  void Update(const std::string& root, const nvml::Gpu& gpu, const EntityRef& entity, FrameWriter& out);

 private:
  static constexpr int64_t kPeriodNs = 60'000'000'000;
  EntityRef entity_;
  std::unique_ptr<pci_aer::AerDevice> device_;
  std::array<Series, pci_aer::kSeverities> series_;
  int64_t read_ns_ = 0;
};

}  // namespace gpulens::nvidia
