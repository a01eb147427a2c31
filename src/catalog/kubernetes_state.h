// How pods and their containers fare, as the API server tells. The names are OpenTelemetry's where it has
// one.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kK8sPodStatusPhase = row::Essential(row::StateSet(
    "k8s.pod.status.phase", "Phase of the pod, as one of five words.", row::kKeys<"k8s.pod.status.phase">));
inline constexpr MetricDesc kK8sPodSchedulingDelay = row::Standard(row::Gauge(
    "k8s.pod.scheduling.delay", "s", "Time from the creation of the pod until it was assigned to a node."));
inline constexpr MetricDesc kK8sContainerRestartCount = row::Essential(row::UpDown(
    "k8s.container.restart.count", "{restart}", "Restarts of the container, as the kubelet counts them."));
inline constexpr MetricDesc kK8sContainerReady =
    row::Essential(row::Flag("k8s.container.ready", "1 while the container passes its readiness probe."));

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kKubernetesStateRows[] = {
    &kK8sPodStatusPhase,
    &kK8sPodSchedulingDelay,
    &kK8sContainerRestartCount,
    &kK8sContainerReady,
};

}  // namespace gpulens
