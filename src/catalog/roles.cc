#include "catalog/roles.h"

#include <algorithm>

#include "catalog/inference_cache.h"
#include "catalog/inference_latency.h"
#include "catalog/inference_requests.h"
#include "catalog/inference_router.h"
#include "catalog/inference_scheduler.h"
#include "catalog/inference_transfer.h"

namespace gpulens {
namespace {

using enum Combine;

constexpr Role kRoles[] = {
    {"RequestsRunning", &kInferenceRequestsRunning, kSum},
    {"RequestsWaiting", &kInferenceRequestsWaiting, kSum},
    {"RequestsWaitingByReason", &kInferenceRequestsWaitingByReason, kSum},
    {"RequestsSwapped", &kInferenceRequestsSwapped, kSum},
    {"RequestsByPhase", &kInferenceRequestsByPhase, kSum},
    {"RequestsInFlight", &kInferenceRequestsInFlight, kSum},
    {"RequestsLimit", &kInferenceRequestsLimit, kSum},
    {"RequestsAdmitted", &kInferenceRequestsAdmitted, kSum},
    {"RequestsFinished", &kInferenceRequestsFinished, kSum},
    {"RequestsFailed", &kInferenceRequestsFailed, kSum},
    {"RequestsAborted", &kInferenceRequestsAborted, kSum},
    {"RequestsRejected", &kInferenceRequestsRejected, kSum},
    {"RequestsRetried", &kInferenceRequestsRetried, kSum},
    {"PromptTokens", &kInferencePromptTokens, kSum},
    {"GenerationTokens", &kInferenceGenerationTokens, kSum},
    {"RecomputedTokens", &kInferenceRecomputedTokens, kSum},
    {"PromptTokensBySource", &kInferencePromptTokensBySource, kSum},
    {"TokenRate", &kInferenceTokenRate, kSum},
    {"RequestPromptTokens", &kInferenceRequestPromptTokens, kSum},
    {"RequestGenerationTokens", &kInferenceRequestGenerationTokens, kSum},
    {"TimeToFirstToken", &kInferenceTimeToFirstToken, kSum},
    {"InterTokenLatency", &kInferenceInterTokenLatency, kSum},
    {"TimePerOutputToken", &kInferenceTimePerOutputToken, kSum},
    {"RequestDuration", &kInferenceRequestDuration, kSum},
    {"QueueTime", &kInferenceQueueTime, kSum},
    {"PrefillTime", &kInferencePrefillTime, kSum},
    {"DecodeTime", &kInferenceDecodeTime, kSum},
    {"InferenceTime", &kInferenceInferenceTime, kSum},
    {"StageTime", &kInferenceStageTime, kSum},
    {"CachedTokens", &kInferenceCachedTokens, kSum},
    {"KvCacheUsage", &kInferenceKvCacheUsage, kMean},
    {"KvCacheTokens", &kInferenceKvCacheTokens, kSum},
    {"KvCacheBlocks", &kInferenceKvCacheBlocks, kSum},
    {"KvCacheBlockSize", &kInferenceKvCacheBlockSize, kMax},
    {"KvCacheEvictions", &kInferenceKvCacheEvictions, kSum},
    {"PrefixCacheQueries", &kInferencePrefixCacheQueries, kSum},
    {"PrefixCacheHits", &kInferencePrefixCacheHits, kSum},
    {"CacheHitRatio", &kInferenceCacheHitRatio, kMean},
    {"MultimodalCacheQueries", &kInferenceMultimodalCacheQueries, kSum},
    {"MultimodalCacheHits", &kInferenceMultimodalCacheHits, kSum},
    {"ResponseCacheLookups", &kInferenceResponseCacheLookups, kSum},
    {"KvTransferBytes", &kInferenceKvTransferBytes, kSum},
    {"KvTransfers", &kInferenceKvTransfers, kSum},
    {"KvTransferBlocks", &kInferenceKvTransferBlocks, kSum},
    {"KvTransferSize", &kInferenceKvTransferSize, kSum},
    {"KvTransferTime", &kInferenceKvTransferTime, kSum},
    {"KvTransferFailures", &kInferenceKvTransferFailures, kSum},
    {"KvStoreBytes", &kInferenceKvStoreBytes, kSum},
    {"Preemptions", &kInferencePreemptions, kSum},
    {"IterationTokens", &kInferenceIterationTokens, kSum},
    {"IterationTime", &kInferenceIterationTime, kSum},
    {"BatchSize", &kInferenceBatchSize, kSum},
    {"SpecDrafts", &kInferenceSpecDrafts, kSum},
    {"SpecDraftTokens", &kInferenceSpecDraftTokens, kSum},
    {"SpecAcceptedTokens", &kInferenceSpecAcceptedTokens, kSum},
    {"SpecAcceptedTokensPerPosition", &kInferenceSpecAcceptedTokensPerPosition, kSum},
    {"SpecAcceptanceRatio", &kInferenceSpecAcceptanceRatio, kMean},
    {"SpecAcceptedLength", &kInferenceSpecAcceptedLength, kMean},
    {"LoraAdapters", &kInferenceLoraAdapters, kMax},
    {"EstimatedFlops", &kInferenceEstimatedFlops, kMean},
    {"EstimatedBytes", &kInferenceEstimatedBytes, kMean},
    {"RouterQueueDepth", &kInferenceRouterQueueDepth, kSum},
    {"RouterDecisions", &kInferenceRouterDecisions, kSum},
    {"RouterTime", &kInferenceRouterTime, kSum},
    {"RouterSaturation", &kInferenceRouterSaturation, kMax},
    {"Replicas", &kInferenceReplicas, kSum},
    {"Spend", &kInferenceSpend, kSum},
    {"Errors", &kInferenceErrors, kSum},
    {"EngineSleepState", &kInferenceEngineSleepState, kMax},
    {"EngineLoadTime", &kInferenceEngineLoadTime, kMax},
    {"EngineMemory", &kInferenceEngineMemory, kSum},
    {"EngineInfo", &kInferenceEngineInfo, kNewest},
    {"EngineStartTime", &kInferenceEngineStartTime, kNewest},
};

}  // namespace

std::span<const Role> AllRoles() noexcept { return kRoles; }

const Role* FindRole(std::string_view name) noexcept {
  const auto* at =
      std::find_if(std::begin(kRoles), std::end(kRoles), [&](const Role& r) { return r.name == name; });
  return at == std::end(kRoles) ? nullptr : at;
}

const Role* RoleOf(const MetricDesc& metric) noexcept {
  const auto* at =
      std::find_if(std::begin(kRoles), std::end(kRoles), [&](const Role& r) { return r.metric == &metric; });
  return at == std::end(kRoles) ? nullptr : at;
}

}  // namespace gpulens
