// What a machine shows of NVIDIA hardware and driver without asking any library: for `doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens::nvml {

struct GpuProbe {
  std::vector<std::string> pci_gpus;    // "0000:1a:00.0", sorted: display controllers by NVIDIA.
  bool kernel_driver = false;           // /proc/driver/nvidia is there.
  std::string kernel_driver_version;    // "580.95.05"; empty when it cannot be told.
  std::vector<std::string> devices;     // "/dev/nvidia0", "/dev/nvidiactl", …, sorted.
  std::vector<std::string> unreadable;  // Those of `devices` that we may not open.
};

// Reads /sys, /proc and /dev below `root` (empty on a real machine). Opens no device and no library;
// takes well under a millisecond. What is not there is left empty.
GpuProbe ProbeGpus(const std::string& root = "");

}  // namespace gpulens::nvml
