// The hw.* names of OpenTelemetry's semantic conventions, version 1.44 (all of them in development
// there), as its translator spells them for Prometheus.
//
// A GPU is hw.id = its UUID; a sensor is UUID/sensor with the GPU as hw.parent. Only gpu.health.state feeds
// hw.status. What the conventions have no place for (clocks, limits, throttling, links, MIG, processes)
// is not here, and activity of the memory controller is not their memory utilisation.
#pragma once

#include "catalog/gpu.h"
#include "catalog/host.h"
#include "names/dialect.h"

namespace gpulens {

#define GPULENS_HW_GPU                                                                           \
  {"hw_id", "gpu.uuid"}, {.label = "hw_type", .text = "gpu"}, {"hw_model", "gpu.model"},         \
      {"hw_vendor", "gpu.vendor"}, {"hw_serial_number", "gpu.serial"},                           \
      {"hw_driver_version", "gpu.driver.version"}, {"hw_firmware_version", "gpu.vbios.version"}, \
      {"simulated", "simulated"}
#define GPULENS_HW_ERROR(type)                              \
  {                                                         \
    GPULENS_HW_GPU, { .label = "error_type", .text = type } \
  }

inline constexpr DialectLabel kHwGpu[] = {GPULENS_HW_GPU};
inline constexpr DialectLabel kHwGeneral[] = {GPULENS_HW_GPU, {.label = "hw_gpu_task", .text = "general"}};
inline constexpr DialectLabel kHwEncoder[] = {GPULENS_HW_GPU, {.label = "hw_gpu_task", .text = "encoder"}};
inline constexpr DialectLabel kHwDecoder[] = {GPULENS_HW_GPU, {.label = "hw_gpu_task", .text = "decoder"}};
inline constexpr DialectLabel kHwIo[] = {GPULENS_HW_GPU,
                                         {"network_io_direction", "gpu.interconnect.direction"}};
inline constexpr DialectLabel kHwStatus[] = {GPULENS_HW_GPU, {"hw_state", "gpu.health.state"}};
inline constexpr DialectLabel kHwCorrected[] = {GPULENS_HW_GPU,
                                                {.label = "error_type", .text = "corrected"},
                                                {"gpu_ecc_memory_block", "gpu.ecc.memory_block"}};
inline constexpr DialectLabel kHwUncorrected[] = {GPULENS_HW_GPU,
                                                  {.label = "error_type", .text = "uncorrected"},
                                                  {"gpu_ecc_memory_block", "gpu.ecc.memory_block"}};
inline constexpr DialectLabel kHwDeferred[] = {GPULENS_HW_GPU,
                                               {.label = "error_type", .text = "deferred"},
                                               {"gpu_ecc_memory_block", "gpu.ecc.memory_block"}};
inline constexpr DialectLabel kHwReplay[] = GPULENS_HW_ERROR("pcie_replay");
inline constexpr DialectLabel kHwXid[] = GPULENS_HW_ERROR("xid");
inline constexpr DialectLabel kHwRas[] = {
    GPULENS_HW_GPU, {.label = "error_type", .attribute = "gpu.ras.severity", .text = "ras_"}};
inline constexpr DialectLabel kHwLinks[] = {GPULENS_HW_GPU,
                                            {.label = "error_type",
                                             .attribute = "gpu.interconnect.type",
                                             .then = "gpu.interconnect.error_type",
                                             .join = "_"}};

// A sensor on a GPU: what it is, and the attribute that tells which.
#define GPULENS_HW_SENSOR(type, key)                                                                         \
  {.label = "hw_id", .attribute = "gpu.uuid", .then = key, .join = "/"}, {.label = "hw_type", .text = type}, \
      {"hw_parent", "gpu.uuid"}, {"simulated", "simulated"}
inline constexpr DialectLabel kHwTemperature[] = {GPULENS_HW_SENSOR("temperature", "gpu.temperature.sensor"),
                                                  {"hw_sensor_location", "gpu.temperature.sensor"}};
inline constexpr DialectLabel kHwDegraded[] = {GPULENS_HW_SENSOR("temperature", "gpu.temperature.sensor"),
                                               {"hw_sensor_location", "gpu.temperature.sensor"},
                                               {.label = "hw_limit_type", .text = "high.degraded"}};
inline constexpr DialectLabel kHwCritical[] = {GPULENS_HW_SENSOR("temperature", "gpu.temperature.sensor"),
                                               {"hw_sensor_location", "gpu.temperature.sensor"},
                                               {.label = "hw_limit_type", .text = "high.critical"}};
inline constexpr DialectLabel kHwVoltage[] = {GPULENS_HW_SENSOR("voltage", "gpu.voltage.rail"),
                                              {"hw_sensor_location", "gpu.voltage.rail"}};
inline constexpr DialectLabel kHwFan[] = {{.label = "hw_id", .attribute = "gpu.uuid", .join = "/fan"},
                                          {.label = "hw_type", .text = "fan"},
                                          {"hw_parent", "gpu.uuid"},
                                          {"simulated", "simulated"}};
inline constexpr DialectLabel kHwOneFan[] = {
    {.label = "hw_id", .attribute = "gpu.uuid", .then = "gpu.fan.index", .join = "/fan/"},
    {.label = "hw_type", .text = "fan"},
    {"hw_parent", "gpu.uuid"},
    {"simulated", "simulated"}};
#undef GPULENS_HW_GPU
#undef GPULENS_HW_ERROR
#undef GPULENS_HW_SENSOR

inline constexpr DialectLabel kHwSwitchHeat[] = {
    {.label = "hw_id", .attribute = "nvswitch.id", .text = "nvswitch/", .join = "/temperature"},
    {.label = "hw_type", .text = "temperature"},
    {.label = "hw_parent", .attribute = "nvswitch.id", .text = "nvswitch/"}};
inline constexpr DialectLabel kHwSwitchErrors[] = {
    {.label = "hw_id", .attribute = "nvswitch.id", .text = "nvswitch/"},
    {.label = "hw_type", .text = "nvswitch"},
    {.label = "error_type", .attribute = "nvswitch.sxid.severity", .text = "sxid_"}};
inline constexpr DialectLabel kHwCpu[] = {{.label = "hw_id", .attribute = "host.cpu.package", .text = "cpu/"},
                                          {.label = "hw_type", .text = "cpu"}};
inline constexpr DialectLabel kHwMemory[] = {
    {.label = "hw_id", .attribute = "host.cpu.package", .text = "memory/"},
    {.label = "hw_type", .text = "memory"}};
inline constexpr DialectLabel kHwHostHeat[] = {
    {.label = "hw_id", .attribute = "host.sensor", .text = "host/"},
    {.label = "hw_type", .text = "temperature"},
    {"hw_sensor_location", "host.sensor"}};

// Instances and partitions of a GPU have no place there: only what is measured on the whole.
inline constexpr DialectWhere kNoSlice = {"gpu.mig.instance_id", ""};
inline constexpr DialectWhere kNoPartition = {"gpu.partition.id", ""};

struct HwName {
  std::string_view name, unit, help;
  Kind kind;
};
inline constexpr HwName kHwUtilization = {
    "hw_gpu_utilization_ratio", "1", "Share of time in which the GPU was busy with the task.", Kind::kGauge};
inline constexpr HwName kHwEnergy = {"hw_energy_joules_total", "J", "Energy consumed by the component.",
                                     Kind::kCounter};
inline constexpr HwName kHwHeat = {"hw_temperature_celsius", "Cel", "Temperature at the sensor.",
                                   Kind::kGauge};
inline constexpr HwName kHwHeatLimit = {"hw_temperature_limit_celsius", "Cel",
                                        "Temperature limit of the sensor.", Kind::kGauge};
inline constexpr HwName kHwErrors = {"hw_errors_total", "{error}", "Errors that the component has met.",
                                     Kind::kCounter};

constexpr DialectRow HwRow(const MetricDesc& native, const HwName& name, std::span<const DialectLabel> labels,
                           std::array<DialectWhere, 3> where = {}, double scale = 1) {
  return {.native = &native,
          .name = name.name,
          .unit = name.unit,
          .help = name.help,
          .kind = name.kind,
          .scale = scale,
          .labels = labels,
          .where = where};
}

inline constexpr DialectRow kHwRows[] = {
    HwRow(kGpuUtilization, kHwUtilization, kHwGeneral, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuEncodeUtilization, kHwUtilization, kHwEncoder, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuDecodeUtilization, kHwUtilization, kHwDecoder, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuMemoryTotal,
          {"hw_gpu_memory_limit_bytes", "By", "Size of the GPU memory.", Kind::kUpDownCounter}, kHwGpu,
          {{kNoSlice, kNoPartition}}),
    HwRow(kGpuMemoryUsed, {"hw_gpu_memory_usage_bytes", "By", "GPU memory in use.", Kind::kUpDownCounter},
          kHwGpu, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuMemoryUsedPercent,
          {"hw_gpu_memory_utilization_ratio", "1", "Share of the GPU memory in use.", Kind::kGauge}, kHwGpu,
          {{kNoSlice, kNoPartition}}, 0.01),
    HwRow(kGpuPcieIo,
          {"hw_gpu_io_bytes_total", "By", "Bytes received and transmitted by the GPU.", Kind::kCounter},
          kHwIo, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuPowerDraw, {"hw_power_watts", "W", "Power drawn by the component.", Kind::kGauge}, kHwGpu,
          {{kNoSlice, kNoPartition}}),
    HwRow(kGpuEnergyConsumption, kHwEnergy, kHwGpu, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuEnergyEstimate, kHwEnergy, kHwGpu, {{kNoSlice, kNoPartition}}),
    HwRow(kHostCpuEnergy, kHwEnergy, kHwCpu),
    HwRow(kHostMemoryEnergy, kHwEnergy, kHwMemory),
    HwRow(kGpuTemperature, kHwHeat, kHwTemperature, {{kNoSlice, kNoPartition}}),
    HwRow(kNvswitchTemperature, kHwHeat, kHwSwitchHeat),
    HwRow(kHostTemperature, kHwHeat, kHwHostHeat),
    HwRow(kGpuTemperatureLimit, kHwHeatLimit, kHwDegraded,
          {{kNoSlice, kNoPartition, {"gpu.temperature.limit_type", "slowdown"}}}),
    HwRow(kGpuTemperatureLimit, kHwHeatLimit, kHwCritical,
          {{kNoSlice, kNoPartition, {"gpu.temperature.limit_type", "shutdown"}}}),
    HwRow(kGpuVoltage, {"hw_voltage_volts", "V", "Voltage measured by the sensor.", Kind::kGauge}, kHwVoltage,
          {{kNoSlice, kNoPartition}}),
    HwRow(kGpuFanSpeed, {"hw_fan_speed_ratio", "1", "Fan speed as a share of its maximum.", Kind::kGauge},
          kHwFan, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuFanRotation, {"hw_fan_speed_rpm", "rpm", "Fan speed.", Kind::kGauge}, kHwOneFan,
          {{kNoSlice, kNoPartition}}),
    HwRow(kGpuEccErrors, kHwErrors, kHwCorrected,
          {{kNoSlice, {"gpu.ecc.count_type", "volatile"}, {"gpu.ecc.error_type", "correctable"}}}),
    HwRow(kGpuEccErrors, kHwErrors, kHwUncorrected,
          {{kNoSlice, {"gpu.ecc.count_type", "volatile"}, {"gpu.ecc.error_type", "uncorrectable"}}}),
    HwRow(kGpuEccErrors, kHwErrors, kHwDeferred,
          {{kNoSlice, {"gpu.ecc.count_type", "volatile"}, {"gpu.ecc.error_type", "deferred"}}}),
    HwRow(kGpuPcieReplayCount, kHwErrors, kHwReplay, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuXidErrors, kHwErrors, kHwXid, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuRasErrors, kHwErrors, kHwRas, {{kNoSlice, kNoPartition}}),
    HwRow(kGpuInterconnectErrors, kHwErrors, kHwLinks, {{kNoSlice, kNoPartition}}),
    HwRow(kNvswitchSxidErrors, kHwErrors, kHwSwitchErrors),
    HwRow(kGpuHealthState, {"hw_status", "1", "1 for the state the component is in.", Kind::kUpDownCounter},
          kHwStatus, {{kNoSlice, kNoPartition}}),
};

inline constexpr Dialect kHw{.name = "otel_hw",
                             .help = "OpenTelemetry's hw.* names, semantic conventions 1.44",
                             .rows = kHwRows,
                             .looks = true};

}  // namespace gpulens
