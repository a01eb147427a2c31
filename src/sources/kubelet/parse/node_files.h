// Pods of a node from its files: the kubelet's device checkpoint, the names of log folders and links, and the
// cgroups of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/files.h"

namespace gpulens::kubelet {

struct CgroupOwner {
  std::string pod_uid;       // of a static pod 32 digits without dashes
  std::string container_id;  // 64 hexadecimal digits
  friend bool operator==(const CgroupOwner&, const CgroupOwner&) = default;
};

// The owner in /proc/<pid>/cgroup of both hierarchies, with the names that systemd and cgroupfs drivers give
// under containerd, CRI-O, Docker and Podman, also where a whole node is a container (kind). Empty parts: in
// no pod, in no container, or hidden ("0::/" inside a cgroup namespace). The container is the pod's: Docker
// in a pod counts as that container. Pure.
CgroupOwner FindCgroupOwner(std::string_view cgroup);

// The 64 digits of "containerd://<id>" in a pod's status; empty for anything else.
std::string_view ContainerIdOf(std::string_view status_text) noexcept;

struct LogPod {
  std::string name_space, name, uid;
  friend bool operator==(const LogPod&, const LogPod&) = default;
};
// "<namespace>_<name>_<uid>" in /var/log/pods; none of the parts can have an underscore.
std::optional<LogPod> ParsePodLogFolder(std::string_view name);
struct LogContainer {
  std::string name_space, pod, container, id;
  friend bool operator==(const LogContainer&, const LogContainer&) = default;
};
// "<pod>_<namespace>_<container>-<id>.log" in /var/log/containers.
std::optional<LogContainer> ParseContainerLogName(std::string_view name);

struct CheckpointEntry {
  std::string pod_uid, container, resource;
  std::vector<std::string> ids;  // of all NUMA nodes, sorted
};

inline constexpr std::string_view kCheckpointFile =
    "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";
inline constexpr size_t kMostCheckpointBytes = 8u << 20;

// Parses the kubelet's own record of which container holds which device: kubelet_internal_checkpoint. It has
// the pod uids that the PodResources service leaves out; no interface of Kubernetes, so it is optional. Both
// forms: ids by NUMA node, and the plain list of kubelets before 1.20. Entries without a uid or devices are
// left out. kDataLoss: another text; kExhausted: more entries than a node can have. Pure.
Result<std::vector<CheckpointEntry>> ParseCheckpoint(std::string_view json);

// Reads the files again only when they have changed. Not thread-safe; belongs on a worker.
class NodeFiles {
 public:
  // `root`: "/" or where the host's root is mounted. `checkpoint`: below it.
  NodeFiles(std::string root, std::string checkpoint);

  // kUnavailable, kPermissionDenied: no such file, and no entries then. A malformed one (it is being written)
  // keeps the old entries.
  Status ReadCheckpoint();
  const std::vector<CheckpointEntry>& checkpoint() const noexcept { return entries_; }
  bool checkpoint_known() const noexcept { return known_; }

  // Reads the folders of /var/log/pods and the links of /var/log/containers, at most 8,192 of each. Deleted
  // pods may stay there for a moment.
  void ReadLogs();
  const std::vector<LogPod>& pods() const noexcept { return pods_; }
  const std::vector<LogContainer>& containers() const noexcept { return containers_; }

 private:
  const std::string root_, checkpoint_file_;
  bool known_ = false;
  FileMark checkpoint_mark_, pods_mark_, containers_mark_;
  std::vector<CheckpointEntry> entries_;
  std::vector<LogPod> pods_;
  std::vector<LogContainer> containers_;
};

// Whether `root`/proc has the host's pids.
bool SeesHostProcesses(const std::string& root);
// The owner by `root`/proc/<pid>/cgroup; empty when it cannot be read. One small file.
CgroupOwner OwnerOfProcess(const std::string& root, uint32_t pid);

}  // namespace gpulens::kubelet
