// The part of the NVML interface that we use, declared by us: no vendor header is needed to build,
// and one binary meets every driver version. Sizes and offsets are those of the library's C ABI on
// 64-bit machines. Nothing here calls anything.
#pragma once

#include <cstddef>

#include "sources/nvml/nvml_calls.h"
#include "sources/nvml/nvml_fields.h"

namespace gpulens::nvml {

struct DeviceHandle;  // Opaque.
using Device = DeviceHandle*;
struct EventSetHandle;  // Opaque.
using EventSet = EventSetHandle*;
struct GpmSampleHandle;  // Opaque.
using GpmSample = GpmSampleHandle*;

// Return codes (int). Those that the reader distinguishes.
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

// The first word of a versioned struct has its size and version.
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

union Value {
  double double_value;
  int int_value;
  unsigned uint_value;
  unsigned long ulong_value;
  unsigned long long ull_value;
  long long sll_value;
  unsigned short ushort_value;
};
static_assert(sizeof(Value) == 8);
enum ValueType : unsigned { kDouble, kUint, kUlong, kUllong, kSllong, kSint, kUshort };

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

struct MarginTemperature {
  unsigned version;
  int margin;  // Cel
};
static_assert(sizeof(MarginTemperature) == 8);

struct FanSpeedInfo {
  unsigned version, fan, speed;  // rpm
};
static_assert(sizeof(FanSpeedInfo) == 12);

struct FbcStats {
  unsigned sessions, frame_rate, latency;
};
static_assert(sizeof(FbcStats) == 12);

struct SramEccErrorStatus {
  unsigned version;
  unsigned long long aggregate_parity, aggregate_secded, aggregate_corrected;
  unsigned long long volatile_parity, volatile_secded, volatile_corrected;
  unsigned long long bucket_l2, bucket_sm, bucket_pcie, bucket_microcontroller, bucket_other;
  unsigned threshold_exceeded;
};
static_assert(sizeof(SramEccErrorStatus) == 104 && offsetof(SramEccErrorStatus, bucket_l2) == 56 &&
              offsetof(SramEccErrorStatus, threshold_exceeded) == 96);

struct RowRemapperHistogram {
  unsigned max, high, partial, low, none;  // Banks
};
static_assert(sizeof(RowRemapperHistogram) == 20);

struct FabricInfoV1 {  // nvmlDeviceGetGpuFabricInfo
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
};
static_assert(sizeof(FabricInfoV1) == 28);

// nvmlDeviceGetGpuFabricInfoV. Version 2 is this without its last member, whose place is then padding.
struct FabricInfoV3 {
  unsigned version;
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
  unsigned char summary;
};
static_assert(sizeof(FabricInfoV3) == 40 && offsetof(FabricInfoV3, health) == 32 &&
              offsetof(FabricInfoV3, summary) == 36);
inline constexpr size_t kFabricInfoV2Size = offsetof(FabricInfoV3, summary);
inline constexpr unsigned char kFabricCompleted = 3;

struct ConfComputeState {
  unsigned environment, feature, dev_tools;
};
static_assert(sizeof(ConfComputeState) == 12);

struct ConfComputeMemory {
  unsigned long long protected_kib, unprotected_kib;
};
static_assert(sizeof(ConfComputeMemory) == 16);

// Version 2. In version 1 the second sixteen bytes are the rack's GUID, and the numbers are those of
// chassis slot, compute slot and node.
struct PlatformInfo {
  unsigned version;
  unsigned char ib_guid[16];
  unsigned char chassis_serial[16];
  unsigned char slot, tray, host, peer_type, module;
};
static_assert(sizeof(PlatformInfo) == 44 && offsetof(PlatformInfo, slot) == 36);

struct Sample {
  unsigned long long timestamp_us;
  Value value;
};
static_assert(sizeof(Sample) == 16);
enum SamplingType : unsigned {
  kSamplePower = 0,
  kSampleGpuUtilization = 1,
  kSampleMemoryUtilization = 2,
  kSampleProcessorClock = 5,
  kSampleMemoryClock = 6,
};

enum TemperatureThreshold : unsigned {
  kThresholdShutdown = 0,
  kThresholdSlowdown = 1,
  kThresholdMemoryMax = 2,
  kThresholdGpuMax = 3,
  kThresholdTarget = 7,
};
enum EncoderType : unsigned { kEncoderH264, kEncoderHevc, kEncoderAv1 };
enum P2pCapability : unsigned { kP2pNvlink = 2 };
inline constexpr int kCorruptedInforom = 14;
inline constexpr unsigned kRemoteGpu = 0, kRemoteIbmNpu = 1, kRemoteSwitch = 2;
inline constexpr size_t kGspVersionBytes = 64;

// Further ids that code uses by name; the others are in nvml_fields.h and link_reader.cc.
enum MoreFieldId : unsigned {
  kFiNvlinkReplayDl = 161,
  kFiNvlinkRecoveryDl = 162,
  kFiNvlinkCrcDl = 163,
  kFiNvlinkSpeed = 164,
  kFiC2cCount = 170,
  kFiC2cStatus = 171,
  kFiPowerAverage = 185,
};
// The scopes of ids 185 and 186.
enum PowerScope : unsigned { kPowerOfGpu, kPowerOfModule, kPowerOfMemory };

// Of the slices of a GPU, and of events.
struct DeviceAttributes {  // nvmlDeviceGetAttributes_v2, of a MIG device
  unsigned multiprocessors, copy_engines, decoders, encoders, jpeg_engines, ofa_engines;
  unsigned gpu_slices, compute_slices;
  unsigned long long memory_mib;
};
static_assert(sizeof(DeviceAttributes) == 40 && offsetof(DeviceAttributes, memory_mib) == 32);

struct GpmSupport {
  unsigned version, supported;
};
inline constexpr unsigned kGpmVersion = 1;  // Of GpmSupport and of GpmMetricsGet: a plain number.

struct GpmMetric {
  unsigned id;
  int code;
  double value;
  const char *short_name, *long_name, *unit;
};
static_assert(sizeof(GpmMetric) == 40 && offsetof(GpmMetric, value) == 8);

// The library's array has grown with its metrics (98, 210, 333 elements); it reads `count` of them.
inline constexpr unsigned kGpmRoom = 333;
struct GpmMetricsGet {
  unsigned version, count;
  GpmSample older, newer;
  GpmMetric metrics[kGpmRoom];
};
static_assert(offsetof(GpmMetricsGet, metrics) == 24);

struct ProcessUtilizationInfo {
  unsigned long long timestamp_us;
  unsigned pid, sm, memory, encoder, decoder, jpeg, ofa;  // %
};
static_assert(sizeof(ProcessUtilizationInfo) == 40);
struct ProcessesUtilization {
  unsigned version, count;
  unsigned long long last_seen_us;
  ProcessUtilizationInfo* list;
};
inline constexpr unsigned kProcessesUtilizationV1 = StructVersion(sizeof(ProcessesUtilization), 1);
static_assert(kProcessesUtilizationV1 == 0x01000018);

struct ProcessUtilizationSample {
  unsigned pid;
  unsigned long long timestamp_us;
  unsigned sm, memory, encoder, decoder;  // %
};
static_assert(sizeof(ProcessUtilizationSample) == 32);

struct VgpuLicenseInfo {
  unsigned char licensed;
  struct {
    unsigned year;
    unsigned short month, day, hour, minute, second;
    unsigned char status;
  } expiry;
  unsigned state;
};
static_assert(sizeof(VgpuLicenseInfo) == 24 && offsetof(VgpuLicenseInfo, state) == 20);
inline constexpr unsigned kLicenseStateLicensed = 5;

struct VgpuUtilizationInfo {
  unsigned long long timestamp_us;
  unsigned vgpu;
  Value sm, memory, encoder, decoder, jpeg, ofa;
};
static_assert(sizeof(VgpuUtilizationInfo) == 64);
struct VgpusUtilization {
  unsigned version, value_type, count;
  unsigned long long last_seen_us;
  VgpuUtilizationInfo* list;
};
inline constexpr unsigned kVgpusUtilizationV1 = StructVersion(sizeof(VgpusUtilization), 1);
static_assert(kVgpusUtilizationV1 == 0x01000020);

struct VgpuUtilizationSample {
  unsigned vgpu;
  unsigned long long timestamp_us;
  Value sm, memory, encoder, decoder;
};
static_assert(sizeof(VgpuUtilizationSample) == 48);

struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;  // All ones: none
};
static_assert(sizeof(EventData) == 32);
struct EventDataV1 {
  Device device;
  unsigned long long type, data;
};
static_assert(sizeof(EventDataV1) == 24);

// The functions that the library has; null where it has not.
struct NvmlSymbols {
#define GPULENS_NVML_POINTER(id, symbol, parameters) \
  reader::LibraryFunction<Call, int parameters> id{Call::k##id};
  GPULENS_NVML_CALLS(GPULENS_NVML_POINTER)
#undef GPULENS_NVML_POINTER
};

}  // namespace gpulens::nvml
