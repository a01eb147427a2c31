// The series of one GPU's links: errors over all NVLink and C2C links, each link by itself where configured
// or where it has errors, and the error reports of its PCIe port.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/collectors/nvidia/gpu_run.h"
#include "plugins/collectors/nvidia/metric_rows.h"
#include "sources/pci_aer/pci_aer.h"

namespace gpulens::nvidia {

// Used inside the collector's run. The series end with the GPU's entity, which is not owned here.
class LinkSeries {
 public:
  // `each`: whether every link is shown; else only those with errors, and only their errors.
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
    bool errors = false;              // had one: all its error series are declared
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
  std::unique_ptr<pci_aer::Device> device_;
  std::array<Series, pci_aer::kSeverities> series_;
  int64_t read_ns_ = 0;
};

}  // namespace gpulens::nvidia
