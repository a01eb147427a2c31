// The sources of this machine, in the order of preference. Nothing is opened yet.
#pragma once

#include <memory>
#include <vector>

#include <gpulens/energy.h>

namespace gpulens::sdk {

std::vector<std::shared_ptr<EnergySource>> SystemSources();

}  // namespace gpulens::sdk
