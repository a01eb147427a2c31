// Whose a process is, by the cgroup that holds it: /proc/<pid>/cgroup of both hierarchies, with the names
// that systemd and cgroupfs drivers give under containerd, CRI-O, Docker and Podman, also where a whole node
// is a container (kind). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpulens::kubelet {

struct CgroupOwner {
  std::string pod_uid;       // as Kubernetes writes it; of a static pod 32 digits without dashes
  std::string container_id;  // 64 hexadecimal digits
  friend bool operator==(const CgroupOwner&, const CgroupOwner&) = default;
};

// Empty parts: in no pod, in no container, or not to be seen from here ("0::/" inside a cgroup namespace).
// The container is the pod's: what runs inside of it (Docker in a pod) counts as that container.
CgroupOwner FindCgroupOwner(std::string_view cgroup);

// "containerd://<id>" of a pod's status: the 64 digits; empty for anything else.
std::string_view ContainerIdOf(std::string_view status_text) noexcept;

// What the kubelet and the runtime call the places of a pod's logs below /var/log.
struct PodLogFolder {
  std::string_view pod_namespace, pod_name, pod_uid;
};
// "<namespace>_<name>_<uid>" in /var/log/pods; none of the parts can have an underscore.
std::optional<PodLogFolder> ParsePodLogFolder(std::string_view name) noexcept;
struct ContainerLogName {
  std::string_view pod_name, pod_namespace, container, container_id;
};
// "<pod>_<namespace>_<container>-<id>.log" in /var/log/containers.
std::optional<ContainerLogName> ParseContainerLogName(std::string_view name) noexcept;

}  // namespace gpulens::kubelet
