// More of the library's ABI, for driver/nvml_abi.h, which alone includes this: structs, enumerations
// and field ids of what a board tells beside its common readings.
#pragma once

#include <cstddef>

namespace gpulens::nvml {

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

// Ids for nvmlDeviceGetFieldValues, beside those of FieldId. Named where code asks for one by name; the
// rest stand in the tables of field_ids.h and link_reader.cc.
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

}  // namespace gpulens::nvml
