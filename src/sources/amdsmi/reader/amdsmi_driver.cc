#include "sources/amdsmi/reader/amdsmi_driver.h"

#include "reader/process/driver_loop.h"

namespace gpulens::amdsmi {

int RunAmdsmiDriver(std::span<const std::string_view> arguments, SymbolLookup simulated) {
  Result<driver::DriverOptions> options = driver::ParseDriverArguments(arguments);
  if (!options) return driver::kDriverBadStart;
  // The library lists its GPUs at its start alone; the kernel's driver has a link for each that it holds.
  if (options->device_folder.empty()) options->device_folder = "/sys/bus/pci/drivers/amdgpu";
  return driver::RunDriver(*options, std::make_shared<AmdsmiLibrary>(options->library_path, simulated));
}

}  // namespace gpulens::amdsmi
