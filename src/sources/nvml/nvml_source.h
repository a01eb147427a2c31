// NvmlSource: the agent's side of the NVML reader process. A driver::DriverSource whose devices are GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reader/source.h"
#include "sources/nvml/gpu_vendor_state.h"

namespace gpulens::nvml {

using driver::DriverChange;
using driver::DriverState;
using driver::Fault;
using driver::StartReason;

struct SourceOptions : driver::SourceOptions {
  SourceOptions() { arguments = {"reader", "nvml"}; }
  uint32_t details = kDetailSamples;    // Details: what is read beyond the usual.
  uint64_t event_types = kUsualEvents;  // Of EventType; those that a GPU does not support never come.
};

// As driver::DriverSource in everything.
class NvmlSource final : public driver::DriverSource {
 public:
  explicit NvmlSource(const SourceOptions& options) : NvmlSource(options, new GpuVendorState) {}

  // All GPUs that were ever seen, by index. Their number and their facts change only in Poll.
  std::span<const Gpu> gpus() const noexcept { return vendor_state_.gpus(); }
  // See GpuVendorState.
  void TakeEvents(std::vector<DeviceEvent>& out) { vendor_state_.TakeEvents(out); }
  uint64_t events() const noexcept { return vendor_state_.events(); }

 private:
  NvmlSource(const SourceOptions& options, GpuVendorState* vendor_state);

  GpuVendorState& vendor_state_;  // The source's.
};

}  // namespace gpulens::nvml
