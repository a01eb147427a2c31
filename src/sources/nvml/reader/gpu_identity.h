// Facts of a GPU that do not change while it is attached.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sources/nvml/reader/nvml_library.h"

namespace gpulens::nvml {

struct GpuIdentity {
  Device device = nullptr;
  unsigned nvlink_count = 0, c2c_count = 0;
  bool coherent_memory = false;  // The CPU addresses the GPU's memory (ATS).
  bool integrated = false;       // It has no memory but the machine's.
  int numa_node = -1;            // Of the GPU's memory, where it is one.
  // Keys: index uuid name serial pci_bus_id pci_device_id pci_subsystem_id minor
  // vbios inforom architecture compute_capability memory_bus_width addressing_mode numa_node
  // mig_mode nvlink_links fans. Unknown facts are omitted.
  std::vector<std::pair<std::string, std::string>> facts;
};

// Appends facts of the board that not every GPU has: gsp_firmware platform_chassis_serial platform_slot
// platform_tray platform_host platform_module cpu_affinity memory_affinity topology. The last is one letter
// per GPU of the machine: n NVLink, i same board, s one switch, m more switches, b host bridge, u NUMA node,
// y system, - not known.
void AddBoardFacts(NvmlCaller& caller, unsigned index, uint32_t details, GpuIdentity& identity);

// Opens GPU `index`. The library's code when it cannot be opened; `out` is then without a device.
int ReadIdentity(NvmlCaller& caller, unsigned index, GpuIdentity& out);

// The address in the form of sysfs, "0000:1a:00.0"; the library writes eight digits of domain and capitals.
// The function is in the library's text only, else 0.
std::string BusIdOf(const PciInfo& info);

}  // namespace gpulens::nvml
