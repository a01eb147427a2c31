// The l9gpu project's names, where they are not native: for its dashboards and alerts, with its types
// and the units that it documents. Its wrong values are not copied: power is in W, throttling reads the
// right bits, XIDs are XIDs.
//
// All its other names are native, so this dialect is native but for these rows, with the host and the
// cluster as labels, by which its dashboards choose. On a page that shows native, too, only the rows
// here are added.
#pragma once

#include "catalog/gpu.h"
#include "catalog/inference.h"
#include "names/dialect.h"

namespace gpulens {

inline constexpr DialectLabel kL9gpuLabels[] = {{"host_name", "host.name"},
                                                {"k8s_cluster_name", "k8s.cluster.name"}};

inline constexpr DialectRow kL9gpuRows[] = {
    {.native = &kGpuEccErrors,
     .name = "gpu_ecc_errors",
     .unit = "{error}",
     .help = "Memory errors since the driver was loaded or in the life of the board.",
     .all_attributes = true},
    {.native = &kGpuXidErrors,
     .name = "gpu_xid_errors",
     .unit = "{error}",
     .help = "XID errors since the agent first saw the GPU.",
     .all_attributes = true},
    {.native = &kGpuPcieReplayCount,
     .name = "gpu_pcie_replay_count",
     .unit = "{event}",
     .help = "PCIe replays since the driver was loaded.",
     .all_attributes = true},
    {.native = &kGpuEnergyConsumption,
     .name = "gpu_energy_consumption_mJ",
     .unit = "mJ",
     .help = "Energy used since the driver was loaded.",
     .scale = 1000,
     .whole = true,
     .all_attributes = true},
    {.native = &kGpuThrottleMask,
     .name = "gpu_throttle_reason",
     .unit = "{bool}",
     .help = "Without a cause: the driver's bit mask. With one: 1 while the clock is held down for it.",
     .all_attributes = true},
    // A link of theirs has no direction: it shows what the GPU sends.
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
    // Their alert asks for the name without the unit that their other names have.
    {.native = &kGpuEccSbeRate,
     .name = "gpu_ecc_sbe_rate",
     .unit = "{error}/h",
     .help = "Corrected memory errors per hour over the window.",
     .all_attributes = true,
     .keep_native = true},
    // One of their dashboards asks for these two without a suffix, another one for the second with it.
    {.native = &kNimRequestsFailed,
     .name = "nim_requests_failed",
     .unit = "{request}",
     .help = "Requests that ended otherwise than with stop or length.",
     .all_attributes = true,
     .keep_native = true},
    {.native = &kNimKvCacheUsage,
     .name = "nim_kv_cache_usage",
     .unit = "1",
     .help = "Share of KV-cache space in use, 0-1.",
     .all_attributes = true,
     .keep_native = true},
};

inline constexpr Dialect kL9gpu{.name = "l9gpu",
                                .help = "the l9gpu project, in place of native",
                                .rows = kL9gpuRows,
                                .looks = true,
                                .over_native = true,
                                .labels = kL9gpuLabels};

}  // namespace gpulens
