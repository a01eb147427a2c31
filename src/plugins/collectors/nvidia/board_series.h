// The series of one GPU for what its board tells beside the common readings, from the tables of
// board_rows.h.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "plugins/collectors/nvidia/board_rows.h"
#include "plugins/collectors/nvidia/board_states.h"
#include "plugins/collectors/nvidia/gpu_run.h"

namespace gpulens {

// Used inside the collector's run. Declares what the driver supports when it first answers; the series
// end with the GPU's entity, which is not owned here.
class BoardSeries {
 public:
  struct Options {
    bool serial = false;   // Whether serial numbers are told.
    bool details = false;  // The rows that are off by default.
  };

  explicit BoardSeries(Options options) : options_(options) {}

  void Update(const GpuRun& run);

 private:
  using States = std::array<Series, std::tuple_size_v<decltype(StateRow::states)>>;
  struct Rate {
    Series series;
    int64_t raw = 0, at_ns = 0;
  };

  void DeclareFacts(const GpuRun& run);
  void DeclarePlatform(const GpuRun& run);
  void DeclareTopology(const GpuRun& run);
  void UpdateRow(const GpuRun& run, const FieldRow& row, ReadingSeries& series);
  void UpdatePlaces(const GpuRun& run);
  void UpdateStates(const GpuRun& run, const StateRow& row, ReadingSeries& seen, States& series);
  void UpdatePower(const GpuRun& run);
  void UpdatePart(const GpuRun& run, std::array<nvml::Field, 2> fields, bool contained,
                  ReadingSeries& series);
  void UpdateThrottleEvents(const GpuRun& run);
  void UpdateFabric(const GpuRun& run);
  void UpdateBandwidth(const GpuRun& run);
  void UpdateDetails(const GpuRun& run);

  Options options_;
  bool facts_declared_ = false, topology_declared_ = false;
  std::vector<Series> facts_;  // Always 1.
  std::array<ReadingSeries, std::size(kBoardRows)> rows_;
  std::array<ReadingSeries, std::size(kDetailRows)> detail_rows_;
  std::array<ReadingSeries, kEccPlaceFields> places_;
  std::array<ReadingSeries, std::size(kStateRows)> states_seen_;
  std::array<States, std::size(kStateRows)> states_;
  ReadingSeries power_average_, memory_power_, module_power_, throttle_seen_;
  std::array<Series, std::size(kThrottleBits)> throttle_events_;
  std::array<uint64_t, std::size(kThrottleBits)> throttle_counts_{};
  uint64_t throttle_mask_ = 0;
  std::array<ReadingSeries, std::size(kFabricConditions)> conditions_;
  Series fabric_info_, bandwidth_max_, bar1_free_;
  std::array<int64_t, 3> fabric_{};  // Clique, cluster: what fabric_info_ shows.
  Rate interconnect_;
};

}  // namespace gpulens
