#include "cli/check/check_table.h"

#include <algorithm>

#include "catalog/gpu.h"
#include "cli/check/check_special.h"

namespace gpulens {
namespace {

constexpr double kMib = 1 << 20;
constexpr std::string_view kType = "gpu.ecc.error_type", kCount = "gpu.ecc.count_type",
                           kCause = "gpu.throttle.cause", kClock = "gpu.clock.type",
                           kSensor = "gpu.temperature.sensor", kLimit = "gpu.temperature.limit_type";

// First what is judged, then what shows that a GPU that says "ok" can be read.
constexpr CheckInput kStates[] = {{&kGpuState},        {&kGpuHealthCondition}, {&kGpuPowerDraw},
                                  {&kGpuPowerInstant}, {&kGpuTemperature},     {&kGpuUtilization},
                                  {&kGpuMemoryUsed},   {&kGpuClockFrequency}};
constexpr CheckInput kAnswering[] = {{&kGpuState}};
constexpr CheckInput kProcesses[] = {{&kGpuProcesses}};
constexpr CheckInput kGraphicsClock[] = {
    {&kGpuClockFrequency, kClock, "graphics"}, {&kGpuUtilization}, {&kGpuClockMax, kClock, "graphics"}};
constexpr CheckInput kMemoryClock[] = {
    {&kGpuClockFrequency, kClock, "memory"}, {&kGpuUtilization}, {&kGpuClockMax, kClock, "memory"}};
// The sensor, and the limits that the board states for it, in order of preference.
constexpr CheckInput kDieTemperature[] = {{&kGpuTemperature, kSensor, "edge"},
                                          {&kGpuTemperature, kSensor, "hotspot"},
                                          {&kGpuTemperatureLimit, kSensor, "hotspot", kLimit, "slowdown"}};
constexpr CheckInput kMemoryTemperature[] = {
    {&kGpuTemperature, kSensor, "memory"},
    {&kGpuTemperatureLimit, kSensor, "memory", kLimit, "max_operating"},
    {&kGpuTemperatureLimit, kSensor, "memory", kLimit, "slowdown"}};
constexpr CheckInput kMargin[] = {{&kGpuTemperatureMargin},
                                  {&kGpuTemperatureMarginLimit, kSensor, "edge", kLimit, "slowdown"}};
constexpr CheckInput kUsed[] = {{&kGpuMemoryUsed}};
constexpr CheckInput kRetired[] = {{&kGpuRetiredPages, kType, "correctable"},
                                   {&kGpuRetiredPages, kType, "uncorrectable"},
                                   {&kGpuRetiredPagesPending}};
constexpr CheckInput kUncorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "uncorrectable"}};
constexpr CheckInput kCorrected[] = {{&kGpuEccErrors, kCount, "volatile", kType, "correctable"}};
constexpr CheckInput kEccMode[] = {{&kGpuEccMode}};
constexpr CheckInput kSram[] = {{&kGpuEccSramThresholdExceeded}};
constexpr CheckInput kUnrepairable[] = {{&kGpuMemoryUnrepairable}};
constexpr CheckInput kInfo[] = {{&kGpuInfo}};
constexpr CheckInput kRemap[] = {{&kGpuRowRemapResetPending}, {&kGpuRowRemapFailed}};
constexpr CheckInput kRemapPending[] = {{&kGpuRowRemapResetPending}};
constexpr CheckInput kRemapFailed[] = {{&kGpuRowRemapFailed}};
constexpr CheckInput kLinkErrors[] = {{&kGpuInterconnectErrors}};
constexpr CheckInput kLinksDown[] = {{&kGpuInterconnectLinks, "gpu.interconnect.state", "inactive"}};
constexpr CheckInput kFabric[] = {{&kGpuFabricState}, {&kGpuFabricStatus}, {&kGpuFabricDegraded}};
constexpr CheckInput kInforom[] = {{&kGpuInforomValid}};
constexpr CheckInput kRecovery[] = {{&kGpuRecoveryAction}};
constexpr CheckInput kPersistence[] = {{&kGpuPersistenceEnabled}};
constexpr CheckInput kXids[] = {{&kGpuXidErrors}, {&kGpuXidRecent}, {&kGpuXidCodeErrors}};
constexpr CheckInput kWidth[] = {{&kGpuPcieLinkWidthMax}, {&kGpuPcieLinkWidthCurrent}};
constexpr CheckInput kGeneration[] = {{&kGpuPcieLinkGenMax}, {&kGpuPcieLinkGenCurrent}, {&kGpuUtilization}};
constexpr CheckInput kReplays[] = {{&kGpuPcieReplayCount}};
constexpr CheckInput kAer[] = {{&kGpuPcieAerErrors, "gpu.pcie.aer.severity", "fatal"},
                               {&kGpuPcieAerErrors, "gpu.pcie.aer.severity", "nonfatal"}};
constexpr CheckInput kPower[] = {{&kGpuPowerUtilization}};
constexpr CheckInput kThrottle[] = {{&kGpuThrottleReason, kCause, "temp_hardware"},
                                    {&kGpuThrottleReason, kCause, "power_brake"},
                                    {&kGpuThrottleReason, kCause, "temp_software"}};
constexpr CheckInput kPowerSource[] = {{&kGpuPowerSource}};
constexpr CheckInput kMismatch[] = {{&kGpuDriverMismatch}};
constexpr CheckInput kSxids[] = {{&kNvswitchSxidErrors, "nvswitch.sxid.severity", "fatal"},
                                 {&kNvswitchSxidErrors, "nvswitch.sxid.severity", "non_fatal"}};
constexpr CheckInput kHealth[] = {{&kGpuHealthScore}, {&kGpuHealthState}, {&kGpuHealthCondition}};

// The thirteen of check-nvidia-smi under their names there, then its neighbours, then ours. Units say what
// the number counts: "links down", not "links".
constexpr CheckSpec kChecks[] = {
    {.name = "gpu_num",
     .help = "all known or expected GPUs answer, or at least as many as --critical",
     .inputs = kAnswering,
     .side = CheckSide::kBelow,
     .evaluate = &CheckGpuNum},
    {.name = "running_procs",
     .help = "no process is on a GPU",
     .inputs = kProcesses,
     .critical = 0,
     .unit = "processes",
     .for_idle_nodes = true},
    {.name = "running_procs_and_kill",
     .help = "as running_procs, checked three times; gpulens kills no process",
     .inputs = kProcesses,
     .critical = 0,
     .unit = "processes",
     .repeats = true,
     .for_idle_nodes = true},
    {.name = "clock_freq",
     .help = "graphics clock under load, at least 58 % of the board's highest, or --critical MHz",
     .inputs = kGraphicsClock,
     .unit = "MHz",
     .side = CheckSide::kBelow,
     .evaluate = &CheckClock,
     .optional = true},
    {.name = "clock_freq_memory",
     .help = "memory clock under load, at least 58 % of the board's highest, or --critical MHz",
     .inputs = kMemoryClock,
     .unit = "MHz",
     .side = CheckSide::kBelow,
     .evaluate = &CheckClock,
     .optional = true},
    {.name = "gpu_temperature",
     .help = "temperature of the die; where only a hot spot is measured, 5 below and at its slowdown limit",
     .inputs = kDieTemperature,
     .warning = 85,
     .critical = 90,
     .unit = "°C",
     .evaluate = &CheckDieTemperature},
    {.name = "gpu_memory_temperature",
     .help =
         "temperature of the device memory; by default 5 below and at the limit that the board states, or 95",
     .inputs = kMemoryTemperature,
     .unit = "°C",
     .evaluate = &CheckMemoryTemperature,
     .optional = true},
    {.name = "gpu_temperature_margin",
     .help = "degrees left until the hardware slows the GPU down",
     .inputs = kMargin,
     .warning = 5,
     .critical = 0,
     .unit = "degrees left",
     .side = CheckSide::kBelow,
     .evaluate = &CheckMargin,
     .optional = true},
    {.name = "gpu_mem_usage",
     .help = "memory in use",
     .inputs = kUsed,
     .critical = 15,
     .unit = "MiB",
     .per = kMib,
     .for_idle_nodes = true},
    {.name = "gpu_retired_pages",
     .help = "retired pages of either kind (before Ampere); none waits for a reboot",
     .inputs = kRetired,
     .critical = 10,
     .unit = "pages",
     .evaluate = &CheckRetiredPages,
     .optional = true},
    {.name = "ecc_uncorrected_volatile_total",
     .help = "uncorrected memory errors since the driver was loaded",
     .inputs = kUncorrected,
     .critical = 0,
     .unit = "errors",
     .optional = true},
    {.name = "ecc_corrected_volatile_total",
     .help = "corrected memory errors since the driver was loaded",
     .inputs = kCorrected,
     .critical = 50'000'000,
     .unit = "errors",
     .optional = true},
    {.name = "vbios_mismatch",
     .help = "all GPUs have the same VBIOS version, or that of --expect",
     .inputs = kInfo,
     .evaluate = &CheckVbios},
    {.name = "row_remap",
     .help = "no row replacement waits or has failed",
     .inputs = kRemap,
     .critical = 0,
     .unit = "faults",
     .optional = true},
    {.name = "row_remap_pending",
     .help = "no row replacement waits for a reset",
     .inputs = kRemapPending,
     .critical = 0,
     .unit = "faults",
     .optional = true},
    {.name = "row_remap_failed",
     .help = "no row replacement has failed",
     .inputs = kRemapFailed,
     .critical = 0,
     .unit = "faults",
     .optional = true},
    {.name = "nvlink_errors",
     .help = "errors of all NVLink and XGMI links; symbol and effective errors of NVLink 5 alone warn",
     .inputs = kLinkErrors,
     .critical = 0,
     .unit = "errors",
     .evaluate = &CheckLinkErrors,
     .optional = true},
    {.name = "nvlink_status",
     .help = "NVLink and XGMI links that are down",
     .inputs = kLinksDown,
     .critical = 0,
     .unit = "links down",
     .optional = true},
    {.name = "nvlink_fabric",
     .help = "the GPU is registered with the NVLink fabric, which is not degraded",
     .inputs = kFabric,
     .evaluate = &CheckFabric,
     .optional = true},
    {.name = "xid",
     .help = "XID errors of the last 24 h that were not cleared; those of applications warn",
     .inputs = kXids,
     .critical = 0,
     .unit = "errors",
     .evaluate = &CheckXid,
     .optional = true},
    {.name = "pcie_width",
     .help = "PCIe lanes fewer than GPU and slot can use",
     .inputs = kWidth,
     .critical = 0,
     .unit = "lanes missing",
     .evaluate = &CheckWidth},
    {.name = "pcie_gen",
     .help = "PCIe generations below what GPU and slot can use, under load",
     .inputs = kGeneration,
     .critical = 0,
     .unit = "generations missing",
     .evaluate = &CheckGeneration},
    {.name = "pcie_replays",
     .help = "PCIe replays since the driver was loaded",
     .inputs = kReplays,
     .warning = 100,
     .critical = 10'000,
     .unit = "replays",
     .optional = true},
    {.name = "pcie_aer",
     .help = "PCIe errors of the GPU's port that could not be corrected",
     .inputs = kAer,
     .critical = 0,
     .unit = "errors",
     .optional = true},
    {.name = "gpu_power",
     .help = "power as a share of its limit",
     .inputs = kPower,
     .warning = 1.05,
     .critical = 1.2,
     .unit = "of the power limit",
     .optional = true},
    {.name = "gpu_throttle",
     .help = "clocks held down: 1 software thermal, 2 hardware thermal or power brake",
     .inputs = kThrottle,
     .warning = 0,
     .critical = 1,
     .unit = "(0 not held down, 1 by software for heat, 2 by hardware)",
     .evaluate = &CheckThrottle,
     .optional = true},
    {.name = "ecc_mode",
     .help = "ECC is on, and stays as it is after the next reset",
     .inputs = kEccMode,
     .evaluate = &CheckEccMode,
     .optional = true},
    {.name = "sram_threshold",
     .help = "SRAM errors are below the maker's threshold for replacing the board",
     .inputs = kSram,
     .critical = 0,
     .unit = "faults",
     .optional = true},
    {.name = "memory_repair",
     .help = "memory errors can still be repaired",
     .inputs = kUnrepairable,
     .critical = 0,
     .unit = "faults",
     .optional = true},
    {.name = "inforom",
     .help = "the checksums of the board's InfoROM are right",
     .inputs = kInforom,
     .critical = 1,
     .unit = "(1 right, 0 wrong)",
     .side = CheckSide::kBelow,
     .optional = true},
    {.name = "persistence",
     .help = "the driver stays loaded without clients",
     .inputs = kPersistence,
     .warning = 1,
     .unit = "(1 on, 0 off)",
     .side = CheckSide::kBelow,
     .optional = true},
    {.name = "recovery_action",
     .help = "the driver needs no reset, reboot or drain",
     .inputs = kRecovery,
     .evaluate = &CheckRecovery,
     .optional = true},
    {.name = "gpu_power_source",
     .help = "the board is powered from the mains, by a supply that is large enough",
     .inputs = kPowerSource,
     .evaluate = &CheckPowerSource,
     .optional = true},
    {.name = "driver_mismatch",
     .help = "the library on disk is of the same version as the loaded driver",
     .inputs = kMismatch,
     .evaluate = &CheckMismatch,
     .optional = true},
    {.name = "nvswitch_sxid",
     .help = "SXid errors of NVSwitches since the agent started; those that are not fatal warn",
     .inputs = kSxids,
     .evaluate = &CheckSxid,
     .optional = true},
    {.name = "gpu_state",
     .help = "every GPU answers and can be read: not lost, hung, or waiting for a reset",
     .inputs = kStates,
     .evaluate = &CheckState},
    {.name = "gpu_health",
     .help = "word, reasons and score of the fleet health analyzer",
     .inputs = kHealth,
     .warning = 0.8,
     .critical = 0.5,
     .unit = "of 1",
     .side = CheckSide::kBelow,
     .evaluate = &CheckHealth},
};

}  // namespace

std::span<const CheckSpec> AllChecks() noexcept { return kChecks; }

const CheckSpec* FindCheck(std::string_view name) noexcept {
  for (const CheckSpec& check : kChecks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

std::vector<const CheckSpec*> FindCheckGroup(std::string_view name) {
  std::vector<const CheckSpec*> group;
  if (name != "all" && name != "in-use") return group;
  for (const CheckSpec& check : kChecks) {
    if (name == "all" || !check.for_idle_nodes) group.push_back(&check);
  }
  return group;
}

std::span<const MetricDesc* const> AllCheckMetrics() {
  static const std::vector<const MetricDesc*> metrics = [] {
    // A GPU that has nothing else is known by its state.
    std::vector<const MetricDesc*> all = {&kGpuState, &kGpuInfo, &kGpuDevicesExpected};
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
