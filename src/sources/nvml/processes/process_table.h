// Who the processes on the GPUs are: name, owner, container, pod, and when they started. Reads /proc and
// /etc/passwd below a root.
//
// The library numbers processes as the host does. Where /proc does not (a container without the host's
// process ids), the same number is another process: then nothing is told of any.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace gpulens::nvml {

struct ProcessDetails {
  bool visible = false;      // Else nothing of what follows is known.
  uint64_t start_ticks = 0;  // Since boot. Another one under the same pid is another process.
  std::string name;          // As the kernel has it, at most 15 bytes.
  std::string owner;         // The user's name; the number of one that has none.
  std::string container_id, pod_uid;
};

// Used by one thread. Keeps what it has read while the process lasts; a steady Look reads one small file
// and does not allocate. At most kMaxKept processes are kept, further ones are not visible.
class ProcessTable {
 public:
  static constexpr size_t kMaxKept = 8192;

  // `root`: where /proc and /etc are found, "/" on a real machine.
  explicit ProcessTable(std::string root = "/");

  // A new round: what was not looked at in the one before is forgotten.
  void NextRound();
  // The details as of this round. Valid until the next NextRound.
  const ProcessDetails& Look(uint32_t pid);
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
  bool sees_host_ = false;
  uint64_t round_ = 1;
  std::unordered_map<uint32_t, Kept> kept_;
  std::unordered_map<uint32_t, std::string> owners_;  // By uid; emptied when it grows too large.
  std::string path_, text_;
};

}  // namespace gpulens::nvml
