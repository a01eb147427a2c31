// The messages of the NVML reader process beyond readings, in VendorReport of reader/protocol.h. Pure: no
// I/O here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include <gpulens/status.h>

#include "reader/protocol.h"
#include "sources/nvml/nvml_calls.h"
#include "sources/nvml/nvml_fields.h"
#include "sources/nvml/nvml_slices.h"

namespace gpulens::nvml {

using reader::DeviceReading;
using reader::FactView;
using reader::MessageEncoder;
using reader::WireArray;

inline constexpr size_t kMaxProcesses = 1024;

// VendorReport::kind.
enum class ReportKind : uint32_t { kProcesses = 1, kEvents, kSlices, kSlice, kSliceReadings, kProcessShares };

enum class ProcessType : uint32_t { kCompute, kGraphics, kMps };

struct GpuProcess {
  static constexpr uint64_t kUnknownMemory = ~uint64_t{0};
  static constexpr uint32_t kNoInstance = ~uint32_t{0};

  uint32_t pid = 0;
  ProcessType type = ProcessType::kCompute;
  uint64_t memory_used = kUnknownMemory;  // Bytes.
  uint32_t gpu_instance = kNoInstance;
  uint32_t compute_instance = kNoInstance;
};
static_assert(sizeof(GpuProcess) == 24);

// Something that happened on a GPU. `type` is the library's event type.
struct DeviceEvent {
  uint32_t entity = 0;  // The GPU's index.
  uint32_t gpu_instance = GpuProcess::kNoInstance;
  uint64_t type = 0;
  uint64_t data = 0;
  int64_t boot_ns = 0;
};
static_assert(sizeof(DeviceEvent) == 32);

// All processes of a GPU.
struct ProcessList {
  int64_t boot_ns = 0;
  WireArray<GpuProcess> processes;
};

struct EventList {
  WireArray<DeviceEvent> events;
};

// All slices of one kind that a GPU has now: what is not in the list is gone.
struct SliceList {
  SliceKind kind = SliceKind::kMig;
  uint32_t max = 0;  // MIG: how many there may be.
  WireArray<SliceKey> keys;
};

// What identifies a slice that a SliceList has named.
struct SliceFactsReport {
  SliceKey key;
  size_t fact_count = 0;
  std::array<FactView, kMaxSliceFacts> facts;
};

struct SliceReadings {
  WireArray<SliceReading> readings;
};

struct ShareList {
  int64_t boot_ns = 0;
  WireArray<ProcessShare> shares;
};

using NvmlReport =
    std::variant<ProcessList, EventList, SliceList, SliceFactsReport, SliceReadings, ShareList>;

// Every number that indexes something is in range in the result, no time is negative, and every element is of
// the report's GPU. kDataLoss names the error.
Result<NvmlReport> DecodeReport(const reader::VendorReport& report);

// The messages, in the encoder's buffer. What does not fit or is over its limit is left out.
MessageEncoder::Bytes EncodeProcesses(MessageEncoder& out, uint32_t gpu, int64_t boot_ns,
                                      std::span<const GpuProcess> processes);
MessageEncoder::Bytes EncodeEvents(MessageEncoder& out, uint32_t gpu, std::span<const DeviceEvent> events);
MessageEncoder::Bytes EncodeSlices(MessageEncoder& out, uint32_t gpu, SliceKind kind, uint32_t max,
                                   std::span<const SliceKey> keys);
MessageEncoder::Bytes EncodeSlice(MessageEncoder& out, uint32_t gpu, const SliceKey& key,
                                  std::span<const FactView> facts);
MessageEncoder::Bytes EncodeSliceReadings(MessageEncoder& out, uint32_t gpu,
                                          std::span<const SliceReading> readings);
MessageEncoder::Bytes EncodeShares(MessageEncoder& out, uint32_t gpu, int64_t boot_ns,
                                   std::span<const ProcessShare> shares);

}  // namespace gpulens::nvml
