#include "catalog/all.h"

#include <algorithm>
#include <iterator>

#include "catalog/gpu/board.h"
#include "catalog/gpu/engines.h"
#include "catalog/gpu/errors.h"
#include "catalog/gpu/health.h"
#include "catalog/gpu/identity.h"
#include "catalog/gpu/links.h"
#include "catalog/gpu/parts.h"
#include "catalog/gpu/readings.h"
#include "catalog/gpu/score.h"
#include "catalog/host_cpu_memory.h"
#include "catalog/host_io.h"
#include "catalog/inference/cache.h"
#include "catalog/inference/latency.h"
#include "catalog/inference/native_nim.h"
#include "catalog/inference/native_sglang.h"
#include "catalog/inference/native_tgi.h"
#include "catalog/inference/native_triton.h"
#include "catalog/inference/native_vllm.h"
#include "catalog/inference/requests.h"
#include "catalog/inference/router.h"
#include "catalog/inference/scheduler.h"
#include "catalog/inference/transfer.h"
#include "catalog/join_rows.h"
#include "catalog/kubernetes/holders.h"
#include "catalog/kubernetes/state.h"
#include "catalog/kubernetes/usage.h"
#include "catalog/self.h"
#include "catalog/self_events.h"
#include "catalog/self_io.h"
#include "catalog/slurm/cluster.h"

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
