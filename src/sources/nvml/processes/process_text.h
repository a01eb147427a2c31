// What the kernel and a container runtime say of a process, read from text: /proc/<pid>/stat, status and
// cgroup, and /etc/passwd. Pure functions over bytes from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpulens::nvml {

// The start time (ticks since boot) and the flags of a process; nothing when the line makes no sense.
struct StatLine {
  uint64_t start_ticks = 0;
  uint64_t flags = 0;
};
std::optional<StatLine> ReadStatLine(std::string_view text) noexcept;

// The real user id of /proc/<pid>/status.
std::optional<uint32_t> ReadUid(std::string_view status) noexcept;

// The container of a cgroup path and the pod it belongs to, as Docker, containerd, CRI-O and Podman name
// them. Empty: in none. Views into `cgroup`.
struct CgroupNames {
  std::string_view container_id;  // 64 hexadecimal digits
  std::string_view pod_uid;       // 36 characters; systemd writes "_" for "-"
};
CgroupNames ReadCgroupNames(std::string_view cgroup) noexcept;
// A pod's uid with the dashes that Kubernetes writes.
std::string PodUid(std::string_view found);

// The name of a user in a passwd file; empty when it is not there. A view into `passwd`.
std::string_view FindUserName(std::string_view passwd, uint32_t uid) noexcept;

}  // namespace gpulens::nvml
