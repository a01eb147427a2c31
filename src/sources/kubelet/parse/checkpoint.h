// The kubelet's own record of which container holds which device: kubelet_internal_checkpoint. It has the
// pod uids that the PodResources service leaves out. No interface of Kubernetes: read, never relied on. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::kubelet {

struct CheckpointEntry {
  std::string pod_uid, container, resource;
  std::vector<std::string> ids;  // of all NUMA nodes, sorted
};

inline constexpr std::string_view kCheckpointFile =
    "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
inline constexpr size_t kMostCheckpointBytes = 8u << 20;

// Both forms: ids by NUMA node, and the plain list of kubelets before 1.20. Entries without a uid or
// devices are left out. kDataLoss: no checkpoint; kExhausted: more entries than a node can have.
Result<std::vector<CheckpointEntry>> ParseCheckpoint(std::string_view json);

}  // namespace gpulens::kubelet
