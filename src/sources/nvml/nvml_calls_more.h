// More rows for nvml_calls.h, same columns; included by that header alone. The parameter types are
// those of driver/items/abi_more.h.
#pragma once

#define GPULENS_NVML_MORE_CALLS(X)                                                                          \
  X(JpgUtilization, "nvmlDeviceGetJpgUtilization", (Device, unsigned*, unsigned*))                          \
  X(OfaUtilization, "nvmlDeviceGetOfaUtilization", (Device, unsigned*, unsigned*))                          \
  X(TemperatureThreshold, "nvmlDeviceGetTemperatureThreshold", (Device, unsigned, unsigned*))               \
  X(MarginTemperature, "nvmlDeviceGetMarginTemperature", (Device, MarginTemperature*))                      \
  X(ApplicationsClock, "nvmlDeviceGetApplicationsClock", (Device, unsigned, unsigned*))                     \
  X(SupportedEventReasons, "nvmlDeviceGetSupportedClocksEventReasons", (Device, unsigned long long*))       \
  X(SupportedThrottleReasons, "nvmlDeviceGetSupportedClocksThrottleReasons", (Device, unsigned long long*)) \
  X(FanSpeedRpm, "nvmlDeviceGetFanSpeedRPM", (Device, FanSpeedInfo*))                                       \
  X(EncoderStats, "nvmlDeviceGetEncoderStats", (Device, unsigned*, unsigned*, unsigned*))                   \
  X(EncoderCapacity, "nvmlDeviceGetEncoderCapacity", (Device, unsigned, unsigned*))                         \
  X(FbcStats, "nvmlDeviceGetFBCStats", (Device, FbcStats*))                                                 \
  X(MemoryErrorCounter, "nvmlDeviceGetMemoryErrorCounter",                                                  \
    (Device, unsigned, unsigned, unsigned, unsigned long long*))                                            \
  X(SramEccErrorStatus, "nvmlDeviceGetSramEccErrorStatus", (Device, SramEccErrorStatus*))                   \
  X(RowRemapperHistogram, "nvmlDeviceGetRowRemapperHistogram", (Device, RowRemapperHistogram*))             \
  X(UnrepairableMemory, "nvmlDeviceGetUnrepairableMemoryFlag_v1", (Device, unsigned*))                      \
  X(FabricInfoV, "nvmlDeviceGetGpuFabricInfoV", (Device, FabricInfoV3*))                                    \
  X(FabricInfo, "nvmlDeviceGetGpuFabricInfo", (Device, FabricInfoV1*))                                      \
  X(ConfComputeState, "nvmlSystemGetConfComputeState", (ConfComputeState*))                                 \
  X(ConfComputeReady, "nvmlSystemGetConfComputeGpusReadyState", (unsigned*))                                \
  X(ConfComputeMemory, "nvmlDeviceGetConfComputeMemSizeInfo", (Device, ConfComputeMemory*))                 \
  X(ComputeMode, "nvmlDeviceGetComputeMode", (Device, unsigned*))                                           \
  X(DisplayActive, "nvmlDeviceGetDisplayActive", (Device, unsigned*))                                       \
  X(ValidateInforom, "nvmlDeviceValidateInforom", (Device))                                                 \
  X(VirtualizationMode, "nvmlDeviceGetVirtualizationMode", (Device, unsigned*))                             \
  X(PowerSource, "nvmlDeviceGetPowerSource", (Device, unsigned*))                                           \
  X(PlatformInfo, "nvmlDeviceGetPlatformInfo", (Device, PlatformInfo*))                                     \
  X(GspFirmwareVersion, "nvmlDeviceGetGspFirmwareVersion", (Device, char*))                                 \
  X(CpuAffinity, "nvmlDeviceGetCpuAffinity", (Device, unsigned, unsigned long*))                            \
  X(MemoryAffinity, "nvmlDeviceGetMemoryAffinity", (Device, unsigned, unsigned long*, unsigned))            \
  X(TopologyAncestor, "nvmlDeviceGetTopologyCommonAncestor", (Device, Device, unsigned*))                   \
  X(P2pStatus, "nvmlDeviceGetP2PStatus", (Device, Device, unsigned, unsigned*))                             \
  X(Samples, "nvmlDeviceGetSamples", (Device, unsigned, unsigned long long, unsigned*, unsigned*, Sample*)) \
  X(NvLinkVersion, "nvmlDeviceGetNvLinkVersion", (Device, unsigned, unsigned*))                             \
  X(NvLinkRemoteType, "nvmlDeviceGetNvLinkRemoteDeviceType", (Device, unsigned, unsigned*))                 \
  X(NvLinkRemotePci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", (Device, unsigned, nvml::PciInfo*))
