// NVIDIA hardware and kernel driver as a machine shows them without any library: for `doctor`.
#pragma once

#include <string>

#include "reader/hardware.h"

namespace gpulens::nvml {

// GPUs are display controllers by NVIDIA, the kernel's driver shows as /proc/driver/nvidia, and device files
// are "/dev/nvidia0", "/dev/nvidiactl", …, sorted. Reads /sys, /proc, /dev and /etc/group below `root` (empty
// on a real machine). Opens no device and no library; takes well under a millisecond. What is not there is
// left empty.
reader::VendorHardware ProbeGpus(const std::string& root = "");

// Whether the driver is loaded and lists GPUs, but no device node of a GPU, such as /dev/nvidia0, was made.
bool LacksDeviceNodes(const reader::VendorHardware& hardware) noexcept;

// Whether it is worth while to open the library: a bus, device files, the kernel's driver, or a platform
// whose GPUs are on no bus. A container may hide some of them.
bool MayHaveGpus(const reader::VendorHardware& hardware) noexcept;

}  // namespace gpulens::nvml
