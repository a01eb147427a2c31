// The functions of libamd_smi that the reader process calls, by name. Its symbol table and the names of
// hanging calls are made from the same rows.
#pragma once

#include <cstdint>
#include <string_view>

#include "reader/call_page.h"

// X(Id, symbol, parameters). The parameter types are those of reader/amdsmi_abi.h. `void*` is a
// struct whose layout differs between versions of the library.
#define GPULENS_AMDSMI_CALLS(X)                                                    \
  X(Init, amdsmi_init, (uint64_t))                                                 \
  X(LibVersion, amdsmi_get_lib_version, (void*))                                   \
  X(SocketHandles, amdsmi_get_socket_handles, (uint32_t*, Handle*))                \
  X(ProcessorHandles, amdsmi_get_processor_handles, (Handle, uint32_t*, Handle*))  \
  X(ProcessorType, amdsmi_get_processor_type, (Handle, uint32_t*))                 \
  X(Bdf, amdsmi_get_gpu_device_bdf, (Handle, uint64_t*))                           \
  X(Uuid, amdsmi_get_gpu_device_uuid, (Handle, uint32_t*, char*))                  \
  X(AsicInfo, amdsmi_get_gpu_asic_info, (Handle, void*))                           \
  X(BoardInfo, amdsmi_get_gpu_board_info, (Handle, void*))                         \
  X(VbiosInfo, amdsmi_get_gpu_vbios_info, (Handle, void*))                         \
  X(DriverInfo, amdsmi_get_gpu_driver_info, (Handle, void*))                       \
  X(KfdInfo, amdsmi_get_gpu_kfd_info, (Handle, void*))                             \
  X(NumaNode, amdsmi_get_gpu_topo_numa_affinity, (Handle, int32_t*))               \
  X(ComputePartition, amdsmi_get_gpu_compute_partition, (Handle, char*, uint32_t)) \
  X(MemoryPartition, amdsmi_get_gpu_memory_partition, (Handle, char*, uint32_t))   \
  X(PerfLevel, amdsmi_get_gpu_perf_level, (Handle, uint32_t*))                     \
  X(Activity, amdsmi_get_gpu_activity, (Handle, void*))                            \
  X(MemoryTotal, amdsmi_get_gpu_memory_total, (Handle, uint32_t, uint64_t*))       \
  X(MemoryUsage, amdsmi_get_gpu_memory_usage, (Handle, uint32_t, uint64_t*))       \
  X(PowerInfo, amdsmi_get_power_info, (Handle, void*))                             \
  X(PowerCap, amdsmi_get_power_cap_info, (Handle, uint32_t, void*))                \
  X(Energy, amdsmi_get_energy_count, (Handle, uint64_t*, float*, uint64_t*))       \
  X(Temperature, amdsmi_get_temp_metric, (Handle, uint32_t, uint32_t, int64_t*))   \
  X(ClockInfo, amdsmi_get_clock_info, (Handle, uint32_t, void*))                   \
  X(GpuMetrics, amdsmi_get_gpu_metrics_info, (Handle, void*))                      \
  X(PcieInfo, amdsmi_get_pcie_info, (Handle, void*))                               \
  X(XgmiLinkStatus, amdsmi_get_gpu_xgmi_link_status, (Handle, void*))              \
  X(FanSpeed, amdsmi_get_gpu_fan_speed, (Handle, uint32_t, int64_t*))              \
  X(FanSpeedMax, amdsmi_get_gpu_fan_speed_max, (Handle, uint32_t, uint64_t*))      \
  X(FanRpms, amdsmi_get_gpu_fan_rpms, (Handle, uint32_t, int64_t*))                \
  X(EccEnabled, amdsmi_get_gpu_ecc_enabled, (Handle, uint64_t*))                   \
  X(EccCount, amdsmi_get_gpu_ecc_count, (Handle, uint64_t, void*))                 \
  X(TotalEccCount, amdsmi_get_gpu_total_ecc_count, (Handle, void*))                \
  X(BadPages, amdsmi_get_gpu_bad_page_info, (Handle, uint32_t*, void*))            \
  X(Processes, amdsmi_get_gpu_process_list, (Handle, uint32_t*, void*))

namespace gpulens::amdsmi {

// The call that a thread of the reader process is in. kNone: in none. kLoadLibrary is dlopen.
enum class Call : reader::CallNumber {
  kNone,
  kLoadLibrary,
#define GPULENS_AMDSMI_CALL_ID(id, symbol, parameters) k##id,
  GPULENS_AMDSMI_CALLS(GPULENS_AMDSMI_CALL_ID)
#undef GPULENS_AMDSMI_CALL_ID
      kCount,
};

// "amdsmi_get_power_info"; "unknown" for a number that is no call. Static storage.
std::string_view CallName(reader::CallNumber call) noexcept;

}  // namespace gpulens::amdsmi
