// What a node's files tell of its pods without asking anybody: the kubelet's device checkpoint, the names of
// the places where logs go, and the cgroups of processes. All below a root that can be moved.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/files.h"
#include "sources/kubelet/parse/cgroup_owner.h"
#include "sources/kubelet/parse/checkpoint.h"

namespace gpulens::kubelet {

struct LogPod {
  std::string name_space, name, uid;
  friend bool operator==(const LogPod&, const LogPod&) = default;
};
struct LogContainer {
  std::string name_space, pod, container, id;
  friend bool operator==(const LogContainer&, const LogContainer&) = default;
};

// Files are read again only when they have changed. Not thread-safe; reads files, so it belongs on a worker.
class NodeFiles {
 public:
  // `root`: "/" or where the host's root is mounted. `checkpoint`: below it.
  NodeFiles(std::string root, std::string checkpoint);

  // kUnavailable, kPermissionDenied: no such file, and no entries then. One that makes no sense (it is being
  // written) leaves what was read before, for as long as it makes none.
  Status ReadCheckpoint();
  const std::vector<CheckpointEntry>& checkpoint() const noexcept { return entries_; }
  bool checkpoint_known() const noexcept { return known_; }

  // The folders of /var/log/pods, and the links of /var/log/containers. Pods that are gone may stand there
  // for a moment. At most 8,192 of each.
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

// Whether `root`/proc numbers processes as the host does; elsewhere a number would be another process.
bool SeesHostProcesses(const std::string& root);
// Whose the process is, as `root`/proc/<pid>/cgroup tells; empty when it cannot be read. One small file.
CgroupOwner OwnerOfProcess(const std::string& root, uint32_t pid);

}  // namespace gpulens::kubelet
