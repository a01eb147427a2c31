// The PCIe error reports of one GPU, as the kernel counts them: beside what the GPU itself tells, and without
// its driver.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/pci_address.h"
#include "catalog/gpu.h"
#include "core/frame_writer.h"
#include "sources/nvml/nvml_source.h"
#include "sources/pci_aer/pci_aer.h"

namespace gpulens {

// Used inside the collector's run. Reads every minute; the kernel has the counts in memory and asks no
// device.
class AerSeries {
 public:
  static constexpr int64_t kPeriodNs = 60'000'000'000;

  // `entity` of the GPU; null: not known yet.
  void Update(const std::string& root, const nvml::Gpu& gpu, const EntityRef& entity, FrameWriter& out) {
    if (entity != entity_) *this = AerSeries();
    if (!entity) return;
    if (!entity_) Begin(root, gpu, entity);
    if (!device_) return;
    int64_t now = out.begun_at().boot_ns;
    if (read_ns_ != 0 && now - read_ns_ < kPeriodNs) {
      for (Series series : series_) {
        if (series) out.Keep(series);
      }
      return;
    }
    read_ns_ = now;
    auto counts = device_->Read();
    for (size_t i = 0; i < counts.size(); ++i) {
      if (!counts[i]) continue;
      if (!series_[i])
        series_[i] = out.table().Declare(
            kGpuPcieAerErrors, entity,
            {{"gpu.pcie.aer.severity", pci_aer::SeverityName(static_cast<pci_aer::Severity>(i))}});
      out.Set(series_[i], *counts[i]);
    }
  }

 private:
  void Begin(const std::string& root, const nvml::Gpu& gpu, const EntityRef& entity) {
    entity_ = entity;
    if (auto address = ParsePciAddress(gpu.Fact("pci_bus_id")))
      device_ = std::make_unique<pci_aer::Device>(root, address->ToString());
  }

  EntityRef entity_;
  std::unique_ptr<pci_aer::Device> device_;
  std::array<Series, pci_aer::kSeverities> series_;
  int64_t read_ns_ = 0;
};

}  // namespace gpulens
