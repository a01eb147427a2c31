// Energy of a run as its meter reports it, and as a row.
#pragma once

#include <gpulens/experiment.h>

#include "store/experiments/run_rows.h"

namespace gpulens::experiments {

// Calls `meter`, which may throw.
ExperimentEnergy QueryEnergy(const ExperimentEnergyMeter& meter, bool ended);
EnergyRow ToRow(const ExperimentEnergy& energy);

}  // namespace gpulens::experiments
