// The library functions the driver process calls, by name, and the page it shares with the agent: which
// call each reader thread is in, and since when. A call that never returns is so known by name although
// its thread cannot speak. The driver makes its symbol table from the same rows.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "sources/nvml/nvml_calls_more.h"
#include "sources/nvml/parts/nvml_part_calls.h"

// X(Id, "symbol", parameters). The parameter types are those of driver/nvml_abi.h. A function with
// several versions has one row per version: the struct that goes with it differs.
#define GPULENS_NVML_CALLS(X)                                                                         \
  X(Init, "nvmlInit_v2", ())                                                                          \
  X(InitV1, "nvmlInit", ())                                                                           \
  X(DriverVersion, "nvmlSystemGetDriverVersion", (char*, unsigned))                                   \
  X(NvmlVersion, "nvmlSystemGetNVMLVersion", (char*, unsigned))                                       \
  X(CudaVersion, "nvmlSystemGetCudaDriverVersion_v2", (int*))                                         \
  X(DeviceCount, "nvmlDeviceGetCount_v2", (unsigned*))                                                \
  X(DeviceCountV1, "nvmlDeviceGetCount", (unsigned*))                                                 \
  X(HandleByIndex, "nvmlDeviceGetHandleByIndex_v2", (unsigned, Device*))                              \
  X(HandleByIndexV1, "nvmlDeviceGetHandleByIndex", (unsigned, Device*))                               \
  X(Uuid, "nvmlDeviceGetUUID", (Device, char*, unsigned))                                             \
  X(Name, "nvmlDeviceGetName", (Device, char*, unsigned))                                             \
  X(Serial, "nvmlDeviceGetSerial", (Device, char*, unsigned))                                         \
  X(MinorNumber, "nvmlDeviceGetMinorNumber", (Device, unsigned*))                                     \
  X(Vbios, "nvmlDeviceGetVbiosVersion", (Device, char*, unsigned))                                    \
  X(Inforom, "nvmlDeviceGetInforomImageVersion", (Device, char*, unsigned))                           \
  X(PciInfo, "nvmlDeviceGetPciInfo_v3", (Device, PciInfo*))                                           \
  X(PciInfoV2, "nvmlDeviceGetPciInfo_v2", (Device, PciInfoV2*))                                       \
  X(Architecture, "nvmlDeviceGetArchitecture", (Device, unsigned*))                                   \
  X(ComputeCapability, "nvmlDeviceGetCudaComputeCapability", (Device, int*, int*))                    \
  X(MemoryBusWidth, "nvmlDeviceGetMemoryBusWidth", (Device, unsigned*))                               \
  X(AddressingMode, "nvmlDeviceGetAddressingMode", (Device, AddressingMode*))                         \
  X(NumaNodeId, "nvmlDeviceGetNumaNodeId", (Device, unsigned*))                                       \
  X(NumFans, "nvmlDeviceGetNumFans", (Device, unsigned*))                                             \
  X(MigMode, "nvmlDeviceGetMigMode", (Device, unsigned*, unsigned*))                                  \
  X(EccMode, "nvmlDeviceGetEccMode", (Device, unsigned*, unsigned*))                                  \
  X(PersistenceMode, "nvmlDeviceGetPersistenceMode", (Device, unsigned*))                             \
  X(UtilizationRates, "nvmlDeviceGetUtilizationRates", (Device, Utilization*))                        \
  X(EncoderUtilization, "nvmlDeviceGetEncoderUtilization", (Device, unsigned*, unsigned*))            \
  X(DecoderUtilization, "nvmlDeviceGetDecoderUtilization", (Device, unsigned*, unsigned*))            \
  X(MemoryInfoV2, "nvmlDeviceGetMemoryInfo_v2", (Device, MemoryV2*))                                  \
  X(MemoryInfo, "nvmlDeviceGetMemoryInfo", (Device, Memory*))                                         \
  X(Bar1Memory, "nvmlDeviceGetBAR1MemoryInfo", (Device, Bar1Memory*))                                 \
  X(TemperatureV, "nvmlDeviceGetTemperatureV", (Device, TemperatureV1*))                              \
  X(Temperature, "nvmlDeviceGetTemperature", (Device, unsigned, unsigned*))                           \
  X(PowerUsage, "nvmlDeviceGetPowerUsage", (Device, unsigned*))                                       \
  X(EnforcedPowerLimit, "nvmlDeviceGetEnforcedPowerLimit", (Device, unsigned*))                       \
  X(TotalEnergy, "nvmlDeviceGetTotalEnergyConsumption", (Device, unsigned long long*))                \
  X(ClockInfo, "nvmlDeviceGetClockInfo", (Device, unsigned, unsigned*))                               \
  X(MaxClockInfo, "nvmlDeviceGetMaxClockInfo", (Device, unsigned, unsigned*))                         \
  X(PerformanceState, "nvmlDeviceGetPerformanceState", (Device, unsigned*))                           \
  X(ClockEventReasons, "nvmlDeviceGetCurrentClocksEventReasons", (Device, unsigned long long*))       \
  X(ThrottleReasons, "nvmlDeviceGetCurrentClocksThrottleReasons", (Device, unsigned long long*))      \
  X(FanSpeedV2, "nvmlDeviceGetFanSpeed_v2", (Device, unsigned, unsigned*))                            \
  X(FanSpeed, "nvmlDeviceGetFanSpeed", (Device, unsigned*))                                           \
  X(TotalEccErrors, "nvmlDeviceGetTotalEccErrors", (Device, unsigned, unsigned, unsigned long long*)) \
  X(RemappedRows, "nvmlDeviceGetRemappedRows", (Device, unsigned*, unsigned*, unsigned*, unsigned*))  \
  X(RetiredPagesV2, "nvmlDeviceGetRetiredPages_v2",                                                   \
    (Device, unsigned, unsigned*, unsigned long long*, unsigned long long*))                          \
  X(RetiredPages, "nvmlDeviceGetRetiredPages", (Device, unsigned, unsigned*, unsigned long long*))    \
  X(RetiredPagesPending, "nvmlDeviceGetRetiredPagesPendingStatus", (Device, unsigned*))               \
  X(PcieReplayCounter, "nvmlDeviceGetPcieReplayCounter", (Device, unsigned*))                         \
  X(PcieThroughput, "nvmlDeviceGetPcieThroughput", (Device, unsigned, unsigned*))                     \
  X(PcieLinkGen, "nvmlDeviceGetCurrPcieLinkGeneration", (Device, unsigned*))                          \
  X(PcieLinkWidth, "nvmlDeviceGetCurrPcieLinkWidth", (Device, unsigned*))                             \
  X(PcieMaxLinkGen, "nvmlDeviceGetMaxPcieLinkGeneration", (Device, unsigned*))                        \
  X(PcieMaxLinkWidth, "nvmlDeviceGetMaxPcieLinkWidth", (Device, unsigned*))                           \
  X(FieldValues, "nvmlDeviceGetFieldValues", (Device, int, FieldValue*))                              \
  X(NvLinkState, "nvmlDeviceGetNvLinkState", (Device, unsigned, unsigned*))                           \
  X(ComputeProcessesV3, "nvmlDeviceGetComputeRunningProcesses_v3", (Device, unsigned*, void*))        \
  X(ComputeProcessesV2, "nvmlDeviceGetComputeRunningProcesses_v2", (Device, unsigned*, void*))        \
  X(ComputeProcesses, "nvmlDeviceGetComputeRunningProcesses", (Device, unsigned*, void*))             \
  X(GraphicsProcessesV3, "nvmlDeviceGetGraphicsRunningProcesses_v3", (Device, unsigned*, void*))      \
  X(GraphicsProcessesV2, "nvmlDeviceGetGraphicsRunningProcesses_v2", (Device, unsigned*, void*))      \
  X(GraphicsProcesses, "nvmlDeviceGetGraphicsRunningProcesses", (Device, unsigned*, void*))           \
  X(MpsProcessesV3, "nvmlDeviceGetMPSComputeRunningProcesses_v3", (Device, unsigned*, void*))         \
  X(MpsProcessesV2, "nvmlDeviceGetMPSComputeRunningProcesses_v2", (Device, unsigned*, void*))         \
  X(MpsProcesses, "nvmlDeviceGetMPSComputeRunningProcesses", (Device, unsigned*, void*))              \
  GPULENS_NVML_MORE_CALLS(X)                                                                          \
  GPULENS_NVML_PART_CALLS(X)

namespace gpulens::nvml {

// What a reader thread of the driver is in at the moment. kNone: in none. kLoadLibrary is dlopen.
enum class Call : uint16_t {
  kNone,
  kLoadLibrary,
#define GPULENS_NVML_CALL_ID(id, name, parameters) k##id,
  GPULENS_NVML_CALLS(GPULENS_NVML_CALL_ID)
#undef GPULENS_NVML_CALL_ID
      kCount,
};

// "nvmlDeviceGetPowerUsage"; "unknown" for a number that is no call. Static storage.
std::string_view CallName(Call call) noexcept;

// Calls that wake a sleeping GPU or read a slow memory, and may rightly take many seconds: they have a
// longer deadline.
constexpr bool IsSlowCall(Call call) noexcept {
  return call == Call::kLoadLibrary || call == Call::kInit || call == Call::kInitV1 ||
         call == Call::kDeviceCount || call == Call::kHandleByIndex || call == Call::kHandleByIndexV1 ||
         call == Call::kValidateInforom;
}

inline constexpr uint32_t kMaxGpus = 64;

// Written by one thread of the driver, read by the agent at any time. The reader may see the call of
// one moment with the time of a later one: it can only make a call look younger.
class CallSlot {
 public:
  void Begin(Call call, int64_t boot_ns) noexcept {
    since_boot_ns_.store(boot_ns, std::memory_order_relaxed);
    call_.store(static_cast<uint32_t>(call), std::memory_order_release);
  }
  void End() noexcept { call_.store(0, std::memory_order_release); }

  struct View {
    Call call = Call::kNone;  // May be a number that is no call: the driver's bytes are not trusted.
    int64_t since_boot_ns = 0;
  };
  View Read() const noexcept {
    uint32_t call = call_.load(std::memory_order_acquire);
    return {static_cast<Call>(call < 0xFFFF ? call : 0xFFFF), since_boot_ns_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<uint32_t> call_{0};
  std::atomic<int64_t> since_boot_ns_{0};
};
static_assert(sizeof(CallSlot) == 16);
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// Lies in a memory file of kCallPageBytes that starts as zeros.
struct CallPage {
  CallSlot main;
  std::array<CallSlot, kMaxGpus> gpus;
  CallSlot events;  // Of the thread that waits for events; to wait is its work.
};
inline constexpr size_t kCallPageBytes = 4096;
static_assert(sizeof(CallPage) <= kCallPageBytes);

}  // namespace gpulens::nvml
