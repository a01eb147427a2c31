#include "catalog/all.h"

#include <algorithm>
#include <iterator>

#include "catalog/cost.h"
#include "catalog/cuda.h"
#include "catalog/gpu.h"
#include "catalog/host.h"
#include "catalog/inference.h"
#include "catalog/kubernetes.h"
#include "catalog/ledger.h"
#include "catalog/nccl.h"
#include "catalog/phases.h"
#include "catalog/self.h"
#include "catalog/slurm.h"
#include "catalog/training.h"

namespace gpulens {
namespace {

constexpr auto kAll = JoinRows(kGpuRows, kCostRows, kCudaRows, kHostRows, kInferenceRows,
                               kInferenceWindowRows, kKubernetesUsageRows, kKubernetesRows, kLedgerRows,
                               kNcclRows, kPhasesRows, kSelfRows, kSlurmRows, kTrainingRows);

}  // namespace

std::span<const MetricDesc* const> AllMetrics() noexcept { return kAll; }

const MetricDesc* FindMetric(std::string_view name) noexcept {
  auto found = std::ranges::find(kAll, name, &MetricDesc::name);
  return found == std::end(kAll) ? nullptr : *found;
}

}  // namespace gpulens
