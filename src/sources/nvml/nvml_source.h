// The agent's side of the NVML reader process: a reader::ReaderSource whose devices are GPUs with processes,
// slices and events.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <gpulens/status.h>

#include "reader/device_table.h"
#include "reader/source.h"
#include "sources/nvml/reader_protocol.h"

namespace gpulens::nvml {

using reader::FieldReading;
using GpuState = reader::DeviceState;

// Its facts: see reader/gpu_identity.h. Its links: by LinkOfNvlink or LinkOfC2c, less one.
struct Gpu : reader::DeviceEntry {
  Gpu() { fields.resize(kFieldCount); }

  std::vector<GpuProcess> processes;
  int64_t processes_boot_ns = 0;  // 0: no list yet, or none can be had (see Field::kProcessCount).
  GpuSlices slices;

  const FieldReading& operator[](Field field) const noexcept { return fields[static_cast<size_t>(field)]; }
};

// Used by one thread. Allocates only when a GPU, a slice, a fact or a longer process list is new.
class GpuVendorState final : public reader::VendorState {
 public:
  GpuVendorState();

  reader::DeviceEntry& Add() override { return gpus_.emplace_back(); }
  void Forget(uint32_t device) override;
  Status Take(const reader::VendorReport& report, Instant now) override;

  std::span<const Gpu> gpus() const noexcept { return gpus_; }
  // What has happened since the last call, oldest first, in place of what `out` had. A few hundred are
  // kept at most; further ones are dropped and counted.
  void TakeEvents(std::vector<DeviceEvent>& out);
  uint64_t events() const noexcept { return events_reported_; }
  uint64_t events_dropped() const noexcept { return events_dropped_; }

 private:
  void Take(Gpu& gpu, const SliceList& list);
  void Take(Gpu& gpu, const SliceFactsReport& report);
  void Take(Gpu& gpu, const SliceReadings& report, Instant now);
  void Take(const EventList& list, Instant now);

  std::vector<Gpu> gpus_;
  std::vector<DeviceEvent> events_;
  uint64_t events_reported_ = 0, events_dropped_ = 0;
};

// NvmlSource: the agent's side of the NVML reader process. A reader::ReaderSource whose devices are GPUs.
using reader::ReaderChange;
using reader::ReaderFault;
using reader::ReaderState;
using reader::StartReason;

struct SourceOptions : reader::SourceOptions {
  SourceOptions() { arguments = {"reader", "nvml"}; }
  uint32_t details = kDetailSamples;    // Details: what is read beyond the usual.
  uint64_t event_types = kUsualEvents;  // Of EventType; those that a GPU does not support never come.
};

// As reader::ReaderSource in everything.
class NvmlSource final : public reader::ReaderSource {
 public:
  explicit NvmlSource(const SourceOptions& options);

  // All GPUs that were ever seen, by index. Their number and their facts change only in Poll.
  std::span<const Gpu> gpus() const noexcept { return vendor_state_.gpus(); }
  // See GpuVendorState.
  void TakeEvents(std::vector<DeviceEvent>& out) { vendor_state_.TakeEvents(out); }
  uint64_t events() const noexcept { return vendor_state_.events(); }

 private:
  GpuVendorState& vendor_state_;  // The source's.
};

}  // namespace gpulens::nvml
