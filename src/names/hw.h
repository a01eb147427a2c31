// The hw.* names of OpenTelemetry's semantic conventions, version 1.44 (all of them in development), as its
// translator writes them for Prometheus.
//
// A GPU has its UUID as hw.id; a sensor has UUID/sensor, and the GPU as hw.parent. Only gpu.health.state
// feeds hw.status. The conventions have no names for clocks, limits, throttling, links, MIG and processes,
// and their memory utilisation is not the activity of the memory controller.
#pragma once

#include "catalog/gpu.h"
#include "catalog/host.h"
#include "names/naming.h"

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

inline constexpr NamingLabel kHwGpu[] = {GPULENS_HW_GPU};
inline constexpr NamingLabel kHwGeneral[] = {GPULENS_HW_GPU, {.label = "hw_gpu_task", .text = "general"}};
inline constexpr NamingLabel kHwEncoder[] = {GPULENS_HW_GPU, {.label = "hw_gpu_task", .text = "encoder"}};
inline constexpr NamingLabel kHwDecoder[] = {GPULENS_HW_GPU, {.label = "hw_gpu_task", .text = "decoder"}};
inline constexpr NamingLabel kHwIo[] = {GPULENS_HW_GPU,
                                        {"network_io_direction", "gpu.interconnect.direction"}};
inline constexpr NamingLabel kHwStatus[] = {GPULENS_HW_GPU, {"hw_state", "gpu.health.state"}};
inline constexpr NamingLabel kHwCorrected[] = {GPULENS_HW_GPU,
                                               {.label = "error_type", .text = "corrected"},
                                               {"gpu_ecc_memory_block", "gpu.ecc.memory_block"}};
inline constexpr NamingLabel kHwUncorrected[] = {GPULENS_HW_GPU,
                                                 {.label = "error_type", .text = "uncorrected"},
                                                 {"gpu_ecc_memory_block", "gpu.ecc.memory_block"}};
inline constexpr NamingLabel kHwDeferred[] = {GPULENS_HW_GPU,
                                              {.label = "error_type", .text = "deferred"},
                                              {"gpu_ecc_memory_block", "gpu.ecc.memory_block"}};
inline constexpr NamingLabel kHwReplay[] = GPULENS_HW_ERROR("pcie_replay");
inline constexpr NamingLabel kHwXid[] = GPULENS_HW_ERROR("xid");
inline constexpr NamingLabel kHwRas[] = {
    GPULENS_HW_GPU, {.label = "error_type", .attribute = "gpu.ras.severity", .text = "ras_"}};
inline constexpr NamingLabel kHwLinks[] = {GPULENS_HW_GPU,
                                           {.label = "error_type",
                                            .attribute = "gpu.interconnect.type",
                                            .then = "gpu.interconnect.error_type",
                                            .join = "_"}};

// A sensor of a GPU: its type, and the attribute that identifies it.
#define GPULENS_HW_SENSOR(type, key)                                                                         \
  {.label = "hw_id", .attribute = "gpu.uuid", .then = key, .join = "/"}, {.label = "hw_type", .text = type}, \
      {"hw_parent", "gpu.uuid"}, {"simulated", "simulated"}
inline constexpr NamingLabel kHwTemperature[] = {GPULENS_HW_SENSOR("temperature", "gpu.temperature.sensor"),
                                                 {"hw_sensor_location", "gpu.temperature.sensor"}};
inline constexpr NamingLabel kHwDegraded[] = {GPULENS_HW_SENSOR("temperature", "gpu.temperature.sensor"),
                                              {"hw_sensor_location", "gpu.temperature.sensor"},
                                              {.label = "hw_limit_type", .text = "high.degraded"}};
inline constexpr NamingLabel kHwCritical[] = {GPULENS_HW_SENSOR("temperature", "gpu.temperature.sensor"),
                                              {"hw_sensor_location", "gpu.temperature.sensor"},
                                              {.label = "hw_limit_type", .text = "high.critical"}};
inline constexpr NamingLabel kHwVoltage[] = {GPULENS_HW_SENSOR("voltage", "gpu.voltage.rail"),
                                             {"hw_sensor_location", "gpu.voltage.rail"}};
inline constexpr NamingLabel kHwFan[] = {{.label = "hw_id", .attribute = "gpu.uuid", .join = "/fan"},
                                         {.label = "hw_type", .text = "fan"},
                                         {"hw_parent", "gpu.uuid"},
                                         {"simulated", "simulated"}};
inline constexpr NamingLabel kHwOneFan[] = {
    {.label = "hw_id", .attribute = "gpu.uuid", .then = "gpu.fan.index", .join = "/fan/"},
    {.label = "hw_type", .text = "fan"},
    {"hw_parent", "gpu.uuid"},
    {"simulated", "simulated"}};
#undef GPULENS_HW_GPU
#undef GPULENS_HW_ERROR
#undef GPULENS_HW_SENSOR

inline constexpr NamingLabel kHwSwitchHeat[] = {
    {.label = "hw_id", .attribute = "nvswitch.id", .text = "nvswitch/", .join = "/temperature"},
    {.label = "hw_type", .text = "temperature"},
    {.label = "hw_parent", .attribute = "nvswitch.id", .text = "nvswitch/"}};
inline constexpr NamingLabel kHwSwitchErrors[] = {
    {.label = "hw_id", .attribute = "nvswitch.id", .text = "nvswitch/"},
    {.label = "hw_type", .text = "nvswitch"},
    {.label = "error_type", .attribute = "nvswitch.sxid.severity", .text = "sxid_"}};
inline constexpr NamingLabel kHwCpu[] = {{.label = "hw_id", .attribute = "host.cpu.package", .text = "cpu/"},
                                         {.label = "hw_type", .text = "cpu"}};
inline constexpr NamingLabel kHwMemory[] = {
    {.label = "hw_id", .attribute = "host.cpu.package", .text = "memory/"},
    {.label = "hw_type", .text = "memory"}};
inline constexpr NamingLabel kHwHostHeat[] = {{.label = "hw_id", .attribute = "host.sensor", .text = "host/"},
                                              {.label = "hw_type", .text = "temperature"},
                                              {"hw_sensor_location", "host.sensor"}};

// The conventions have no instances and partitions of GPUs: only series of the whole.
inline constexpr NamingWhere kNoSlice = {"gpu.mig.instance_id", ""};
inline constexpr NamingWhere kNoPartition = {"gpu.partition.id", ""};

inline constexpr NamingName kHwUtilization = {
    "hw_gpu_utilization_ratio", "1", "Share of time in which the GPU was busy with the task.", Kind::kGauge};
inline constexpr NamingName kHwEnergy = {"hw_energy_joules_total", "J", "Energy consumed by the component.",
                                         Kind::kCounter};
inline constexpr NamingName kHwHeat = {"hw_temperature_celsius", "Cel", "Temperature at the sensor.",
                                       Kind::kGauge};
inline constexpr NamingName kHwHeatLimit = {"hw_temperature_limit_celsius", "Cel",
                                            "Temperature limit of the sensor.", Kind::kGauge};
inline constexpr NamingName kHwErrors = {"hw_errors_total", "{error}", "Errors that the component has met.",
                                         Kind::kCounter};

constexpr NamingRow HwRow(const MetricDesc& native, const NamingName& name,
                          std::span<const NamingLabel> labels, std::array<NamingWhere, 3> where = {},
                          double scale = 1) {
  NamingRow row = NamedRow(native, name);
  row.scale = scale;
  row.labels = labels;
  row.where = where;
  return row;
}

constexpr NamingRow HwGpuRow(const MetricDesc& native, const NamingName& name,
                             std::span<const NamingLabel> labels, double scale = 1) {
  return HwRow(native, name, labels, {{kNoSlice, kNoPartition}}, scale);
}

inline constexpr NamingRow kHwRows[] = {
    HwGpuRow(kGpuUtilization, kHwUtilization, kHwGeneral),
    HwGpuRow(kGpuEncodeUtilization, kHwUtilization, kHwEncoder),
    HwGpuRow(kGpuDecodeUtilization, kHwUtilization, kHwDecoder),
    HwGpuRow(kGpuMemoryTotal,
             {"hw_gpu_memory_limit_bytes", "By", "Size of the GPU memory.", Kind::kUpDownCounter}, kHwGpu),
    HwGpuRow(kGpuMemoryUsed, {"hw_gpu_memory_usage_bytes", "By", "GPU memory in use.", Kind::kUpDownCounter},
             kHwGpu),
    HwGpuRow(kGpuMemoryUsedPercent,
             {"hw_gpu_memory_utilization_ratio", "1", "Share of the GPU memory in use.", Kind::kGauge},
             kHwGpu, 0.01),
    HwGpuRow(kGpuPcieIo,
             {"hw_gpu_io_bytes_total", "By", "Bytes received and transmitted by the GPU.", Kind::kCounter},
             kHwIo),
    HwGpuRow(kGpuPowerDraw, {"hw_power_watts", "W", "Power drawn by the component.", Kind::kGauge}, kHwGpu),
    HwGpuRow(kGpuEnergyConsumption, kHwEnergy, kHwGpu),
    HwGpuRow(kGpuEnergyEstimate, kHwEnergy, kHwGpu),
    HwRow(kHostCpuEnergy, kHwEnergy, kHwCpu),
    HwRow(kHostMemoryEnergy, kHwEnergy, kHwMemory),
    HwGpuRow(kGpuTemperature, kHwHeat, kHwTemperature),
    HwRow(kNvswitchTemperature, kHwHeat, kHwSwitchHeat),
    HwRow(kHostTemperature, kHwHeat, kHwHostHeat),
    HwRow(kGpuTemperatureLimit, kHwHeatLimit, kHwDegraded,
          {{kNoSlice, kNoPartition, {"gpu.temperature.limit_type", "slowdown"}}}),
    HwRow(kGpuTemperatureLimit, kHwHeatLimit, kHwCritical,
          {{kNoSlice, kNoPartition, {"gpu.temperature.limit_type", "shutdown"}}}),
    HwGpuRow(kGpuVoltage, {"hw_voltage_volts", "V", "Voltage measured by the sensor.", Kind::kGauge},
             kHwVoltage),
    HwGpuRow(kGpuFanSpeed, {"hw_fan_speed_ratio", "1", "Fan speed as a share of its maximum.", Kind::kGauge},
             kHwFan),
    HwGpuRow(kGpuFanRotation, {"hw_fan_speed_rpm", "rpm", "Fan speed.", Kind::kGauge}, kHwOneFan),
    HwRow(kGpuEccErrors, kHwErrors, kHwCorrected,
          {{kNoSlice, {"gpu.ecc.count_type", "volatile"}, {"gpu.ecc.error_type", "correctable"}}}),
    HwRow(kGpuEccErrors, kHwErrors, kHwUncorrected,
          {{kNoSlice, {"gpu.ecc.count_type", "volatile"}, {"gpu.ecc.error_type", "uncorrectable"}}}),
    HwRow(kGpuEccErrors, kHwErrors, kHwDeferred,
          {{kNoSlice, {"gpu.ecc.count_type", "volatile"}, {"gpu.ecc.error_type", "deferred"}}}),
    HwGpuRow(kGpuPcieReplayCount, kHwErrors, kHwReplay),
    HwGpuRow(kGpuXidErrors, kHwErrors, kHwXid),
    HwGpuRow(kGpuRasErrors, kHwErrors, kHwRas),
    HwGpuRow(kGpuInterconnectErrors, kHwErrors, kHwLinks),
    HwRow(kNvswitchSxidErrors, kHwErrors, kHwSwitchErrors),
    HwGpuRow(kGpuHealthState,
             {"hw_status", "1", "1 for the state the component is in.", Kind::kUpDownCounter}, kHwStatus),
};

inline constexpr MetricNaming kHw{.name = "otel_hw",
                                  .help = "OpenTelemetry's hw.* names, semantic conventions 1.44",
                                  .rows = kHwRows,
                                  .looks = true};

}  // namespace gpulens
