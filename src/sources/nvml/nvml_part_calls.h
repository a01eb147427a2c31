// The library functions that tell of the parts of a GPU (MIG devices, GPM samples, vGPUs, what each
// process uses) and of events: further rows of GPULENS_NVML_CALLS, in the same form. The types are
// declared in driver/nvml_abi.h and defined in driver/parts/parts_abi.h.
#pragma once

#define GPULENS_NVML_PART_CALLS(X)                                                                      \
  X(MaxMigDevices, "nvmlDeviceGetMaxMigDeviceCount", (Device, unsigned*))                               \
  X(MigDeviceHandle, "nvmlDeviceGetMigDeviceHandleByIndex", (Device, unsigned, Device*))                \
  X(MigGpuInstance, "nvmlDeviceGetGpuInstanceId", (Device, unsigned*))                                  \
  X(MigComputeInstance, "nvmlDeviceGetComputeInstanceId", (Device, unsigned*))                          \
  X(MigAttributes, "nvmlDeviceGetAttributes_v2", (Device, DeviceAttributes*))                           \
  X(GpmQuerySupport, "nvmlGpmQueryDeviceSupport", (Device, GpmSupport*))                                \
  X(GpmAlloc, "nvmlGpmSampleAlloc", (GpmSample*))                                                       \
  X(GpmFree, "nvmlGpmSampleFree", (GpmSample))                                                          \
  X(GpmTake, "nvmlGpmSampleGet", (Device, GpmSample))                                                   \
  X(GpmTakeMig, "nvmlGpmMigSampleGet", (Device, unsigned, GpmSample))                                   \
  X(GpmMetrics, "nvmlGpmMetricsGet", (GpmMetricsGet*))                                                  \
  X(ProcessesUtilizationInfo, "nvmlDeviceGetProcessesUtilizationInfo", (Device, ProcessesUtilization*)) \
  X(ProcessUtilization, "nvmlDeviceGetProcessUtilization",                                              \
    (Device, ProcessUtilizationSample*, unsigned*, unsigned long long))                                 \
  X(ActiveVgpus, "nvmlDeviceGetActiveVgpus", (Device, unsigned*, unsigned*))                            \
  X(VgpuUuid, "nvmlVgpuInstanceGetUUID", (unsigned, char*, unsigned))                                   \
  X(VgpuVm, "nvmlVgpuInstanceGetVmID", (unsigned, char*, unsigned, unsigned*))                          \
  X(VgpuDriver, "nvmlVgpuInstanceGetVmDriverVersion", (unsigned, char*, unsigned))                      \
  X(VgpuType, "nvmlVgpuInstanceGetType", (unsigned, unsigned*))                                         \
  X(VgpuTypeName, "nvmlVgpuTypeGetName", (unsigned, char*, unsigned*))                                  \
  X(VgpuMemory, "nvmlVgpuInstanceGetFbUsage", (unsigned, unsigned long long*))                          \
  X(VgpuLicense, "nvmlVgpuInstanceGetLicenseInfo_v2", (unsigned, VgpuLicenseInfo*))                     \
  X(VgpusUtilizationInfo, "nvmlDeviceGetVgpuInstancesUtilizationInfo", (Device, VgpusUtilization*))     \
  X(VgpuUtilization, "nvmlDeviceGetVgpuUtilization",                                                    \
    (Device, unsigned long long, unsigned*, unsigned*, VgpuUtilizationSample*))                         \
  X(SupportedEvents, "nvmlDeviceGetSupportedEventTypes", (Device, unsigned long long*))                 \
  X(EventSetCreate, "nvmlEventSetCreate", (EventSet*))                                                  \
  X(RegisterEvents, "nvmlDeviceRegisterEvents", (Device, unsigned long long, EventSet))                 \
  X(EventWait, "nvmlEventSetWait_v2", (EventSet, EventData*, unsigned))                                 \
  X(EventWaitV1, "nvmlEventSetWait", (EventSet, EventDataV1*, unsigned))
