// What a run's meter says of its energy, and the row that is kept of it.
#pragma once

#include <gpulens/experiment.h>

#include "store/experiments/run_rows.h"

namespace gpulens::experiments {

// What `meter` says, also when it throws.
ExperimentEnergy QueryEnergy(const ExperimentEnergyMeter& meter, bool ended);
EnergyRow ToRow(const ExperimentEnergy& energy);

}  // namespace gpulens::experiments
