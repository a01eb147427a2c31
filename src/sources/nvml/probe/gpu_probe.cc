#include "sources/nvml/probe/gpu_probe.h"

#include <unistd.h>

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::nvml {
namespace {

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue …": the first word of two or three
// numbers with dots between.
std::string VersionIn(std::string_view line) {
  while (!line.empty()) {
    std::string_view word = TakeUntil(line, ' '), rest = word;
    int numbers = 0;
    bool good = !word.empty();
    while (good && !rest.empty()) {
      good = ParseInt<unsigned>(TakeUntil(rest, '.')).has_value();
      ++numbers;
    }
    if (good && numbers >= 2 && numbers <= 3) return std::string(word);
  }
  return {};
}

// The library's name is a link to the file that names its version: libnvidia-ml.so.580.95.05.
std::string LibraryVersion(const std::string& root) {
  constexpr std::string_view kStem = "libnvidia-ml.so.";
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib64/",
                             "/usr/local/nvidia/lib64/"}) {
    char target[256];
    ssize_t size = ::readlink((root + folder + "libnvidia-ml.so.1").c_str(), target, sizeof target);
    if (size <= 0 || static_cast<size_t>(size) == sizeof target) continue;
    std::string_view name(target, static_cast<size_t>(size));
    if (size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
    return name.starts_with(kStem) ? VersionIn(name.substr(kStem.size())) : "";
  }
  return {};
}

bool IsDevice(std::string_view name) {
  constexpr std::string_view kPrefix = "nvidia";
  if (!name.starts_with(kPrefix)) return false;
  std::string_view rest = name.substr(kPrefix.size());
  return rest == "ctl" || rest == "-uvm" || ParseInt<unsigned>(rest).has_value();
}

// GPUs of Windows come through /dev/dxg; those of a Jetson are part of its chip, and listed in the device
// tree.
std::string PlatformOf(const std::string& root) {
  if (::access((root + "/dev/dxg").c_str(), F_OK) == 0 &&
      ::access((root + "/usr/lib/wsl/lib/libnvidia-ml.so.1").c_str(), F_OK) == 0)
    return "WSL";
  for (const char* path : {"/proc/device-tree/compatible", "/sys/firmware/devicetree/base/compatible"}) {
    if (ReadFile(root + path, 4096).value_or("").find("nvidia,tegra") != std::string::npos) return "Jetson";
  }
  return {};
}

}  // namespace

bool MayHaveGpus(const reader::VendorHardware& hardware) noexcept {
  return !hardware.pci_gpus.empty() || !hardware.devices.empty() || hardware.kernel_driver ||
         !hardware.platform.empty();
}

bool LacksDeviceNodes(const reader::VendorHardware& hardware) noexcept {
  constexpr std::string_view kNode = "/dev/nvidia";
  return hardware.kernel_driver && !hardware.pci_gpus.empty() &&
         std::ranges::none_of(hardware.devices, [&](std::string_view device) {
           return device.starts_with(kNode) && ParseInt<unsigned>(device.substr(kNode.size())).has_value();
         });
}

reader::VendorHardware ProbeGpus(const std::string& root) {
  reader::VendorHardware out;
  out.platform = PlatformOf(root);
  out.pci_hidden = reader::EntriesIn(root + "/sys/bus/pci/devices").empty();
  out.pci_gpus =
      reader::PciGpus(root, "0x10de", [](std::string_view kind) { return kind.starts_with("0x03"); });
  out.kernel_driver = ::access((root + "/proc/driver/nvidia").c_str(), F_OK) == 0;
  out.kernel_driver_version = VersionIn(reader::FirstLineOf(root + "/proc/driver/nvidia/version"));
  out.library_version = LibraryVersion(root);
  out.service_manager = ::access((root + "/run/systemd/system").c_str(), F_OK) == 0;
  for (const std::string& name : reader::EntriesIn(root + "/dev")) {
    if (IsDevice(name)) reader::AddDevice(root, "/dev/" + name, out);
  }
  return out;
}

}  // namespace gpulens::nvml
