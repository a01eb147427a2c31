// The library functions the reader process calls, by name. Its symbol table and the names of hanging calls
// are made from the same rows.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "reader/call_page.h"

// X(Id, symbol, parameters). The parameter types are those of reader/nvml_abi.h. A function with
// several versions has one row per version: the struct that goes with it differs.
#define GPULENS_NVML_CALLS(X)                                                                             \
  X(Init, nvmlInit_v2, ())                                                                                \
  X(InitV1, nvmlInit, ())                                                                                 \
  X(DriverVersion, nvmlSystemGetDriverVersion, (char*, unsigned))                                         \
  X(NvmlVersion, nvmlSystemGetNVMLVersion, (char*, unsigned))                                             \
  X(CudaVersion, nvmlSystemGetCudaDriverVersion_v2, (int*))                                               \
  X(DeviceCount, nvmlDeviceGetCount_v2, (unsigned*))                                                      \
  X(DeviceCountV1, nvmlDeviceGetCount, (unsigned*))                                                       \
  X(HandleByIndex, nvmlDeviceGetHandleByIndex_v2, (unsigned, Device*))                                    \
  X(HandleByIndexV1, nvmlDeviceGetHandleByIndex, (unsigned, Device*))                                     \
  X(Uuid, nvmlDeviceGetUUID, (Device, char*, unsigned))                                                   \
  X(Name, nvmlDeviceGetName, (Device, char*, unsigned))                                                   \
  X(Serial, nvmlDeviceGetSerial, (Device, char*, unsigned))                                               \
  X(MinorNumber, nvmlDeviceGetMinorNumber, (Device, unsigned*))                                           \
  X(Vbios, nvmlDeviceGetVbiosVersion, (Device, char*, unsigned))                                          \
  X(Inforom, nvmlDeviceGetInforomImageVersion, (Device, char*, unsigned))                                 \
  X(PciInfo, nvmlDeviceGetPciInfo_v3, (Device, PciInfo*))                                                 \
  X(PciInfoV2, nvmlDeviceGetPciInfo_v2, (Device, PciInfoV2*))                                             \
  X(Architecture, nvmlDeviceGetArchitecture, (Device, unsigned*))                                         \
  X(ComputeCapability, nvmlDeviceGetCudaComputeCapability, (Device, int*, int*))                          \
  X(MemoryBusWidth, nvmlDeviceGetMemoryBusWidth, (Device, unsigned*))                                     \
  X(AddressingMode, nvmlDeviceGetAddressingMode, (Device, AddressingMode*))                               \
  X(NumaNodeId, nvmlDeviceGetNumaNodeId, (Device, unsigned*))                                             \
  X(NumFans, nvmlDeviceGetNumFans, (Device, unsigned*))                                                   \
  X(MigMode, nvmlDeviceGetMigMode, (Device, unsigned*, unsigned*))                                        \
  X(EccMode, nvmlDeviceGetEccMode, (Device, unsigned*, unsigned*))                                        \
  X(PersistenceMode, nvmlDeviceGetPersistenceMode, (Device, unsigned*))                                   \
  X(UtilizationRates, nvmlDeviceGetUtilizationRates, (Device, Utilization*))                              \
  X(EncoderUtilization, nvmlDeviceGetEncoderUtilization, (Device, unsigned*, unsigned*))                  \
  X(DecoderUtilization, nvmlDeviceGetDecoderUtilization, (Device, unsigned*, unsigned*))                  \
  X(MemoryInfoV2, nvmlDeviceGetMemoryInfo_v2, (Device, MemoryV2*))                                        \
  X(MemoryInfo, nvmlDeviceGetMemoryInfo, (Device, Memory*))                                               \
  X(Bar1Memory, nvmlDeviceGetBAR1MemoryInfo, (Device, Bar1Memory*))                                       \
  X(TemperatureV, nvmlDeviceGetTemperatureV, (Device, TemperatureV1*))                                    \
  X(Temperature, nvmlDeviceGetTemperature, (Device, unsigned, unsigned*))                                 \
  X(PowerUsage, nvmlDeviceGetPowerUsage, (Device, unsigned*))                                             \
  X(EnforcedPowerLimit, nvmlDeviceGetEnforcedPowerLimit, (Device, unsigned*))                             \
  X(TotalEnergy, nvmlDeviceGetTotalEnergyConsumption, (Device, unsigned long long*))                      \
  X(ClockInfo, nvmlDeviceGetClockInfo, (Device, unsigned, unsigned*))                                     \
  X(MaxClockInfo, nvmlDeviceGetMaxClockInfo, (Device, unsigned, unsigned*))                               \
  X(PerformanceState, nvmlDeviceGetPerformanceState, (Device, unsigned*))                                 \
  X(ClockEventReasons, nvmlDeviceGetCurrentClocksEventReasons, (Device, unsigned long long*))             \
  X(ThrottleReasons, nvmlDeviceGetCurrentClocksThrottleReasons, (Device, unsigned long long*))            \
  X(FanSpeedV2, nvmlDeviceGetFanSpeed_v2, (Device, unsigned, unsigned*))                                  \
  X(FanSpeed, nvmlDeviceGetFanSpeed, (Device, unsigned*))                                                 \
  X(TotalEccErrors, nvmlDeviceGetTotalEccErrors, (Device, unsigned, unsigned, unsigned long long*))       \
  X(RemappedRows, nvmlDeviceGetRemappedRows, (Device, unsigned*, unsigned*, unsigned*, unsigned*))        \
  X(RetiredPagesV2, nvmlDeviceGetRetiredPages_v2,                                                         \
    (Device, unsigned, unsigned*, unsigned long long*, unsigned long long*))                              \
  X(RetiredPages, nvmlDeviceGetRetiredPages, (Device, unsigned, unsigned*, unsigned long long*))          \
  X(RetiredPagesPending, nvmlDeviceGetRetiredPagesPendingStatus, (Device, unsigned*))                     \
  X(PcieReplayCounter, nvmlDeviceGetPcieReplayCounter, (Device, unsigned*))                               \
  X(PcieThroughput, nvmlDeviceGetPcieThroughput, (Device, unsigned, unsigned*))                           \
  X(PcieLinkGen, nvmlDeviceGetCurrPcieLinkGeneration, (Device, unsigned*))                                \
  X(PcieLinkWidth, nvmlDeviceGetCurrPcieLinkWidth, (Device, unsigned*))                                   \
  X(PcieMaxLinkGen, nvmlDeviceGetMaxPcieLinkGeneration, (Device, unsigned*))                              \
  X(PcieMaxLinkWidth, nvmlDeviceGetMaxPcieLinkWidth, (Device, unsigned*))                                 \
  X(FieldValues, nvmlDeviceGetFieldValues, (Device, int, FieldValue*))                                    \
  X(NvLinkState, nvmlDeviceGetNvLinkState, (Device, unsigned, unsigned*))                                 \
  X(ComputeProcessesV3, nvmlDeviceGetComputeRunningProcesses_v3, (Device, unsigned*, void*))              \
  X(ComputeProcessesV2, nvmlDeviceGetComputeRunningProcesses_v2, (Device, unsigned*, void*))              \
  X(ComputeProcesses, nvmlDeviceGetComputeRunningProcesses, (Device, unsigned*, void*))                   \
  X(GraphicsProcessesV3, nvmlDeviceGetGraphicsRunningProcesses_v3, (Device, unsigned*, void*))            \
  X(GraphicsProcessesV2, nvmlDeviceGetGraphicsRunningProcesses_v2, (Device, unsigned*, void*))            \
  X(GraphicsProcesses, nvmlDeviceGetGraphicsRunningProcesses, (Device, unsigned*, void*))                 \
  X(MpsProcessesV3, nvmlDeviceGetMPSComputeRunningProcesses_v3, (Device, unsigned*, void*))               \
  X(MpsProcessesV2, nvmlDeviceGetMPSComputeRunningProcesses_v2, (Device, unsigned*, void*))               \
  X(MpsProcesses, nvmlDeviceGetMPSComputeRunningProcesses, (Device, unsigned*, void*))                    \
  X(JpgUtilization, nvmlDeviceGetJpgUtilization, (Device, unsigned*, unsigned*))                          \
  X(OfaUtilization, nvmlDeviceGetOfaUtilization, (Device, unsigned*, unsigned*))                          \
  X(TemperatureThreshold, nvmlDeviceGetTemperatureThreshold, (Device, unsigned, unsigned*))               \
  X(MarginTemperature, nvmlDeviceGetMarginTemperature, (Device, MarginTemperature*))                      \
  X(ApplicationsClock, nvmlDeviceGetApplicationsClock, (Device, unsigned, unsigned*))                     \
  X(SupportedEventReasons, nvmlDeviceGetSupportedClocksEventReasons, (Device, unsigned long long*))       \
  X(SupportedThrottleReasons, nvmlDeviceGetSupportedClocksThrottleReasons, (Device, unsigned long long*)) \
  X(FanSpeedRpm, nvmlDeviceGetFanSpeedRPM, (Device, FanSpeedInfo*))                                       \
  X(EncoderStats, nvmlDeviceGetEncoderStats, (Device, unsigned*, unsigned*, unsigned*))                   \
  X(EncoderCapacity, nvmlDeviceGetEncoderCapacity, (Device, unsigned, unsigned*))                         \
  X(FbcStats, nvmlDeviceGetFBCStats, (Device, FbcStats*))                                                 \
  X(MemoryErrorCounter, nvmlDeviceGetMemoryErrorCounter,                                                  \
    (Device, unsigned, unsigned, unsigned, unsigned long long*))                                          \
  X(SramEccErrorStatus, nvmlDeviceGetSramEccErrorStatus, (Device, SramEccErrorStatus*))                   \
  X(RowRemapperHistogram, nvmlDeviceGetRowRemapperHistogram, (Device, RowRemapperHistogram*))             \
  X(UnrepairableMemory, nvmlDeviceGetUnrepairableMemoryFlag_v1, (Device, unsigned*))                      \
  X(FabricInfoV, nvmlDeviceGetGpuFabricInfoV, (Device, FabricInfoV3*))                                    \
  X(FabricInfo, nvmlDeviceGetGpuFabricInfo, (Device, FabricInfoV1*))                                      \
  X(ConfComputeState, nvmlSystemGetConfComputeState, (ConfComputeState*))                                 \
  X(ConfComputeReady, nvmlSystemGetConfComputeGpusReadyState, (unsigned*))                                \
  X(ConfComputeMemory, nvmlDeviceGetConfComputeMemSizeInfo, (Device, ConfComputeMemory*))                 \
  X(ComputeMode, nvmlDeviceGetComputeMode, (Device, unsigned*))                                           \
  X(DisplayActive, nvmlDeviceGetDisplayActive, (Device, unsigned*))                                       \
  X(ValidateInforom, nvmlDeviceValidateInforom, (Device))                                                 \
  X(VirtualizationMode, nvmlDeviceGetVirtualizationMode, (Device, unsigned*))                             \
  X(PowerSource, nvmlDeviceGetPowerSource, (Device, unsigned*))                                           \
  X(PlatformInfo, nvmlDeviceGetPlatformInfo, (Device, PlatformInfo*))                                     \
  X(GspFirmwareVersion, nvmlDeviceGetGspFirmwareVersion, (Device, char*))                                 \
  X(CpuAffinity, nvmlDeviceGetCpuAffinity, (Device, unsigned, unsigned long*))                            \
  X(MemoryAffinity, nvmlDeviceGetMemoryAffinity, (Device, unsigned, unsigned long*, unsigned))            \
  X(TopologyAncestor, nvmlDeviceGetTopologyCommonAncestor, (Device, Device, unsigned*))                   \
  X(P2pStatus, nvmlDeviceGetP2PStatus, (Device, Device, unsigned, unsigned*))                             \
  X(Samples, nvmlDeviceGetSamples, (Device, unsigned, unsigned long long, unsigned*, unsigned*, Sample*)) \
  X(NvLinkVersion, nvmlDeviceGetNvLinkVersion, (Device, unsigned, unsigned*))                             \
  X(NvLinkRemoteType, nvmlDeviceGetNvLinkRemoteDeviceType, (Device, unsigned, unsigned*))                 \
  X(NvLinkRemotePci, nvmlDeviceGetNvLinkRemotePciInfo_v2, (Device, unsigned, nvml::PciInfo*))             \
  X(MaxMigDevices, nvmlDeviceGetMaxMigDeviceCount, (Device, unsigned*))                                   \
  X(MigDeviceHandle, nvmlDeviceGetMigDeviceHandleByIndex, (Device, unsigned, Device*))                    \
  X(MigGpuInstance, nvmlDeviceGetGpuInstanceId, (Device, unsigned*))                                      \
  X(MigComputeInstance, nvmlDeviceGetComputeInstanceId, (Device, unsigned*))                              \
  X(MigAttributes, nvmlDeviceGetAttributes_v2, (Device, DeviceAttributes*))                               \
  X(GpmQuerySupport, nvmlGpmQueryDeviceSupport, (Device, GpmSupport*))                                    \
  X(GpmAlloc, nvmlGpmSampleAlloc, (GpmSample*))                                                           \
  X(GpmFree, nvmlGpmSampleFree, (GpmSample))                                                              \
  X(GpmTake, nvmlGpmSampleGet, (Device, GpmSample))                                                       \
  X(GpmTakeMig, nvmlGpmMigSampleGet, (Device, unsigned, GpmSample))                                       \
  X(GpmMetrics, nvmlGpmMetricsGet, (GpmMetricsGet*))                                                      \
  X(ProcessesUtilizationInfo, nvmlDeviceGetProcessesUtilizationInfo, (Device, ProcessesUtilization*))     \
  X(ProcessUtilization, nvmlDeviceGetProcessUtilization,                                                  \
    (Device, ProcessUtilizationSample*, unsigned*, unsigned long long))                                   \
  X(ActiveVgpus, nvmlDeviceGetActiveVgpus, (Device, unsigned*, unsigned*))                                \
  X(VgpuUuid, nvmlVgpuInstanceGetUUID, (unsigned, char*, unsigned))                                       \
  X(VgpuVm, nvmlVgpuInstanceGetVmID, (unsigned, char*, unsigned, unsigned*))                              \
  X(VgpuDriver, nvmlVgpuInstanceGetVmDriverVersion, (unsigned, char*, unsigned))                          \
  X(VgpuType, nvmlVgpuInstanceGetType, (unsigned, unsigned*))                                             \
  X(VgpuTypeName, nvmlVgpuTypeGetName, (unsigned, char*, unsigned*))                                      \
  X(VgpuMemory, nvmlVgpuInstanceGetFbUsage, (unsigned, unsigned long long*))                              \
  X(VgpuLicense, nvmlVgpuInstanceGetLicenseInfo_v2, (unsigned, VgpuLicenseInfo*))                         \
  X(VgpusUtilizationInfo, nvmlDeviceGetVgpuInstancesUtilizationInfo, (Device, VgpusUtilization*))         \
  X(VgpuUtilization, nvmlDeviceGetVgpuUtilization,                                                        \
    (Device, unsigned long long, unsigned*, unsigned*, VgpuUtilizationSample*))                           \
  X(SupportedEvents, nvmlDeviceGetSupportedEventTypes, (Device, unsigned long long*))                     \
  X(EventSetCreate, nvmlEventSetCreate, (EventSet*))                                                      \
  X(RegisterEvents, nvmlDeviceRegisterEvents, (Device, unsigned long long, EventSet))                     \
  X(EventWait, nvmlEventSetWait_v2, (EventSet, EventData*, unsigned))                                     \
  X(EventWaitV1, nvmlEventSetWait, (EventSet, EventDataV1*, unsigned))

namespace gpulens::nvml {

// The call that a thread of the reader process is in. kNone: in none. kLoadLibrary is dlopen.
enum class Call : reader::CallNumber {
  kNone,
  kLoadLibrary,
#define GPULENS_NVML_CALL_ID(id, symbol, parameters) k##id,
  GPULENS_NVML_CALLS(GPULENS_NVML_CALL_ID)
#undef GPULENS_NVML_CALL_ID
      kCount,
};

// "nvmlDeviceGetPowerUsage"; "unknown" for a number that is no call. Static storage.
std::string_view CallName(Call call) noexcept;
inline std::string_view CallName(reader::CallNumber call) noexcept {
  return CallName(static_cast<Call>(call));
}

// Calls that wake a sleeping GPU or read a slow memory, and may rightly take many seconds: they have a
// longer deadline.
constexpr bool IsSlowCall(Call call) noexcept {
  return call == Call::kLoadLibrary || call == Call::kInit || call == Call::kInitV1 ||
         call == Call::kDeviceCount || call == Call::kHandleByIndex || call == Call::kHandleByIndexV1 ||
         call == Call::kValidateInforom;
}

// How long the thread that waits for events stays in one call.
inline constexpr Duration kEventWait = std::chrono::milliseconds(500);

inline constexpr uint32_t kMaxGpus = reader::kMaxDevices;
using reader::CallPage;
using reader::CallSlot;
using reader::kCallPageBytes;

}  // namespace gpulens::nvml
