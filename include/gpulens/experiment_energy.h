// The joules of a run, from the energy windows of gpulens/energy.h: what ExperimentOptions::energy asks.
//
//   gpulens::ExperimentOptions options;
//   options.energy = gpulens::EnergyOfThisMachine();
//   auto run = gpulens::Experiment::Start("my-run", std::move(options));
//
// It is what the devices drew that this process may use, while the run lasted, whoever used them: `reason`
// says how many processes did. Apart from experiment.h, so that a program without it links no device library.
#pragma once

#include <gpulens/energy.h>
#include <gpulens/experiment.h>

namespace gpulens {

// A window of `monitor` that begins now. For one run; called by one thread or by several.
ExperimentEnergyMeter EnergyOf(EnergyMonitor monitor);
// Of a monitor that a thread opens meanwhile, so that nobody waits for a driver when a run begins; it has
// ended once the devices are open. The end of a run waits for it, 3 s at most. Until then it draws nothing:
// the first tenths of a second of a run may be missing, and `reason` says how many.
ExperimentEnergyMeter EnergyOfThisMachine(EnergyOptions options = {});

}  // namespace gpulens
