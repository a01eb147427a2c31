#include "agent/check/check_table.h"

#include <algorithm>

#include "agent/check/check_special.h"
#include "catalog/gpu/errors.h"
#include "catalog/gpu/health.h"
#include "catalog/gpu/links.h"
#include "catalog/gpu/readings.h"
#include "catalog/gpu/score.h"

namespace gpulens {
namespace {

constexpr double kMib = 1 << 20;
constexpr std::string_view kType = "gpu.ecc.error_type", kCount = "gpu.ecc.count_type",
                           kLink = "gpu.interconnect.type", kLinkError = "gpu.interconnect.error_type",
                           kCause = "gpu.throttle.cause";

constexpr CheckInput kStates[] = {{&kGpuState}};
constexpr CheckInput kProcesses[] = {{&kGpuProcesses}};
constexpr CheckInput kGraphicsClock[] = {{&kGpuClockFrequency, "gpu.clock.type", "graphics"},
                                         {&kGpuUtilization}};
constexpr CheckInput kMemoryClock[] = {{&kGpuClockFrequency, "gpu.clock.type", "memory"}, {&kGpuUtilization}};
constexpr CheckInput kTemperature[] = {{&kGpuTemperature, "gpu.temperature.sensor", "edge"}};
constexpr CheckInput kUsed[] = {{&kGpuMemoryUsed}};
constexpr CheckInput kRetired[] = {{&kGpuRetiredPages, kType, "correctable"},
                                   {&kGpuRetiredPages, kType, "uncorrectable"},
                                   {&kGpuRetiredPagesPending}};
constexpr CheckInput kUncorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "uncorrectable"}};
constexpr CheckInput kCorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "correctable"}};
constexpr CheckInput kInfo[] = {{&kGpuInfo}};
constexpr CheckInput kRemap[] = {{&kGpuRowRemapResetPending}, {&kGpuRowRemapFailed}};
constexpr CheckInput kRemapPending[] = {{&kGpuRowRemapResetPending}};
constexpr CheckInput kRemapFailed[] = {{&kGpuRowRemapFailed}};
constexpr CheckInput kLinkErrors[] = {{&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "crc_data"},
                                      {&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "crc_flit"},
                                      {&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "recovery"},
                                      {&kGpuInterconnectErrors, kLink, "nvlink", kLinkError, "replay"}};
constexpr CheckInput kLinksDown[] = {
    {&kGpuInterconnectLinks, kLink, "nvlink", "gpu.interconnect.state", "inactive"}};
constexpr CheckInput kXids[] = {{&kGpuXidErrors}, {&kGpuXidCodeErrors}};
constexpr CheckInput kWidth[] = {{&kGpuPcieLinkWidthMax}, {&kGpuPcieLinkWidthCurrent}};
constexpr CheckInput kGeneration[] = {{&kGpuPcieLinkGenMax}, {&kGpuPcieLinkGenCurrent}, {&kGpuUtilization}};
constexpr CheckInput kReplays[] = {{&kGpuPcieReplayCount}};
constexpr CheckInput kPower[] = {{&kGpuPowerUtilization}};
constexpr CheckInput kThrottle[] = {{&kGpuThrottleReason, kCause, "temp_hardware"},
                                    {&kGpuThrottleReason, kCause, "power_brake"},
                                    {&kGpuThrottleReason, kCause, "temp_software"}};
constexpr CheckInput kScore[] = {{&kGpuHealthScore}};

// The thirteen of check-nvidia-smi under their names there, then its neighbours, then ours.
constexpr CheckSpec kChecks[] = {
    {"gpu_num",
     "as many GPUs answer as are known, or as --critical says",
     kStates,
     {},
     {},
     "",
     1,
     CheckSide::kBelow,
     &CheckGpuNum},
    {"running_procs", "no process is on a GPU", kProcesses, {}, 0, "processes"},
    {"running_procs_and_kill",
     "as running_procs, looked at three times; gpulens kills nothing",
     kProcesses,
     {},
     0,
     "processes",
     1,
     CheckSide::kAbove,
     nullptr,
     true},
    {"clock_freq",
     "graphics clock under load",
     kGraphicsClock,
     {},
     1155,
     "MHz",
     1,
     CheckSide::kBelow,
     &CheckClock},
    {"clock_freq_memory",
     "memory clock under load",
     kMemoryClock,
     {},
     1593,
     "MHz",
     1,
     CheckSide::kBelow,
     &CheckClock},
    {"gpu_temperature", "temperature of the die", kTemperature, 85, 90, "°C"},
    {"gpu_mem_usage", "memory in use", kUsed, {}, 15, "MiB", kMib},
    {"gpu_retired_pages",
     "pages taken out of use (before Ampere), of either kind; none waits for a reboot",
     kRetired,
     {},
     10,
     "pages",
     1,
     CheckSide::kAbove,
     &CheckRetiredPages},
    {"ecc_uncorrected_volatile_total",
     "uncorrected memory errors since the driver was loaded",
     kUncorrected,
     {},
     0,
     "errors"},
    {"ecc_corrected_volatile_total",
     "corrected memory errors since the driver was loaded",
     kCorrected,
     {},
     50'000'000,
     "errors"},
    {"vbios_mismatch",
     "all GPUs have one VBIOS, or that of --expect",
     kInfo,
     {},
     {},
     "",
     1,
     CheckSide::kAbove,
     &CheckVbios},
    {"row_remap", "no row replacement waits or has failed", kRemap, {}, 0, "rows"},
    {"row_remap_pending", "no row replacement waits for a reset", kRemapPending, {}, 0, "rows"},
    {"row_remap_failed", "no row replacement has failed", kRemapFailed, {}, 0, "rows"},
    {"nvlink_errors", "CRC, recovery and replay errors of all NVLinks", kLinkErrors, {}, 0, "errors"},
    {"nvlink_status", "NVLinks that are down", kLinksDown, {}, 0, "links"},
    {"xid",
     "XID errors since the agent first saw the GPU; application codes warn",
     kXids,
     {},
     0,
     "errors",
     1,
     CheckSide::kAbove,
     &CheckXid},
    {"pcie_width",
     "PCIe lanes fewer than GPU and slot can use",
     kWidth,
     {},
     0,
     "lanes",
     1,
     CheckSide::kAbove,
     &CheckWidth},
    {"pcie_gen",
     "PCIe generations below what GPU and slot can use, under load",
     kGeneration,
     {},
     0,
     "generations",
     1,
     CheckSide::kAbove,
     &CheckGeneration},
    {"pcie_replays", "PCIe replays since the driver was loaded", kReplays, 100, 10'000, "replays"},
    {"gpu_power", "power as a share of its limit", kPower, 1.05, 1.2, ""},
    {"gpu_throttle", "clocks held down: 1 software thermal, 2 hardware thermal or power brake", kThrottle, 0,
     1, "", 1, CheckSide::kAbove, &CheckThrottle},
    {"gpu_state",
     "every GPU answers: not lost, hung, or waiting for a reset",
     kStates,
     {},
     {},
     "",
     1,
     CheckSide::kAbove,
     &CheckState},
    {"gpu_health", "score of the fleet health analyzer", kScore, 0.8, 0.5, "", 1, CheckSide::kBelow},
};

}  // namespace

std::span<const CheckSpec> AllChecks() noexcept { return kChecks; }

const CheckSpec* FindCheck(std::string_view name) noexcept {
  for (const CheckSpec& check : kChecks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

std::span<const MetricDesc* const> AllCheckMetrics() {
  static const std::vector<const MetricDesc*> metrics = [] {
    // A GPU that has nothing else is known by its state.
    std::vector<const MetricDesc*> all = {&kGpuState, &kGpuInfo};
    for (const CheckSpec& check : kChecks) {
      for (const CheckInput& input : check.inputs) {
        if (std::find(all.begin(), all.end(), input.metric) == all.end()) all.push_back(input.metric);
      }
    }
    return all;
  }();
  return metrics;
}

}  // namespace gpulens
