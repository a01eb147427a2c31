#include "sdk/inference/energy_settler.h"

#include <cmath>

namespace gpulens::inference {
namespace {

using telemetry::Row, telemetry::TextColumn, telemetry::Numbers;

class EnergySettler final : public Settler {
 public:
  explicit EnergySettler(EnergyWindow window) noexcept : window_(std::move(window)) {}
  void Settle(Row& row) noexcept override {
    try {
      Fill(row);
    } catch (...) {  // no memory: the energy is not known
      return;
    }
  }

 private:
  void Fill(Row& row) {
    const EnergyResult energy = window_.result();
    if (!energy.valid()) return;
    Row known;
    Numbers& n = known.numbers;
    n.energy_joules = energy.energy_joules, n.energy_uncertainty_joules = energy.uncertainty_joules;
    n.gpu_energy_joules = energy.gpu_joules, n.cpu_energy_joules = energy.cpu_joules;
    n.dram_energy_joules = energy.dram_joules, n.power_watts = energy.mean_power_watts;
    n.gpu_utilization_pct = energy.ticks.mean_utilization_ratio * 100;
    n.gpu_memory_used_gb = energy.ticks.peak_memory_used_bytes / telemetry::kGibibyte;
    n.gpu_temperature_c = energy.ticks.mean_temperature_celsius;
    const EnergyResult prefill = window_.phase(kPrefill), decode = window_.phase(kDecode);
    // Of an answer without a first token nobody knows where the prompt ended.
    if (prefill.valid() && decode.valid()) {
      n.prefill_energy_joules = prefill.energy_joules;
      n.decode_energy_joules = decode.energy_joules;
    }
    // Of what the caller measured itself nothing is mixed with ours.
    if (std::isnan(row.numbers.energy_joules)) {
      known.text(TextColumn::kEnergyMethod) = EnergyMethodName(energy.method);
      known.text(TextColumn::kEnergyVendor) = EnergyVendorName(energy.vendor);
      telemetry::FillFrom(row, known);
      telemetry::Derive(row.numbers);
    }
  }

  EnergyWindow window_;
};

}  // namespace

std::unique_ptr<Settler> SettleEnergy(EnergyWindow window) {
  return std::make_unique<EnergySettler>(std::move(window));
}

}  // namespace gpulens::inference
