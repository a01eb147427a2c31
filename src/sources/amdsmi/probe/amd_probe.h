// What a machine shows of AMD GPUs and their driver without asking any library: for `doctor`.
#pragma once

#include <string>
#include <vector>

namespace gpulens::amdsmi {

struct AmdProbe {
  struct Closed {
    std::string path;
    std::string group;  // That may open it; empty when that cannot be told, or would not help.
  };
  std::vector<std::string> pci_gpus;  // "0000:0c:00.0", sorted: display and processing devices by AMD.
  bool kernel_driver = false;         // The amdgpu module is there.
  std::string kernel_driver_version;  // "6.14.14"; empty when it cannot be told.
  std::vector<std::string> devices;   // "/dev/dri/renderD128", …, "/dev/kfd", sorted.
  std::vector<Closed> unreadable;     // Those of `devices` that we may not open.
};

// Reads /sys, /dev and /etc/group below `root` (empty on a real machine). Opens no device and no library;
// takes well under a millisecond. What is not there is left empty.
AmdProbe ProbeGpus(const std::string& root = "");

}  // namespace gpulens::amdsmi
