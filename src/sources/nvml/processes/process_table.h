// Names, owners and containers of the processes on the GPUs, and the texts that they are read from:
// /proc/<pid>/stat, status and cgroup, and /etc/passwd. Pure functions over bytes from outside.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gpulens::nvml {

// The start time (ticks since boot), the flags and the parent of a process; nothing when the line makes no
// sense.
struct StatLine {
  uint64_t start_ticks = 0;
  uint64_t flags = 0;
  uint32_t parent = 0;
};
std::optional<StatLine> ReadStatLine(std::string_view text) noexcept;

// The ancestors of a process as they are now, its parent first, without the host's first process; at most
// kMostAncestors: "512,17". Empty: none, or not readable. `root`: where /proc is found, "" or "/" on a real
// machine.
inline constexpr size_t kMostAncestors = 16;
std::string AncestorsOf(const std::string& root, uint32_t pid);

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

// Who the processes on the GPUs are: name, owner, container, pod, and when they started. Reads /proc and
// /etc/passwd below a root.
//
// The library numbers processes as the host does. Where /proc does not (a container without the host's
// process ids), the same number is another process: then none is described.
struct ProcessDetails {
  bool visible = false;      // Else nothing of what follows is known.
  uint64_t start_ticks = 0;  // Since boot. Another one under the same pid is another process.
  std::string name;          // As the kernel has it, at most 15 bytes.
  std::string owner;         // The user's name; the number of one that has none.
  std::string container_id, pod_uid;
  std::string parents;     // AncestorsOf, when it was first looked at.
  bool simulated = false;  // It is none of this machine's processes.
};

// Used by one thread. Keeps what it has read while the process lasts; a steady Look reads one small file
// and does not allocate. At most kMaxKept processes are kept, further ones are not visible.
class ProcessTable {
 public:
  static constexpr size_t kMaxKept = 8192;

  // `root`: where /proc and /etc are found, "/" on a real machine. `find`: simulated processes, which are not
  // looked up there; null: there are none.
  explicit ProcessTable(std::string root = "/", std::function<ProcessDetails(uint32_t pid)> find = nullptr);
  // Of simulated processes: what `find` returns is what there is.
  explicit ProcessTable(std::function<ProcessDetails(uint32_t pid)> find);

  // A new round: what was not looked at in the one before is forgotten.
  void NextRound();
  // The details as of this round. Valid until the next NextRound.
  const ProcessDetails& Find(uint32_t pid);
  // Whether /proc numbers processes as the host does.
  bool sees_host() const noexcept { return sees_host_; }

 private:
  struct Kept {
    ProcessDetails details;
    uint64_t round = 0;
  };

  bool Read(uint32_t pid, const char* file, std::string& out);
  void Fill(uint32_t pid, ProcessDetails& out);
  std::string OwnerOf(uint32_t uid);

  const std::string root_;
  const std::function<ProcessDetails(uint32_t pid)> find_;  // may be null
  const bool only_find_ = false;
  bool sees_host_ = false;
  uint64_t round_ = 1;
  std::unordered_map<uint32_t, Kept> kept_;
  std::unordered_map<uint32_t, std::string> owners_;  // By uid; emptied when it grows too large.
  std::string path_, text_;
};

}  // namespace gpulens::nvml
