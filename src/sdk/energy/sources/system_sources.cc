#include "sdk/energy/sources/system_sources.h"

#include "sdk/energy/sources/amd_energy.h"
#include "sdk/energy/sources/hwmon_energy.h"
#include "sdk/energy/sources/nvml_energy.h"
#include "sdk/energy/sources/rapl_energy.h"

namespace gpulens::sdk {

std::vector<std::shared_ptr<EnergySource>> SystemSources() {
  return {std::make_shared<NvmlEnergy>(nullptr, RealClock()),
          std::make_shared<AmdEnergy>(nullptr, RealClock()), std::make_shared<HwmonEnergy>("/"),
          std::make_shared<RaplEnergy>("/")};
}

}  // namespace gpulens::sdk
