// Which pods hold which GPUs.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kGpuPodInfo = row::Essential(
    row::Info("gpu.pod.info", "1 per container that holds the GPU, a share or a slice of it, with its pod."));

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kKubernetesHoldersRows[] = {&kGpuPodInfo};

}  // namespace gpulens
