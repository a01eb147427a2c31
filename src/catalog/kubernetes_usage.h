// What pods and their containers use, as the kubelet counts it. The names are OpenTelemetry's.
#pragma once

#include "catalog/row.h"

namespace gpulens {

// One set of rows for each level: k8s.node, k8s.pod, container.
inline constexpr MetricDesc kK8sNodeCpuTime =
    row::Standard(row::Counter("k8s.node.cpu.time", "s", "CPU time of the node since it started."));
inline constexpr MetricDesc kK8sNodeCpuUsage =
    row::Standard(row::Real(row::Gauge("k8s.node.cpu.usage", "{cpu}", "CPUs the node uses.")));
inline constexpr MetricDesc kK8sNodeMemoryUsage =
    row::Standard(row::UpDown("k8s.node.memory.usage", "By", "Memory of the node in use, caches included."));
inline constexpr MetricDesc kK8sNodeMemoryWorkingSet = row::Standard(
    row::UpDown("k8s.node.memory.working_set", "By", "Memory of the node that cannot be reclaimed at once."));
inline constexpr MetricDesc kK8sNodeMemoryRss =
    row::Standard(row::UpDown("k8s.node.memory.rss", "By", "Anonymous memory of the node."));
inline constexpr MetricDesc kK8sNodeMemoryAvailable =
    row::Standard(row::UpDown("k8s.node.memory.available", "By", "Memory of the node that is available."));

inline constexpr MetricDesc kK8sPodCpuTime =
    row::Standard(row::Counter("k8s.pod.cpu.time", "s", "CPU time of the pod."));
inline constexpr MetricDesc kK8sPodCpuUsage =
    row::Standard(row::Real(row::Gauge("k8s.pod.cpu.usage", "{cpu}", "CPUs the pod uses.")));
inline constexpr MetricDesc kK8sPodMemoryUsage =
    row::Standard(row::UpDown("k8s.pod.memory.usage", "By", "Memory of the pod in use, caches included."));
inline constexpr MetricDesc kK8sPodMemoryWorkingSet = row::Standard(
    row::UpDown("k8s.pod.memory.working_set", "By", "Memory of the pod that counts against its limits."));
inline constexpr MetricDesc kK8sPodMemoryRss =
    row::Standard(row::UpDown("k8s.pod.memory.rss", "By", "Anonymous memory of the pod."));
inline constexpr MetricDesc kK8sPodMemoryAvailable = row::Standard(
    row::UpDown("k8s.pod.memory.available", "By", "Memory available to the pod below its limit."));
inline constexpr MetricDesc kK8sPodNetworkIo =
    row::Standard(row::Counter("k8s.pod.network.io", "By", "Bytes through the pod's first network interface.",
                               row::kKeys<"network.io.direction">));
inline constexpr MetricDesc kK8sPodNetworkErrors = row::Standard(
    row::Counter("k8s.pod.network.errors", "{error}", "Errors of the pod's first network interface.",
                 row::kKeys<"network.io.direction">));

inline constexpr MetricDesc kContainerCpuTime =
    row::Standard(row::Counter("container.cpu.time", "s", "CPU time of the container."));
inline constexpr MetricDesc kContainerCpuUsage =
    row::Standard(row::Real(row::Gauge("container.cpu.usage", "{cpu}", "CPUs the container uses.")));
inline constexpr MetricDesc kContainerMemoryUsage = row::Standard(
    row::UpDown("container.memory.usage", "By", "Memory of the container in use, caches included."));
inline constexpr MetricDesc kContainerMemoryWorkingSet = row::Standard(row::UpDown(
    "container.memory.working_set", "By", "Memory of the container that counts against its limit."));
inline constexpr MetricDesc kContainerMemoryRss =
    row::Standard(row::UpDown("container.memory.rss", "By", "Anonymous memory of the container."));
inline constexpr MetricDesc kContainerMemoryAvailable = row::Standard(
    row::UpDown("container.memory.available", "By", "Memory available to the container below its limit."));
inline constexpr MetricDesc kK8sContainerOomKills = row::Essential(row::Counter(
    "k8s.container.oom_kills", "{kill}", "OOM kills in the container since the agent first saw it."));

// All rows of this header, in the order in which people should read them.
inline constexpr const MetricDesc* kKubernetesUsageRows[] = {
    &kK8sNodeCpuTime,       &kK8sNodeCpuUsage,           &kK8sNodeMemoryUsage, &kK8sNodeMemoryWorkingSet,
    &kK8sNodeMemoryRss,     &kK8sNodeMemoryAvailable,    &kK8sPodCpuTime,      &kK8sPodCpuUsage,
    &kK8sPodMemoryUsage,    &kK8sPodMemoryWorkingSet,    &kK8sPodMemoryRss,    &kK8sPodMemoryAvailable,
    &kK8sPodNetworkIo,      &kK8sPodNetworkErrors,       &kContainerCpuTime,   &kContainerCpuUsage,
    &kContainerMemoryUsage, &kContainerMemoryWorkingSet, &kContainerMemoryRss, &kContainerMemoryAvailable,
    &kK8sContainerOomKills,
};

}  // namespace gpulens
