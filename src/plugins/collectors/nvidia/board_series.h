// The series of one GPU's board that need more than a row of metric_rows.h: states, facts, memory errors by
// location, power of slices, throttle events and the fabric.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plugins/collectors/nvidia/gpu_run.h"
#include "plugins/collectors/nvidia/metric_rows.h"

namespace gpulens::nvidia {

// Used inside the collector's run. Declares a series when the library first answers for it; the series end
// with the GPU's entity, which is not owned here.
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

}  // namespace gpulens::nvidia
