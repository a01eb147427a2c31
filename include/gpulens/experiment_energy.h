// Energy of an experiment from the energy windows of gpulens/energy.h: values for ExperimentOptions::energy.
//
//   gpulens::ExperimentOptions options;
//   options.energy = gpulens::EnergyOfThisMachine();
//   auto run = gpulens::Experiment::Start("my-run", std::move(options));
//
// It is the energy of this process and its descendants on the devices that it may use, separated from that of
// other processes as energy_own.h describes. A program that includes only experiment.h links no device
// library.
#pragma once

#include <gpulens/energy_own.h>
#include <gpulens/experiment.h>

namespace gpulens {

// Meter for one run: a window of `monitor` that begins now. Thread-safe.
ExperimentEnergyMeter EnergyOf(EnergyMonitor monitor);
// Meter for one run with a monitor of its own, which a thread opens so that the start of the run does not
// wait for a driver; the thread ends when the devices are open, and the end of the run waits for that, at
// most 3 s. The energy before is estimated from the first power, bounded by the most that the devices can
// draw, and `reason` has the length of that time.
ExperimentEnergyMeter EnergyOfThisMachine(EnergyOptions options = {});

}  // namespace gpulens
