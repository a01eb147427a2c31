// Exporters of GPU pages: their labels, and families without a native name.

#include <algorithm>

#include "scrape/gpu/exporters.h"
#include "scrape/gpu/tables.h"

namespace gpulens::gpu_page {
namespace {

constexpr std::string_view kOfText = "a text or a table, not a number on any page";
constexpr std::string_view kOfExporter = "about the exporter itself, not about a GPU";
constexpr std::string_view kNoRow = "no native row: pass_through shows it as it is";
constexpr std::string_view kPerLink = "contained in the total over all links";
constexpr std::string_view kNotGpu = "of the host's CPU or network card; the host collector has them";
constexpr std::string_view kSettings = "a setting, not a reading";

constexpr IgnoredFamilies kDcgmIgnored[] = {
    {"DCGM_EXP_", "counted by the exporter over a window that slides: neither a counter nor a level"},
    {"DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_L", kPerLink},
    {"DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L", kPerLink},
    {"DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_", kPerLink},
    {"DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_", kPerLink},
    {"DCGM_FI_PROF_NVLINK_L", kPerLink},
    {"DCGM_FI_PROF_NVLINK_TX_BYTES_PER_LINK", kPerLink},
    {"DCGM_FI_PROF_NVLINK_RX_BYTES_PER_LINK", kPerLink},
    {"DCGM_FI_PROF_HOSTMEM_CACHE_MISS", "1 less the share of hits"},
    {"DCGM_FI_PROF_PEERMEM_CACHE_MISS", "1 less the share of hits"},
    {"DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_", "sixteen families that are one histogram"},
    {"DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", "the sum of the successful and the failed ones"},
    {"DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL", "the sum of the successful and the failed ones"},
    {"DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER", "mantissa and exponent in one number; the ratio is read"},
    {"DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RAW", "mantissa and exponent in one number; the ratio is read"},
    {"DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER", "mantissa and exponent in one number; the ratio is read"},
    {"DCGM_FI_DEV_NVLINK_SYMBOL_BER_RAW", "mantissa and exponent in one number; the ratio is read"},
    {"DCGM_FI_DEV_NVLINK_ERROR_DL_", "repeats the totals by type"},
    {"DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL", "repeats the totals by type"},
    {"DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL", "repeats the totals by type"},
    {"DCGM_FI_DEV_NVLINK_REPLAY_TOTAL", "repeats the totals by type"},
    {"DCGM_FI_DEV_GPU_NVLINK_ERRORS", "the last error code, not a count"},
    {"DCGM_FI_DEV_NVLINK_ERROR", "the last error code, not a count"},
    {"DCGM_FI_DEV_NVLINK_PPRM_", kNoRow},
    {"DCGM_FI_DEV_NVLINK_PPCNT_", kNoRow},
    {"DCGM_FI_DEV_NVLINK_P2P_STATUS", kOfText},
    {"DCGM_FI_DEV_P2P_NVLINK_STATUS", kOfText},
    {"DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS", "the last SXid, not a count"},
    {"DCGM_FI_DEV_NVSWITCH_NON_FATAL_ERRORS", "the last SXid, not a count"},
    {"DCGM_FI_DEV_SXID_", "the last SXid, not a count"},
    {"DCGM_FI_DEV_NVSWITCH_THROUGHPUT_", "its unit is not documented"},
    {"DCGM_FI_DEV_NVSWITCH_", kNoRow},
    {"DCGM_FI_FIRST_NVSWITCH", kOfText},
    {"DCGM_FI_LAST_NVSWITCH", kOfText},
    {"DCGM_FI_LAST_VGPU", kOfText},
    {"DCGM_FI_DEV_FIRST_", kOfText},
    {"DCGM_FI_DEV_LAST_", kOfText},
    {"DCGM_FI_INTERNAL_", kOfText},
    {"DCGM_FI_UNKNOWN", kOfText},
    {"DCGM_FI_SYSTEM_", kOfText},
    {"DCGM_FI_GPU_TOPOLOGY_", kOfText},
    {"DCGM_FI_DRIVER_VERSION", "a label, shown by gpu.driver.info"},
    {"DCGM_FI_NVML_VERSION", "a label, shown by gpu.driver.info"},
    {"DCGM_FI_CUDA_", "a label, or a text"},
    {"DCGM_FI_PROCESS_NAME", kOfText},
    {"DCGM_FI_BIND_UNBIND_EVENT", "an event, not a reading"},
    {"DCGM_FI_SYNC_BOOST", kOfText},
    {"DCGM_FI_IMEX_", kNoRow},
    {"DCGM_FI_DEV_CPU_AFFINITY_", "a mask of CPUs, not a reading"},
    {"DCGM_FI_DEV_MEM_AFFINITY_", "a mask of NUMA nodes, not a reading"},
    {"DCGM_FI_DEV_MEMORY_AFFINITY_", "a mask of NUMA nodes, not a reading"},
    {"DCGM_FI_DEV_CPU_", kNotGpu},
    {"DCGM_FI_DEV_SYSIO_POWER_", kNotGpu},
    {"DCGM_FI_DEV_MODULE_POWER_", kNotGpu},
    {"DCGM_FI_DEV_CONNECTX_", kNotGpu},
    {"DCGM_FI_DEV_DIAG_", "the result of a diagnosis run on demand"},
    {"DCGM_FI_DEV_PWR_SMOOTHING_", kSettings},
    {"DCGM_FI_DEV_REQUESTED_POWER_PROFILE_", kSettings},
    {"DCGM_FI_DEV_ENFORCED_POWER_PROFILE_", kSettings},
    {"DCGM_FI_DEV_VALID_POWER_PROFILE_", kSettings},
    {"DCGM_FI_DEV_BOARD_POWER_PROFILE_", kSettings},
    {"DCGM_FI_DEV_AUTOBOOST", kSettings},
    {"DCGM_FI_DEV_CLOCKS_AUTOBOOST_MODE", kSettings},
    {"DCGM_FI_DEV_SUPPORTED_CLOCKS", kOfText},
    {"DCGM_FI_DEV_CLOCKS_SUPPORTED", kOfText},
    {"DCGM_FI_DEV_GPM_SUPPORT", kSettings},
    {"DCGM_FI_DEV_FABRIC_CLIQUE_ID", "what a GPU is, not a reading; NVML reports it as gpu.fabric.info"},
    {"DCGM_FI_DEV_FABRIC_CLUSTER_UUID", "what a GPU is, not a reading; NVML reports it as gpu.fabric.info"},
    {"DCGM_FI_DEV_FABRIC_HEALTH_", "several conditions packed in one number, by driver version"},
    {"DCGM_FI_DEV_MIG_", kOfText},
    {"DCGM_FI_DEV_VGPU_", "does not identify the vGPU"},
    {"DCGM_FI_DEV_SUPPORTED_", kOfText},
    {"DCGM_FI_DEV_CREATABLE_", kOfText},
    {"DCGM_FI_DEV_ENC_STATS", kOfText},
    {"DCGM_FI_DEV_FBC_", kOfText},
    {"DCGM_FI_DEV_ACCOUNTING_DATA", kOfText},
    {"DCGM_FI_DEV_PROCESS_ACCOUNTING_STATS", kOfText},
    {"DCGM_FI_DEV_PLATFORM_", "what a GPU is, not a reading"},
    {"DCGM_FI_DEV_INFOROM_", "a label, shown by gpu.info"},
    {"DCGM_FI_DEV_OEM_INFOROM_VER", "a label"},
    {"DCGM_FI_DEV_ECC_INFOROM_VER", "a label"},
    {"DCGM_FI_DEV_POWER_INFOROM_VER", "a label"},
    {"DCGM_FI_DEV_VBIOS_VERSION", "a label, shown by gpu.info"},
    {"DCGM_FI_DEV_NAME", "a label"},
    {"DCGM_FI_DEV_GPU_NAME", "a label"},
    {"DCGM_FI_DEV_BRAND", "a label"},
    {"DCGM_FI_DEV_GPU_BRAND", "a label"},
    {"DCGM_FI_DEV_NVML_INDEX", "what a GPU is, not a reading"},
    {"DCGM_FI_DEV_SERIAL", "serial numbers are not passed on"},
    {"DCGM_FI_DEV_BOARD_SERIAL", "serial numbers are not passed on"},
    {"DCGM_FI_DEV_UUID", "a label"},
    {"DCGM_FI_DEV_GPU_UUID", "a label"},
    {"DCGM_FI_DEV_MINOR_NUMBER", "what a GPU is, not a reading"},
    {"DCGM_FI_DEV_GPU_MINOR_NUMBER", "what a GPU is, not a reading"},
    {"DCGM_FI_DEV_PCI_", "what a GPU is, not a reading"},
    {"DCGM_FI_DEV_CUDA_", kOfText},
    {"go_", kOfExporter},
    {"process_", kOfExporter},
    {"promhttp_", kOfExporter},
    {"dcgm_exporter_", kOfExporter},
};

constexpr IgnoredFamilies kAmdIgnored[] = {
    {"gpu_health", "a verdict of the exporter; gpulens computes gpu.health.state, with its reasons"},
    {"gpu_ecc_correct_total", "the sum of the blocks, which are shown"},
    {"gpu_ecc_uncorrect_total", "the sum of the blocks, which are shown"},
    {"gpu_ecc_deferred_total", "the sum of the blocks, which are shown"},
    {"gpu_min_clock", "the lowest clock of a domain, not a configured limit"},
    {"gpu_free_visible_vram", "the rest of the total"},
    {"gpu_free_gtt", "the rest of the total"},
    {"gpu_violation_", "counts over an interval that the page does not state"},
    {"gpu_vcn_busy_instantaneous", "one number per compute unit, without the engine"},
    {"gpu_jpeg_busy_instantaneous", "one number per compute unit, without the engine"},
    {"gpu_xgmi_nbr_", kNoRow},
    {"gpu_afid_errors", "the last event, not a count"},
    {"gpu_prof_", kNoRow},
    {"pcie_bandwidth", "both directions in one number"},
    {"pcie_bidirectional_bandwidth", "both directions in one number"},
    {"ifoe_", kNotGpu},
    {"eth_", kNotGpu},
    {"rdma_", kNotGpu},
    {"port_", kNotGpu},
    {"qp_", kNotGpu},
    {"go_", kOfExporter},
    {"process_", kOfExporter},
    {"promhttp_", kOfExporter},
};

constexpr IgnoredFamilies kHabanaIgnored[] = {
    {"habanalabs_energy", "its unit is not documented"},
    {"habanalabs_pcie_rx", "repeats habanalabs_pcie_receive_throughput, and counts nothing"},
    {"habanalabs_pcie_tx", "repeats habanalabs_pcie_transmit_throughput, and counts nothing"},
    {"habanalabs_device_config", "labels, shown by gpu.info and gpu.driver.info"},
    {"habanalabs_kube_info", kOfExporter},
    {"habanalabs_clock_", kNoRow},
    {"accelerator_", "repeats a family of habanalabs_, some in the wrong unit"},
    {"go_", kOfExporter},
    {"process_", kOfExporter},
    {"promhttp_", kOfExporter},
    {"python_", kOfExporter},
};

constexpr IgnoredFamilies kXpumIgnored[] = {
    {"xpum_", kNoRow},
    {"hw_gpu_utilization_ratio", "of one engine; the page does not state how they add up to the GPU's"},
    {"hw_", kNoRow},
    {"otelcol_", kOfExporter},
    {"target_info", kOfExporter},
    {"go_", kOfExporter},
    {"process_", kOfExporter},
    {"promhttp_", kOfExporter},
    {"python_", kOfExporter},
};

constexpr PageLabels kDcgmLabels = {
    .index = "gpu",
    .uuid = "UUID gpu_uuid",
    .model = "modelName model_name",
    .bus = "pci_bus_id",
    .part = "GPU_I_ID",
    .part_key = "gpu.mig.instance_id",
    .profile = "GPU_I_PROFILE",
    .info =
        "pci_bus_id=gpu.pci.bus_id,DCGM_FI_DEV_VBIOS_VERSION=gpu.vbios.version,"
        "DCGM_FI_DEV_INFOROM_IMAGE_VER=gpu.inforom.version,"
        "DCGM_FI_DEV_INFOROM_IMAGE_VERSION=gpu.inforom.version",
    .driver =
        "DCGM_FI_DRIVER_VERSION=gpu.driver.version,DCGM_FI_SYSTEM_DRIVER_VERSION=gpu.driver.version,"
        "DCGM_FI_NVML_VERSION=gpu.library.version,DCGM_FI_SYSTEM_NVML_VERSION=gpu.library.version"};
constexpr PageLabels kAmdLabels = {.index = "gpu_id",
                                   .uuid = "gpu_uuid",
                                   .model = "card_series",
                                   .part = "gpu_partition_id",
                                   .part_key = "gpu.partition.id",
                                   .whole = "gpu_compute_partition_type=spx,gpu_partition_id=NA",
                                   .parts = PartReadings::kFirstOnly,
                                   .first_part = "0",
                                   .info = "vbios_version=gpu.vbios.version",
                                   .driver = "driver_version=gpu.driver.version"};
constexpr PageLabels kHabanaLabels = {.index = "id",
                                      .uuid = "UUID",
                                      .bus = "bus_id pci_id",
                                      .info = "bus_id=gpu.pci.bus_id,pci_id=gpu.pci.bus_id",
                                      .driver = "driver=gpu.driver.version"};
constexpr PageLabels kXpumLabels = {.uuid = "uuid",
                                    .model = "dev_name hw_model",
                                    .bus = "pci_bdf",
                                    .part = "sub_dev com_intel_subdevice_id card",
                                    .parts = PartReadings::kOwn,
                                    .only = "aggregation=avg,statistic=avg,type=actual",
                                    .info = "pci_bdf=gpu.pci.bus_id"};

constexpr Exporter kDcgm = {"dcgm", "nvidia", kDcgmTable, kDcgmIgnored, &kDcgmLabels};
constexpr Exporter kAmd = {"amd", "amd", kAmdTable, kAmdIgnored, &kAmdLabels, "amd_"};
constexpr Exporter kHabana = {"habana", "intel", kHabanaTable, kHabanaIgnored, &kHabanaLabels};
constexpr Exporter kXpum = {"xpum", "intel", kXpumTable, kXpumIgnored, &kXpumLabels};
constexpr const Exporter* kExporters[] = {&kDcgm, &kAmd, &kHabana, &kXpum};

}  // namespace

bool Matches(std::string_view pattern, std::string_view family, std::string_view* number) noexcept {
  if (pattern.empty()) return false;
  size_t hash = pattern.find('#');
  if (hash == std::string_view::npos) return pattern == family;
  std::string_view tail = pattern.substr(hash + 1);
  if (!family.starts_with(pattern.substr(0, hash)) || family.size() < hash + tail.size()) return false;
  if (!family.ends_with(tail)) return false;
  std::string_view digits = family.substr(hash, family.size() - hash - tail.size());
  if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string_view::npos)
    return false;
  if (number) *number = digits;
  return true;
}

const IgnoredFamilies* FindIgnored(const Exporter& exporter, std::string_view family) noexcept {
  if (!exporter.optional_prefix.empty() && family.starts_with(exporter.optional_prefix))
    family.remove_prefix(exporter.optional_prefix.size());
  for (const PageRow& row : exporter.rows) {
    if (Matches(row.family, family) || Matches(row.renamed, family)) return nullptr;
  }
  for (const IgnoredFamilies& ignored : exporter.ignored) {
    if (family.starts_with(ignored.prefix)) return &ignored;
  }
  return nullptr;
}

std::span<const Exporter* const> AllExporters() noexcept { return kExporters; }

const Exporter* FindExporter(std::string_view name) noexcept {
  const auto* const at = std::ranges::find(kExporters, name, &Exporter::name);
  return at == std::end(kExporters) ? nullptr : *at;
}

}  // namespace gpulens::gpu_page
