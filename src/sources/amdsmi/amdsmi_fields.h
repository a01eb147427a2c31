// What the AMD SMI source reads of a GPU, under the source's own names. No metric name is born here: a
// collector maps fields to metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "reader/vendor.h"

// X(Id, "name", "unit", Tier, copies). Fields of one call are adjacent, in its order.
#define GPULENS_AMDSMI_FIELDS(X)                                    \
  X(ActivityGfx, "activity_gfx", "%", kFast, 1)                     \
  X(ActivityMemory, "activity_memory", "%", kFast, 1)               \
  X(ActivityMultimedia, "activity_multimedia", "%", kFast, 1)       \
  X(VramTotal, "vram_total", "B", kSlow, 1)                         \
  X(VramUsed, "vram_used", "B", kFast, 1)                           \
  X(VisibleTotal, "visible_total", "B", kSlow, 1)                   \
  X(VisibleUsed, "visible_used", "B", kSlow, 1)                     \
  X(GttTotal, "gtt_total", "B", kSlow, 1)                           \
  X(GttUsed, "gtt_used", "B", kSlow, 1)                             \
  X(PowerCurrent, "power_current", "W", kFast, 1)                   \
  X(PowerAverage, "power_average", "W", kFast, 1)                   \
  X(PowerCap, "power_cap", "uW", kSlow, 1)                          \
  X(PowerCapDefault, "power_cap_default", "uW", kSlow, 1)           \
  X(PowerCapMin, "power_cap_min", "uW", kSlow, 1)                   \
  X(PowerCapMax, "power_cap_max", "uW", kSlow, 1)                   \
  X(Energy, "energy", "uJ", kFast, 1)                               \
  X(TemperatureEdge, "temperature_edge", "mCel", kFast, 1)          \
  X(TemperatureHotspot, "temperature_hotspot", "mCel", kFast, 1)    \
  X(TemperatureMemory, "temperature_memory", "mCel", kFast, 1)      \
  X(CriticalEdge, "critical_edge", "mCel", kSlow, 1)                \
  X(CriticalHotspot, "critical_hotspot", "mCel", kSlow, 1)          \
  X(CriticalMemory, "critical_memory", "mCel", kSlow, 1)            \
  X(EmergencyEdge, "emergency_edge", "mCel", kSlow, 1)              \
  X(EmergencyHotspot, "emergency_hotspot", "mCel", kSlow, 1)        \
  X(EmergencyMemory, "emergency_memory", "mCel", kSlow, 1)          \
  X(ClockGfx, "clock_gfx", "MHz", kFast, 1)                         \
  X(ClockGfxMax, "clock_gfx_max", "MHz", kFast, 1)                  \
  X(ClockMemory, "clock_memory", "MHz", kFast, 1)                   \
  X(ClockMemoryMax, "clock_memory_max", "MHz", kFast, 1)            \
  X(ClockSoc, "clock_soc", "MHz", kMedium, 1)                       \
  X(ClockSocMax, "clock_soc_max", "MHz", kMedium, 1)                \
  X(ClockFabric, "clock_fabric", "MHz", kMedium, 1)                 \
  X(ClockFabricMax, "clock_fabric_max", "MHz", kMedium, 1)          \
  X(ClockVclk0, "clock_vclk0", "MHz", kMedium, 1)                   \
  X(ClockVclk0Max, "clock_vclk0_max", "MHz", kMedium, 1)            \
  X(ClockDclk0, "clock_dclk0", "MHz", kMedium, 1)                   \
  X(ClockDclk0Max, "clock_dclk0_max", "MHz", kMedium, 1)            \
  X(TemperatureVrGfx, "temperature_vr_gfx", "Cel", kFast, 1)        \
  X(TemperatureVrSoc, "temperature_vr_soc", "Cel", kFast, 1)        \
  X(TemperatureVrMemory, "temperature_vr_memory", "Cel", kFast, 1)  \
  X(TemperatureStack, "temperature_stack", "Cel", kMedium, 4)       \
  X(VoltageGfx, "voltage_gfx", "mV", kMedium, 1)                    \
  X(VoltageSoc, "voltage_soc", "mV", kMedium, 1)                    \
  X(VoltageMemory, "voltage_memory", "mV", kMedium, 1)              \
  X(ThrottleMask, "throttle_mask", "", kFast, 1)                    \
  X(VcnActivity, "vcn_activity", "%", kMedium, 4)                   \
  X(JpegActivity, "jpeg_activity", "%", kMedium, 32)                \
  X(XgmiWidth, "xgmi_width", "", kMedium, 1)                        \
  X(XgmiRead, "xgmi_read", "B", kFast, 8)                           \
  X(XgmiWrite, "xgmi_write", "B", kFast, 8)                         \
  X(ResidencyCycles, "residency_cycles", "", kFast, 1)              \
  X(ResidencyProchot, "residency_prochot", "", kFast, 1)            \
  X(ResidencyPower, "residency_power", "", kFast, 1)                \
  X(ResidencySocket, "residency_socket", "", kFast, 1)              \
  X(ResidencyVr, "residency_vr", "", kFast, 1)                      \
  X(ResidencyMemory, "residency_memory", "", kFast, 1)              \
  X(PcieWidth, "pcie_width", "", kMedium, 1)                        \
  X(PcieGeneration, "pcie_generation", "", kMedium, 1)              \
  X(PcieWidthMax, "pcie_width_max", "", kMedium, 1)                 \
  X(PcieGenerationMax, "pcie_generation_max", "", kMedium, 1)       \
  X(PcieReplay, "pcie_replay", "", kMedium, 1)                      \
  X(PcieRecovery, "pcie_recovery", "", kMedium, 1)                  \
  X(PcieRollover, "pcie_rollover", "", kMedium, 1)                  \
  X(PcieNakSent, "pcie_nak_sent", "", kMedium, 1)                   \
  X(PcieNakReceived, "pcie_nak_received", "", kMedium, 1)           \
  X(XgmiLink, "xgmi_link", "", kMedium, 8)                          \
  X(FanSpeed, "fan_speed", "", kMedium, 1)                          \
  X(FanSpeedMax, "fan_speed_max", "", kMedium, 1)                   \
  X(FanRpm, "fan_rpm", "rpm", kMedium, 1)                           \
  X(EccBlocks, "ecc_blocks", "", kSlow, 1)                          \
  X(EccCorrectable, "ecc_correctable", "", kSlow, 19)               \
  X(EccUncorrectable, "ecc_uncorrectable", "", kSlow, 19)           \
  X(EccDeferred, "ecc_deferred", "", kSlow, 19)                     \
  X(EccTotalCorrectable, "ecc_total_correctable", "", kSlow, 1)     \
  X(EccTotalUncorrectable, "ecc_total_uncorrectable", "", kSlow, 1) \
  X(EccTotalDeferred, "ecc_total_deferred", "", kSlow, 1)           \
  X(RetiredPages, "retired_pages", "", kSlow, 1)                    \
  X(RetiredPagesPending, "retired_pages_pending", "", kSlow, 1)     \
  X(ComputePartition, "compute_partition", "", kSlow, 1)            \
  X(MemoryPartition, "memory_partition", "", kSlow, 1)              \
  X(PerformanceLevel, "performance_level", "", kSlow, 1)            \
  X(ProcessCount, "process_count", "", kFast, 1)

namespace gpulens::amdsmi {

enum class Field : uint16_t {
#define GPULENS_AMDSMI_FIELD_ID(id, name, unit, tier, copies) k##id,
  GPULENS_AMDSMI_FIELDS(GPULENS_AMDSMI_FIELD_ID)
#undef GPULENS_AMDSMI_FIELD_ID
      kCount,
};

inline constexpr std::array<uint16_t, static_cast<size_t>(Field::kCount)> kCopies = {
#define GPULENS_AMDSMI_FIELD_COPIES(id, name, unit, tier, copies) copies,
    GPULENS_AMDSMI_FIELDS(GPULENS_AMDSMI_FIELD_COPIES)
#undef GPULENS_AMDSMI_FIELD_COPIES
};

constexpr unsigned CopiesOf(Field field) noexcept { return kCopies[static_cast<size_t>(field)]; }

// The place of a copy of a field in reader::VendorTables::fields.
constexpr uint16_t SlotOf(Field field, unsigned copy = 0) noexcept {
  unsigned slot = copy;
  for (size_t i = 0; i < static_cast<size_t>(field); ++i) slot += kCopies[i];
  return static_cast<uint16_t>(slot);
}
inline constexpr size_t kSlots = SlotOf(Field::kCount);

// The first eight values of the compute partition, by its number in Field::kComputePartition.
inline constexpr std::string_view kComputePartitions[] = {"", "spx", "dpx", "tpx", "qpx", "cpx"};
// By bit number of Field::kEccBlocks, in lower case as attributes have them.
inline constexpr std::string_view kEccBlocks[] = {
    "umc", "sdma", "gfx", "mmhub", "athub", "pcie_bif", "hdp",  "xgmi_wafl", "df",  "smn",
    "sem", "mp0",  "mp1", "fuse",  "mca",   "vcn",      "jpeg", "ih",        "mpio"};
static_assert(std::size(kEccBlocks) == CopiesOf(Field::kEccCorrectable));
// By the number in Field::kPerformanceLevel.
inline constexpr std::string_view kPerformanceLevels[] = {
    "auto",       "low", "high", "manual", "stable_std", "stable_peak", "stable_min_mclk", "stable_min_sclk",
    "determinism"};

// The tables of this library for reader::ReaderSource.
const reader::VendorTables& AmdsmiVendor() noexcept;

// Words for the library's status codes: "driver not loaded".
std::string_view ReturnText(int code) noexcept;

}  // namespace gpulens::amdsmi
