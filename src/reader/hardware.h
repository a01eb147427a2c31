// Hardware and kernel driver of a vendor as a machine shows them without any library: for `doctor`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpulens::reader {

struct VendorHardware {
  struct Closed {
    std::string path;
    std::string group;  // that may open it; empty when unknown, or when it would not help
  };
  std::vector<std::string> pci_gpus;  // "0000:1a:00.0", sorted.
  bool pci_hidden = false;            // No PCI device at all can be seen: a container with a masked /sys.
  // Where GPUs are not on a PCI bus of this kernel: "WSL", "Jetson"; empty elsewhere.
  std::string platform;
  bool kernel_driver = false;         // The kernel has the vendor's driver.
  std::string kernel_driver_version;  // "580.95.05"; empty when unknown.
  std::string library_version;        // of the vendor's library on disk; empty when unknown
  std::vector<std::string> devices;   // "/dev/nvidia0", …, in the order in which they were added.
  std::vector<Closed> unreadable;     // Those of `devices` that we may not open.
  bool service_manager = false;       // systemd runs below this root: a host, not a container of one program

  // Whether the library was replaced while the older driver is loaded: what starts now cannot use the
  // devices.
  bool Mismatch() const noexcept {
    return !kernel_driver_version.empty() && !library_version.empty() &&
           kernel_driver_version != library_version;
  }
};

// All of these read below a root (empty on a real machine), open no device, and leave empty what is not
// there.

// Names in a folder, sorted, without hidden ones; a few thousand at most.
std::vector<std::string> EntriesIn(const std::string& folder);
// Without blanks around it.
std::string FirstLineOf(const std::string& path);
// PCI devices of the vendor ("0x10de") whose class, "0x030200", is a GPU's.
std::vector<std::string> PciGpus(const std::string& root, std::string_view vendor,
                                 bool (*is_gpu)(std::string_view kind));
// Adds the device file, if there is one.
void AddDevice(const std::string& root, const std::string& path, VendorHardware& out);

}  // namespace gpulens::reader
