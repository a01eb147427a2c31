#include "catalog/all.h"

#include <algorithm>
#include <iterator>

#include "catalog/gpu_board.h"
#include "catalog/gpu_engines.h"
#include "catalog/gpu_errors.h"
#include "catalog/gpu_health.h"
#include "catalog/gpu_identity.h"
#include "catalog/gpu_links.h"
#include "catalog/gpu_parts.h"
#include "catalog/gpu_readings.h"
#include "catalog/gpu_score.h"
#include "catalog/host_cpu_memory.h"
#include "catalog/host_io.h"
#include "catalog/inference_cache.h"
#include "catalog/inference_latency.h"
#include "catalog/inference_requests.h"
#include "catalog/inference_router.h"
#include "catalog/inference_scheduler.h"
#include "catalog/inference_transfer.h"
#include "catalog/join_rows.h"
#include "catalog/kubernetes_holders.h"
#include "catalog/kubernetes_state.h"
#include "catalog/kubernetes_usage.h"
#include "catalog/native_nim.h"
#include "catalog/native_sglang.h"
#include "catalog/native_tgi.h"
#include "catalog/native_triton.h"
#include "catalog/native_vllm.h"
#include "catalog/self.h"
#include "catalog/self_events.h"
#include "catalog/self_io.h"
#include "catalog/slurm_cluster.h"

namespace gpulens {
namespace {

constexpr auto kAll =
    JoinRows(kGpuReadingsRows, kGpuHealthRows, kGpuEnginesRows, kGpuBoardRows, kGpuErrorsRows,
             kGpuIdentityRows, kGpuLinksRows, kGpuPartsRows, kGpuScoreRows, kHostCpuMemoryRows, kHostIoRows,
             kInferenceRequestsRows, kInferenceLatencyRows, kInferenceCacheRows, kInferenceTransferRows,
             kInferenceSchedulerRows, kInferenceRouterRows, kNativeVllmRows, kNativeNimRows,
             kNativeTritonRows, kNativeSglangRows, kNativeTgiRows, kKubernetesUsageRows, kKubernetesStateRows,
             kKubernetesHoldersRows, kSelfRows, kSelfScrapeRows, kSelfIoRows, kSelfEventsRows, kSlurmRows);

struct Exception {
  const MetricDesc* metric;
  MetricFacts facts;
};
// Rows that are not both stable and on by default.
constexpr Exception kExceptions[] = {
    {&kSystemCpuFrequency, {Stability::kStable, true}},
    {&kHostPressureTime, {Stability::kDevelopment, false}},  // OTel has no name for pressure yet
    {&kHostPressureShare, {Stability::kDevelopment, true}},
    {&kHostEntropy, {Stability::kStable, true}},
    {&kGpuEngineUtilization, {Stability::kStable, true}},
    {&kGpuCacheHit, {Stability::kStable, true}},
    {&kGpuCyclesElapsed, {Stability::kStable, true}},
    {&kGpuCyclesActive, {Stability::kStable, true}},
    {&kNvidiaMmaStall, {Stability::kStable, true}},
    {&kNvidiaEdppMultiplier, {Stability::kStable, true}},
    {&kNvidiaPowerSmoothingEnabled, {Stability::kStable, true}},
    {&kNvidiaMclkSwitchInterval, {Stability::kStable, true}},
    {&kGpuTemperatureStack, {Stability::kStable, true}},
    {&kGpuMemoryBar1Free, {Stability::kStable, true, true}},
    {&kGpuEccSramErrors, {Stability::kStable, true}},
    {&kGpuTopologyLink, {Stability::kStable, true}},
    {&kGpuFirmwareInfo, {Stability::kStable, true}},
    {&kGpuEncoderCapacity, {Stability::kStable, true}},
    {&kGpuFbcSessions, {Stability::kStable, true}},
    {&kGpuMigBar1Used, {Stability::kStable, true}},
    {&kGpuInterconnectBandwidth, {Stability::kStable, true, true}},
    {&kGpuInterconnectPackets, {Stability::kStable, true}},
    {&kGpuInterconnectLinkLowPower, {Stability::kStable, true}},
    {&kGpuInterconnectLinkBitErrorRate, {Stability::kStable, true}},
    {&kGpuInterconnectLinkFecCorrected, {Stability::kStable, true}},
    {&kNvswitchLinkErrors, {Stability::kStable, true}},
    {&kGpuInterconnectLinkBandwidth, {Stability::kStable, true, true}},
    {&kK8sPodStatusPhase, {Stability::kDevelopment, false}},  // OTel's names for pods are not settled
    {&kK8sContainerRestartCount, {Stability::kDevelopment, false}},
    {&kK8sContainerReady, {Stability::kDevelopment, false}},
};

}  // namespace

std::span<const MetricDesc* const> AllMetrics() noexcept { return kAll; }

const MetricDesc* FindMetric(std::string_view name) noexcept {
  auto found = std::ranges::find(kAll, name, &MetricDesc::name);
  return found == std::end(kAll) ? nullptr : *found;
}

MetricFacts FactsOf(const MetricDesc& metric) noexcept {
  auto found = std::ranges::find(kExceptions, &metric, &Exception::metric);
  return found == std::end(kExceptions) ? MetricFacts{} : found->facts;
}

}  // namespace gpulens
