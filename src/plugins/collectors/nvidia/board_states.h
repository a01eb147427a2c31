// Fields of the driver that number a state, and the words for each number.
#pragma once

#include <array>
#include <string_view>

#include "catalog/gpu.h"
#include "sources/nvml/nvml_fields.h"

namespace gpulens {

// A field that numbers a state. A number without a name is counted as rejected, and no state holds.
struct StateRow {
  nvml::Field field;
  const MetricDesc* metric;
  std::array<std::string_view, 5> states;  // By the library's number; empty after the last.
};
inline constexpr StateRow kStateRows[] = {
    {nvml::Field::kRecoveryAction,
     &kGpuRecoveryAction,
     {"none", "reset", "reboot", "drain_p2p", "drain_and_reset"}},
    {nvml::Field::kComputeMode,
     &kGpuComputeMode,
     {"default", "exclusive_thread", "prohibited", "exclusive_process"}},
    {nvml::Field::kVirtualizationMode,
     &kGpuVirtualizationMode,
     {"none", "passthrough", "vgpu", "host_vgpu", "host_vsga"}},
    {nvml::Field::kPowerSource, &kGpuPowerSource, {"ac", "battery", "undersized"}},
    {nvml::Field::kFabricState,
     &kGpuFabricState,
     {"not_supported", "not_started", "in_progress", "completed"}},
};

// Conditions of the fabric's health mask: where each lies, how wide it is, and the number that says all is
// well; 0 says that this board does not tell.
struct FabricCondition {
  std::string_view name;
  unsigned shift, mask, well;
};
inline constexpr FabricCondition kFabricConditions[] = {
    {"bandwidth", 0, 0x3, 2},      {"route_recovery", 2, 0x3, 2}, {"route_unhealthy", 4, 0x3, 2},
    {"access_timeout", 6, 0x3, 2}, {"configuration", 8, 0xF, 1},
};

}  // namespace gpulens
