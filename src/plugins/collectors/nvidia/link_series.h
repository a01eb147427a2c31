// The series of one GPU's links: errors over all links always, and each link by itself where asked for
// or where it has errors.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plugins/collectors/nvidia/gpu_run.h"
#include "sources/nvml/nvml_link_fields.h"

namespace gpulens {

// Used inside the collector's run. The series end with the GPU's entity, which is not owned here.
class LinkSeries {
 public:
  // `each`: whether every link is shown; else only those with errors, and only their errors.
  explicit LinkSeries(bool each) : each_(each) {}

  void Update(const GpuRun& run);

 private:
  static constexpr size_t kTotals = 17;
  struct Link {
    std::array<ReadingSeries, nvml::kLinkFieldCount> fields;
    Series info, fec;
    std::array<int64_t, 4> remote{};  // What `info` shows.
    bool errors = false;              // Had one: all its error series are declared.
  };

  void UpdateTotals(const GpuRun& run);
  void UpdateC2c(const GpuRun& run);
  void UpdateErrors(const GpuRun& run, size_t part, Link& link);
  void UpdateFields(const GpuRun& run, size_t part, Link& link);
  void UpdateInfo(const GpuRun& run, size_t part, Link& link);
  void UpdateFec(const GpuRun& run, size_t part, Link& link);

  bool each_;
  std::array<Series, kTotals> totals_;
  Series c2c_active_, c2c_inactive_;
  std::vector<Link> links_;  // By part - 1.
};

}  // namespace gpulens
