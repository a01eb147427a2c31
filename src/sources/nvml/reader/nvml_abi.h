// The part of the NVML interface that we use, declared by us: no vendor header is needed to build,
// and one binary meets every driver version. Sizes and offsets are those of the library's C ABI on
// 64-bit machines. Nothing here calls anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sources/nvml/nvml_calls.h"
#include "sources/nvml/nvml_link_fields.h"
#include "sources/nvml/reader/abi_more.h"

namespace gpulens::nvml {

struct DeviceHandle;  // Opaque.
using Device = DeviceHandle*;
struct EventSetHandle;  // Opaque.
using EventSet = EventSetHandle*;
struct GpmSampleHandle;  // Opaque.
using GpmSample = GpmSampleHandle*;

// Defined in parts/parts_abi.h.
struct DeviceAttributes;
struct EventData;
struct EventDataV1;
struct GpmMetricsGet;
struct GpmSupport;
struct ProcessesUtilization;
struct ProcessUtilizationSample;
struct VgpuLicenseInfo;
struct VgpusUtilization;
struct VgpuUtilizationSample;

// Return codes (int). Those that the reader tells apart.
enum ReturnCode : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeoutError = 10,
  kLibraryNotFound = 12,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kVersionMismatch = 18,
  kArgumentVersionMismatch = 25,
  kDeprecated = 26,
  kGpuNotFound = 28,
  kUnknownError = 999,
};

// A struct that carries its version says size and version in its first word.
constexpr unsigned StructVersion(size_t size, unsigned version) noexcept {
  return static_cast<unsigned>(size) | version << 24;
}

struct Utilization {
  unsigned gpu, memory;  // %
};
static_assert(sizeof(Utilization) == 8);

struct Memory {
  unsigned long long total, free, used;  // Bytes; `used` contains what the driver reserves.
};
static_assert(sizeof(Memory) == 24);

struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;  // Bytes
};
static_assert(sizeof(MemoryV2) == 40 && offsetof(MemoryV2, total) == 8);
inline constexpr unsigned kMemoryV2 = StructVersion(sizeof(MemoryV2), 2);
static_assert(kMemoryV2 == 0x02000028);

struct Bar1Memory {
  unsigned long long total, free, used;  // Bytes
};
static_assert(sizeof(Bar1Memory) == 24);

struct TemperatureV1 {
  unsigned version, sensor;
  int temperature;  // Cel
};
static_assert(sizeof(TemperatureV1) == 12);
inline constexpr unsigned kTemperatureV1 = StructVersion(sizeof(TemperatureV1), 1);

struct AddressingMode {
  unsigned version, value;
};
inline constexpr unsigned kAddressingModeV1 = StructVersion(sizeof(AddressingMode), 1);
static_assert(kAddressingModeV1 == 0x01000008);
enum : unsigned { kAddressingNone = 0, kAddressingHmm = 1, kAddressingAts = 2 };

struct PciInfo {  // nvmlDeviceGetPciInfo_v3
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

struct PciInfoV2 {
  char bus_id[16];
  unsigned domain, bus, device, device_id, subsystem_id, reserved[4];
};
static_assert(sizeof(PciInfoV2) == 52);

struct ProcessInfoV1 {  // The functions without suffix
  unsigned pid;
  unsigned long long used_memory;  // Bytes; all ones: not known
};
static_assert(sizeof(ProcessInfoV1) == 16);

struct ProcessInfoV2 {  // _v2 and _v3
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;  // All ones: none
};
static_assert(sizeof(ProcessInfoV2) == 24);

struct FieldValue {
  unsigned field_id, scope_id;
  long long timestamp_us, latency_us;
  unsigned value_type;
  int code;
  Value value;
};
static_assert(sizeof(FieldValue) == 40 && offsetof(FieldValue, code) == 28 &&
              offsetof(FieldValue, value) == 32);

enum ClockType : unsigned { kGraphicsClock, kSmClock, kMemoryClock, kVideoClock };
enum EccErrorType : unsigned { kCorrectedError, kUncorrectedError };
enum EccCounter : unsigned { kVolatileEcc, kAggregateEcc };
enum RetirementCause : unsigned { kMultipleSingleBit, kDoubleBit };
enum PcieCounter : unsigned { kPcieTx, kPcieRx };

// Ids for nvmlDeviceGetFieldValues.
enum FieldId : unsigned {
  kFiThrottlePower = 74,
  kFiThrottleSync = 76,
  kFiMemoryTemperature = 82,
  kFiNvlinkCount = 91,
  kFiNvlinkDataTx = 138,  // KiB since reset; scope: link, or all ones for all links
  kFiNvlinkDataRx = 139,
  kFiPowerInstant = 186,
  kFiPowerMinLimit = 187,
  kFiPowerMaxLimit = 188,
  kFiPowerDefaultLimit = 189,
  kFiPowerRequestedLimit = 192,
  kFiPcieTxBytes = 197,
  kFiPcieRxBytes = 198,
  kFiNvlinkXmitBytes = 202,  // Bytes; scope: link (NVLink 5)
  kFiNvlinkRcvBytes = 204,
  kFiRecoveryAction = 230,
  kFiSwThermalR570 = 251,
  kFiHwThermalR570 = 252,
  kFiPowerBrakeR570 = 253,
  kFiSwThermal = 269,
  kFiHwThermal = 270,
  kFiPowerBrake = 271,
};
inline constexpr unsigned kAllLinks = ~0U;

// The functions that the library has; null where it has not.
struct Symbols {
#define GPULENS_NVML_POINTER(id, name, parameters) int(*id) parameters = nullptr;
  GPULENS_NVML_CALLS(GPULENS_NVML_POINTER)
#undef GPULENS_NVML_POINTER
};

}  // namespace gpulens::nvml
