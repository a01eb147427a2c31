// The joules of a run, from the energy windows of gpulens/energy.h: what ExperimentOptions::energy asks.
//
//   gpulens::ExperimentOptions options;
//   options.energy = gpulens::EnergyOfThisMachine();
//   auto run = gpulens::Experiment::Start("my-run", std::move(options));
//
// It is what this process and those that descend from it drew of the devices that it may use: energy_own.h
// says how that is told. Apart from experiment.h, so that a program without it links no device library.
#pragma once

#include <gpulens/energy_own.h>
#include <gpulens/experiment.h>

namespace gpulens {

// A window of `monitor` that begins now. For one run; called by one thread or by several.
ExperimentEnergyMeter EnergyOf(EnergyMonitor monitor);
// Of a monitor that a thread opens meanwhile, so that nobody waits for a driver when a run begins; it has
// ended once the devices are open. The end of a run waits for it, 3 s at most. What was before that is told
// by the power of then, with the bound of what the devices can draw, and `reason` says how long it was.
ExperimentEnergyMeter EnergyOfThisMachine(EnergyOptions options = {});

}  // namespace gpulens
