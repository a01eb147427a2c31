// The names of dcgm-exporter: all fields of its default and profiling lists that NVML or GPM have, with its
// labels, units and types.
//
// `dcgm` has dcgm-exporter's present names, `dcgm@4.6` those of DCGM 4.6's fields. Fields that are codes or
// texts (recovery action, compute mode, versions other than the driver's) and fields of NVSwitches and CPUs
// are left out.
#pragma once

#include <algorithm>

#include "names/dcgm_fields.h"

namespace gpulens {

#define GPULENS_DCGM_HOST                                                                                \
  {"Hostname", "host.name"}, {"DCGM_FI_DRIVER_VERSION", "gpu.driver.version"},                           \
      {"container", "k8s.container.name"}, {"namespace", "k8s.namespace.name"}, {"pod", "k8s.pod.name"}, \
      {"simulated", "simulated"}
inline constexpr NamingLabel kDcgmLabels[] = {
    {"gpu", "gpu.index"},
    {"UUID", "gpu.uuid"},
    {.label = "pci_bus_id", .attribute = "gpu.pci.bus_id", .as = NamingLabel::kNvmlBusId},
    {.label = "device", .attribute = "gpu.index", .text = "nvidia"},
    {"modelName", "gpu.model"},
    {"GPU_I_PROFILE", "gpu.mig.profile"},
    {"GPU_I_ID", "gpu.mig.instance_id"},
    GPULENS_DCGM_HOST,
};
// Series of a link have other labels.
inline constexpr NamingLabel kDcgmLinkLabels[] = {
    {"nvlink", "gpu.interconnect.link_index"},
    {"gpu", "gpu.index"},
    {"gpu_uuid", "gpu.uuid"},
    {.label = "pci_bus_id", .attribute = "gpu.pci.bus_id", .as = NamingLabel::kNvmlBusId},
    {.label = "device", .attribute = "gpu.index", .text = "nvidia"},
    {"model_name", "gpu.model"},
    GPULENS_DCGM_HOST,
};

#undef GPULENS_DCGM_HOST

// The traffic of a link has its index in the name.
struct DcgmLinkName {
  std::string_view link, name, name_4_6;
};
#define GPULENS_DCGM_LINK(n) {#n, "DCGM_FI_DEV_NVLINK_BANDWIDTH_L" #n, "DCGM_FI_DEV_NVLINK_THROUGHPUT_L" #n}
inline constexpr DcgmLinkName kDcgmLinkNames[] = {
    GPULENS_DCGM_LINK(0),  GPULENS_DCGM_LINK(1),  GPULENS_DCGM_LINK(2),  GPULENS_DCGM_LINK(3),
    GPULENS_DCGM_LINK(4),  GPULENS_DCGM_LINK(5),  GPULENS_DCGM_LINK(6),  GPULENS_DCGM_LINK(7),
    GPULENS_DCGM_LINK(8),  GPULENS_DCGM_LINK(9),  GPULENS_DCGM_LINK(10), GPULENS_DCGM_LINK(11),
    GPULENS_DCGM_LINK(12), GPULENS_DCGM_LINK(13), GPULENS_DCGM_LINK(14), GPULENS_DCGM_LINK(15),
    GPULENS_DCGM_LINK(16), GPULENS_DCGM_LINK(17),
};
#undef GPULENS_DCGM_LINK

constexpr NamingRow DcgmRow(const DcgmField& field, bool since_4_6, std::span<const NamingLabel> labels) {
  return {.native = field.native,
          .name = since_4_6 ? field.name_4_6 : field.name,
          .unit = field.unit,
          .help = field.help,
          .kind = field.kind,
          .scale = field.scale,
          .labels = labels,
          .where = field.where,
          .whole = field.whole,
          .unless = field.unless};
}

constexpr auto DcgmRows(bool since_4_6) {
  std::array<NamingRow, std::size(kDcgmReadings) + std::size(kDcgmErrors) + std::size(kDcgmEcc) +
                            std::size(kDcgmLinks) + std::size(kDcgmProfiling) + std::size(kDcgmPerLink) +
                            std::size(kDcgmLinkNames)>
      rows{};
  auto at = rows.begin();
  for (std::span<const DcgmField> table :
       {std::span<const DcgmField>(kDcgmReadings), std::span<const DcgmField>(kDcgmErrors),
        std::span<const DcgmField>(kDcgmEcc), std::span<const DcgmField>(kDcgmLinks),
        std::span<const DcgmField>(kDcgmProfiling)}) {
    for (const DcgmField& field : table) *at++ = DcgmRow(field, since_4_6, kDcgmLabels);
  }
  for (const DcgmField& field : kDcgmPerLink) *at++ = DcgmRow(field, since_4_6, kDcgmLinkLabels);
  for (const DcgmLinkName& link : kDcgmLinkNames) {
    *at++ = {.native = &kGpuInterconnectLinkBandwidth,
             .name = since_4_6 ? link.name_4_6 : link.name,
             .unit = "MB/s",
             .help = "Traffic of one NVLink in both directions now, in MB/s: a rate, despite its type.",
             .kind = Kind::kCounter,
             .scale = kPerMega,
             .labels = kDcgmLabels,
             .where = {{{"gpu.interconnect.link_index", link.link}}},
             .whole = true};
  }
  return rows;
}

inline constexpr auto kDcgmRows = DcgmRows(false);
inline constexpr auto kDcgm46Rows = DcgmRows(true);

inline constexpr MetricNaming kDcgm{.name = "dcgm",
                                    .help = "dcgm-exporter, field names up to DCGM 4.5",
                                    .rows = kDcgmRows,
                                    .vendor = "nvidia",
                                    .looks = true};
inline constexpr MetricNaming kDcgm46{.name = "dcgm@4.6",
                                      .help = "dcgm-exporter, field names since DCGM 4.6",
                                      .rows = kDcgm46Rows,
                                      .vendor = "nvidia",
                                      .looks = true,
                                      .renames = "dcgm"};

}  // namespace gpulens
