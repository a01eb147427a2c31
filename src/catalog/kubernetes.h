// Rows of kubernetes_usage.def and kubernetes.def.
#pragma once

#include "catalog/row.h"

namespace gpulens {

#define METRIC GPULENS_DECLARE_METRIC
#include "catalog/kubernetes.def"
#include "catalog/kubernetes_usage.def"
#undef METRIC

#define METRIC GPULENS_LIST_METRIC
inline constexpr const MetricDesc* kKubernetesUsageRows[] = {
#include "catalog/kubernetes_usage.def"
};
inline constexpr const MetricDesc* kKubernetesRows[] = {
#include "catalog/kubernetes.def"
};
#undef METRIC

inline constexpr auto kKubernetesStateRows = RowsWithPrefix<kKubernetesRows, "k8s.">();
inline constexpr auto kGpuPodRows = RowsWithPrefix<kKubernetesRows, "gpu.pod.">();

}  // namespace gpulens
