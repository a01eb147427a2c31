// What NvmlSource knows of each GPU: what driver::Device has, and its processes, parts and events.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <gpulens/status.h>

#include "reader/device.h"
#include "sources/nvml/driver_protocol.h"

namespace gpulens::nvml {

using driver::FieldReading;
using GpuState = driver::DeviceState;

// Its facts: see driver/gpu_identity.h. Its links: by PartOfNvlink or PartOfC2c, less one.
struct Gpu : driver::Device {
  Gpu() { fields.resize(kFieldCount); }

  std::vector<GpuProcess> processes;
  int64_t processes_boot_ns = 0;  // 0: no list yet, or none can be had (see Field::kProcessCount).
  GpuParts parts;

  const FieldReading& operator[](Field field) const noexcept { return fields[static_cast<size_t>(field)]; }
};

// Used by one thread. Allocates only when a GPU, a part, a fact or a longer process list is new.
class GpuVendorState final : public driver::VendorState {
 public:
  GpuVendorState();

  driver::Device& Add() override { return gpus_.emplace_back(); }
  void Forget(uint32_t device) override;
  Status Take(const driver::VendorReport& report, Instant now) override;

  std::span<const Gpu> gpus() const noexcept { return gpus_; }
  // What has happened since the last call, oldest first, in place of what `out` had. A few hundred are
  // kept at most; further ones are dropped and counted.
  void TakeEvents(std::vector<DeviceEvent>& out);
  uint64_t events() const noexcept { return events_reported_; }
  uint64_t events_dropped() const noexcept { return events_dropped_; }

 private:
  void Take(Gpu& gpu, const PartList& list);
  void Take(Gpu& gpu, const PartFactsReport& report);
  void Take(Gpu& gpu, const PartReadings& report, Instant now);
  void Take(const EventList& list);

  std::vector<Gpu> gpus_;
  std::vector<DeviceEvent> events_;
  uint64_t events_reported_ = 0, events_dropped_ = 0;
};

}  // namespace gpulens::nvml
