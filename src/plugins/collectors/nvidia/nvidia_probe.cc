#include "plugins/collectors/nvidia/nvidia_probe.h"

#include "sources/nvml/probe/gpu_probe.h"

namespace gpulens {
namespace {

std::string Plural(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

std::vector<Finding> ProbeNvidia(bool asked, const std::string& library, bool demo) {
  Finding finding;
  finding.subject = "nvidia";
  if (demo) {
    finding.what = "8 SIMULATED GPUs, no hardware is read";
    return {finding};
  }
  driver::Hardware probe = nvml::ProbeGpus();
  if (probe.pci_gpus.empty() && nvml::MayHaveGpus(probe)) {
    // What is open for us, and whether it holds a GPU, the library tells.
    finding.what = !probe.platform.empty() ? probe.platform + ", whose GPUs are not on a PCI bus"
                   : probe.devices.empty() ? "the kernel driver, and no GPU on the PCI bus"
                                           : probe.devices.front() + ", and no GPU on the PCI bus";
    if (probe.pci_hidden && probe.platform.empty()) finding.what += " (/sys is hidden in this container)";
    return {finding};
  }
  if (probe.pci_gpus.empty()) {
    finding.kind = asked ? Finding::kFound : Finding::kNotHere;
    finding.what = asked ? "library " + library : "";
    finding.why = "no NVIDIA device on the PCI bus";
    return {finding};
  }
  finding.what = Plural(probe.pci_gpus.size(), "device") + " on the PCI bus";
  if (probe.devices.empty()) {
    finding.kind = Finding::kNoPermission;
    finding.why = probe.kernel_driver ? "the driver is loaded, but /dev/nvidia* is not in this container"
                                      : "the kernel driver is not loaded";
    finding.remedy = probe.kernel_driver ? "docker run --gpus all …     Kubernetes: runtimeClassName: nvidia"
                                         : "sudo modprobe nvidia     or install the driver";
  } else if (!probe.unreadable.empty()) {
    finding.kind = Finding::kNoPermission;
    finding.why = probe.unreadable.front().path + ": permission denied";
    finding.remedy = "sudo gpulens agent     or add this user to the device's group";
  } else if (!probe.kernel_driver_version.empty()) {
    finding.what += ", driver " + probe.kernel_driver_version;
  }
  if (!probe.Mismatch()) return {finding};
  Finding mismatch{
      Finding::kBroken, "nvidia driver",
      "driver " + probe.kernel_driver_version + " is loaded, but the library on disk has version " +
          probe.library_version,
      "the driver was upgraded but not reloaded: programs that start now cannot use the GPUs",
      "reboot, or stop all GPU programs, then: sudo modprobe -r nvidia_uvm nvidia && sudo modprobe "
      "nvidia"};
  return {finding, mismatch};
}

}  // namespace gpulens
