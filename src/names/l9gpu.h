// The l9gpu project's names that are not native, for its dashboards and alerts, with its types and documented
// units. Its wrong values are corrected: power is in W, throttling reads the right bits, XIDs are XIDs.
//
// All its other names are native, so this naming is over native, with host and cluster as labels, by which
// its dashboards select.
#pragma once

#include "catalog/gpu.h"
#include "catalog/inference.h"
#include "catalog/nccl.h"
#include "names/naming.h"

namespace gpulens {

inline constexpr NamingLabel kL9gpuLabels[] = {{"host_name", "host.name"},
                                               {"k8s_cluster_name", "k8s.cluster.name"}};

constexpr NamingRow L9gpuRow(const MetricDesc& native, const NamingName& name, bool keep_native = false) {
  NamingRow row = NamedRow(native, name);
  row.all_attributes = true;
  row.keep_native = keep_native;
  return row;
}

inline constexpr NamingRow kL9gpuRows[] = {
    L9gpuRow(kGpuEccErrors, {"gpu_ecc_errors", "{error}",
                             "Memory errors since the driver was loaded or in the life of the board."}),
    L9gpuRow(kGpuXidErrors, {"gpu_xid_errors", "{error}", "XID errors since the agent first saw the GPU."}),
    L9gpuRow(kGpuPcieReplayCount,
             {"gpu_pcie_replay_count", "{event}", "PCIe replays since the driver was loaded."}),
    {.native = &kGpuEnergyConsumption,
     .name = "gpu_energy_consumption_mJ",
     .unit = "mJ",
     .help = "Energy used since the driver was loaded.",
     .scale = 1000,
     .whole = true,
     .all_attributes = true},
    L9gpuRow(kGpuThrottleMask,
             {"gpu_throttle_reason", "{bool}",
              "Without a cause: the driver's bit mask. With one: 1 while the clock is held down for it."}),
    // Its links have no direction: the transmit rate.
    {.native = &kGpuInterconnectThroughput,
     .name = "gpu_interconnect_throughput_bytes_per_second",
     .unit = "By/s",
     .help = "Bytes per second over the links of a GPU; XGMI as sent.",
     .where = {{{"gpu.interconnect.type", "xgmi"}, {"gpu.interconnect.direction", "transmit"}}},
     .all_attributes = true,
     .without = "gpu.interconnect.direction"},
    {.native = &kGpuInterconnectThroughput,
     .name = "",
     .unit = "",
     .help = "",
     .where = {{{"gpu.interconnect.type", "xgmi"}, {"gpu.interconnect.direction", "receive"}}}},
    // Its alert has the name without unit.
    L9gpuRow(kGpuEccSbeRate,
             {"gpu_ecc_sbe_rate", "{error}/h", "Corrected memory errors per hour over the window."}, true),
    // One dashboard has these two without suffix, another one has the second with it.
    L9gpuRow(kNimRequestsFailed,
             {"nim_requests_failed", "{request}", "Requests that ended otherwise than with stop or length."},
             true),
    L9gpuRow(kNimKvCacheUsage, {"nim_kv_cache_usage", "1", "Share of KV-cache space in use, 0-1."}, true),
    // Microseconds of a gauge there, a histogram of seconds here.
    {.native = &kNcclCollectiveLastDuration,
     .name = "nccl_collective_duration_microseconds",
     .unit = "us",
     .help = "Mean time of the operations since the last reading.",
     .scale = 1e6,
     .all_attributes = true},
    // Its flag has the rank that waits for the others; the native one, which has the culprit, is left out.
    L9gpuRow(kNcclRankSlowest, {"nccl_rank_straggler", "{bool}",
                                "Whether an operation took this rank much longer than its peers."}),
    {.native = &kNcclRankStraggler, .name = "", .unit = "", .help = ""},
};

inline constexpr MetricNaming kL9gpu{.name = "l9gpu",
                                     .help = "the l9gpu project, in place of native",
                                     .rows = kL9gpuRows,
                                     .looks = true,
                                     .over_native = true,
                                     .labels = kL9gpuLabels};

}  // namespace gpulens
