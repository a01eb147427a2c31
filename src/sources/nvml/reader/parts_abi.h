// The structs of the NVML functions for parts of a GPU and for events. Sizes and offsets are those of
// the library's C ABI on 64-bit machines. Nothing here calls anything.
#pragma once

#include "sources/nvml/reader/nvml_abi.h"

namespace gpulens::nvml {

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

}  // namespace gpulens::nvml
