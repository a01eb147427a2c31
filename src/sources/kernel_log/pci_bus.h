// Devices on the PCI bus, as sysfs lists them without any driver: for messages that name a device by its
// address.
#pragma once

#include <string>
#include <vector>

#include "base/pci_address.h"

namespace gpulens::kernel_log {

struct PciDevice {
  PciAddress address;
  uint32_t vendor = 0, klass = 0;  // 0x10de, 0x068000
  std::vector<PciAddress> ports;   // bridges between the root and it, the root port first
  bool IsGpu() const noexcept;     // display controllers and processing accelerators
  bool IsNvswitch() const noexcept;
};

// Reads <root>/sys/bus/pci/devices; at most 4,096 devices. Empty where there is none.
std::vector<PciDevice> ReadPciBus(const std::string& root);

}  // namespace gpulens::kernel_log
