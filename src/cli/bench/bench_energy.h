// What the devices of this machine drew while a load run was measured.
#pragma once

#include <optional>
#include <string>

#include <gpulens/energy.h>

#include "cli/bench/load_plan.h"
#include "cli/bench/load_record.h"
#include "cli/bench/load_summary.h"

namespace gpulens {

// A plain value; joules that are not known are NaN, and the result's reason says why.
struct BenchEnergy {
  EnergyResult run;
  // Of all tokens that came in that time: the devices do not tell the prompt's from the answer's.
  double joules_per_output_token = kNotMeasured;
  double joules_per_request = kNotMeasured;
};

// Reads from its making on. Used by one thread.
class BenchMeter {
 public:
  // Only where the server is this machine: the energy of others is not known here. `always`: it is, whatever
  // its address says.
  BenchMeter(const LoadPlan& plan, bool always);
  // Of the requests after the warm-up: from the first that was due to the last that ended.
  BenchEnergy Measure(const LoadRecord& record, const LoadSummary& summary);
  // Null: the joules of the server are not known here.
  EnergyMonitor* monitor() noexcept { return monitor_ ? &*monitor_ : nullptr; }

 private:
  std::optional<EnergyMonitor> monitor_;
  std::string why_;
};

// Whether a name or address of a URL is this machine's own.
bool IsLocalHost(std::string_view host) noexcept;

std::string EnergyText(const BenchEnergy& energy);
void AppendEnergyJson(std::string& out, const BenchEnergy& energy);

}  // namespace gpulens
