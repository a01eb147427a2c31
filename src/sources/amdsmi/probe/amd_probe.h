// AMD GPUs and their kernel driver as a machine shows them without any library: for `doctor`.
#pragma once

#include <string>

#include "reader/hardware.h"

namespace gpulens::amdsmi {

// GPUs are display and processing devices by AMD, the kernel's driver is the amdgpu module, and device files
// are "/dev/dri/renderD128", …, "/dev/kfd". Reads /sys, /dev and /etc/group below `root` (empty on a real
// machine). Opens no device and no library; takes well under a millisecond. What is not there is left empty.
reader::VendorHardware ProbeGpus(const std::string& root = "");

}  // namespace gpulens::amdsmi
