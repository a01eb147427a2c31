#include "sources/amdsmi/probe/amd_probe.h"

#include <unistd.h>

namespace gpulens::amdsmi {
namespace {

// VGA, other display, 3D controllers, and the "processing accelerators" that MI300 calls itself.
bool IsGpu(std::string_view kind) { return kind.starts_with("0x03") || kind.starts_with("0x1200"); }

}  // namespace

reader::VendorHardware ProbeGpus(const std::string& root) {
  reader::VendorHardware out;
  out.pci_gpus = reader::PciGpus(root, "0x1002", &IsGpu);
  out.kernel_driver = ::access((root + "/sys/module/amdgpu").c_str(), F_OK) == 0;
  out.kernel_driver_version = reader::FirstLineOf(root + "/sys/module/amdgpu/version");
  if (out.pci_gpus.empty()) return out;  // A render node without an AMD GPU is another vendor's.
  for (const std::string& name : reader::EntriesIn(root + "/dev/dri")) {
    if (!name.starts_with("renderD")) continue;
    std::string vendor = reader::FirstLineOf(root + "/sys/class/drm/" + name + "/device/vendor");
    if (vendor.empty() || vendor == "0x1002") reader::AddDevice(root, "/dev/dri/" + name, out);
  }
  reader::AddDevice(root, "/dev/kfd", out);
  return out;
}

}  // namespace gpulens::amdsmi
