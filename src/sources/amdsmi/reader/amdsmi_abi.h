// The part of the AMD SMI interface that we use, declared by us: no vendor header is needed to build, and
// one binary meets several versions of the library. Sizes and offsets are those of the C ABI on 64-bit
// machines. The library does not report the size of a struct, so a version that is not in the table below
// gets no struct read from it at all. Nothing here calls anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sources/amdsmi/amdsmi_calls.h"

namespace gpulens::amdsmi {

struct OpaqueHandle;
using Handle = OpaqueHandle*;

// Status codes (uint32_t there, int here). Those that the reader distinguishes.
enum ReturnCode : int {
  kFunctionMissing = -1,  // Ours: the library has no such function.
  kSuccess = 0,
  kInvalidArgument = 1,
  kNotSupported = 2,
  kNotYetImplemented = 3,
  kFailLoadModule = 4,
  kFailLoadSymbol = 5,
  kDrmError = 6,
  kTimeout = 8,
  kNoPermission = 10,
  kIoError = 12,
  kFileError = 14,
  kOutOfResources = 15,
  kBusy = 30,
  kNotFound = 31,
  kNotInitialized = 32,
  kDriverNotLoaded = 34,
  kNoData = 40,
  kInsufficientSize = 41,
  kFileNotFound = 52,
  kSettingUnavailable = 55,
};

inline constexpr uint64_t kInitGpus = 1 << 1;
enum ProcessorType : uint32_t { kTypeGpu = 1, kTypeApu = 6 };
enum MemoryType : uint32_t { kVram, kVisibleVram, kGtt };
enum ClockType : uint32_t {
  kClkGfx = 0,
  kClkFabric = 1,
  kClkSoc = 3,
  kClkMemory = 4,
  kClkVclk0 = 6,
  kClkDclk0 = 8
};
enum TemperatureType : uint32_t { kTempEdge, kTempHotspot, kTempVram };
enum TemperatureMetric : uint32_t { kTempCurrent = 0, kTempCritical = 5, kTempEmergency = 7 };

// The same in versions 24.5 to 26.2.
struct EngineUsage {
  uint32_t gfx, memory, multimedia, reserved[13];  // %
};
static_assert(sizeof(EngineUsage) == 64);

struct PowerCapInfo {
  uint64_t cap, default_cap, dpm_cap, min_cap, max_cap, reserved[3];  // uW; W on hosts of virtual machines
};
static_assert(sizeof(PowerCapInfo) == 64);

struct ClockInfo {
  uint32_t current, min, max;  // MHz
  uint8_t locked, deep_sleep;
  uint32_t reserved[4];
};
static_assert(sizeof(ClockInfo) == 32);

struct ErrorCount {
  uint64_t correctable, uncorrectable, deferred, reserved[5];
};
static_assert(sizeof(ErrorCount) == 64);

struct RetiredPage {
  uint64_t address, size;
  uint32_t status;  // 0 reserved, 1 pending, 2 could not be reserved
};
static_assert(sizeof(RetiredPage) == 24);

struct KfdInfo {
  uint64_t kfd_id;
  uint32_t node_id, partition_id, reserved[12];
};
static_assert(sizeof(KfdInfo) == 64);

struct PcieInfo {
  struct Static {
    uint16_t max_width;
    uint32_t max_speed, interface_version, slot_type;  // GT/s or MT/s
    uint64_t reserved[10];
  } fixed;
  struct Metric {
    uint16_t width;
    uint32_t speed, bandwidth;  // MT/s, Mb/s
    uint64_t replay, recovery, rollover, nak_sent, nak_received, reserved[13];
  } metric;
  uint64_t reserved[32];
};
static_assert(sizeof(PcieInfo::Static) == 96 && offsetof(PcieInfo, metric) == 96);
static_assert(offsetof(PcieInfo, metric.replay) == 112 && offsetof(PcieInfo, metric.nak_received) == 144);

struct XgmiLinkStatus {
  uint32_t total, status[8];  // 0 down, 1 up, 2 disabled
  uint64_t reserved[7];
};
static_assert(sizeof(XgmiLinkStatus) == 96);

// The front of the metrics struct: the same up to pcie_nak_received since 24.5, and up to its end since 25.
// A number that the board's table does not have is all ones.
struct GpuMetrics {
  uint16_t table_size;
  uint8_t format, content;
  uint16_t temperature_edge, temperature_hotspot, temperature_memory;
  uint16_t temperature_vr_gfx, temperature_vr_soc, temperature_vr_memory;
  uint16_t average_gfx, average_memory, average_multimedia, average_power;
  uint64_t energy, system_clock;
  uint16_t average_clocks[7], current_clocks[7];
  uint32_t throttle_status;
  uint16_t fan_rpm, pcie_width, pcie_speed;
  uint32_t gfx_activity_sum, memory_activity_sum;
  uint16_t temperature_stack[4];
  uint64_t firmware_clock;
  uint16_t voltage_soc, voltage_gfx, voltage_memory;  // mV
  uint64_t throttle_mask;
  uint16_t current_power, vcn_activity[4];
  uint32_t clock_locks;
  uint16_t xgmi_width, xgmi_speed;
  uint64_t pcie_bandwidth_sum, pcie_bandwidth, pcie_recovery, pcie_replay, pcie_rollover;
  uint64_t xgmi_read[8], xgmi_write[8];  // KiB
  uint16_t gfx_clocks[8], soc_clocks[4], vclk0s[4], dclk0s[4];
  uint16_t jpeg_activity[32];
  uint32_t pcie_nak_sent, pcie_nak_received;
  uint64_t residency_cycles, residency_prochot, residency_power, residency_socket, residency_vr,
      residency_memory;
};
static_assert(offsetof(GpuMetrics, energy) == 24 && offsetof(GpuMetrics, throttle_status) == 68);
static_assert(offsetof(GpuMetrics, temperature_stack) == 88 && offsetof(GpuMetrics, throttle_mask) == 112);
static_assert(offsetof(GpuMetrics, xgmi_read) == 184 && offsetof(GpuMetrics, jpeg_activity) == 352);
static_assert(offsetof(GpuMetrics, residency_cycles) == 424 && sizeof(GpuMetrics) == 472);

// Room for any struct of the library, known or to come. All bits are set before a call, so that what the
// library does not write reads as unknown.
inline constexpr size_t kScratchBytes = 16 * 1024;

// Where the members are whose place differs by version.
struct StructLayout {
  static constexpr uint16_t kNone = 0xFFFF;

  struct Text {
    uint16_t offset = kNone, size = 0;
  };
  Text asic_name, asic_serial, board_serial, board_name, vbios_version, driver_version;
  uint16_t compute_units = kNone, target_version = kNone;
  uint16_t power_current = kNone, power_average = kNone;
  struct Process {
    uint16_t stride = 0, name_size = 0, pid = kNone, graphics = kNone, encode = kNone, host = kNone,
             memory = kNone, compute_units = kNone;
  } process;
  bool residency = false;  // GpuMetrics beyond pcie_nak_received
};

struct AmdsmiVersion {
  uint32_t major = 0, minor = 0, release = 0;  // 24.6.1, 25.3.0, 26.2.1; all 0: unknown
  std::string Text() const;
};
// From what amdsmi_get_lib_version filled in, which began with the year until ROCm 6.4.
AmdsmiVersion VersionFrom(const uint32_t (&words)[4]) noexcept;
// Null for a version whose structs are not known.
const StructLayout* LayoutOf(const AmdsmiVersion& version) noexcept;

// The functions that the library has; null where it has not.
struct AmdsmiSymbols {
#define GPULENS_AMDSMI_POINTER(id, symbol, parameters) \
  reader::LibraryFunction<Call, int parameters> id{Call::k##id};
  GPULENS_AMDSMI_CALLS(GPULENS_AMDSMI_POINTER)
#undef GPULENS_AMDSMI_POINTER
};

}  // namespace gpulens::amdsmi
