// InferenceCall: measures the times, tokens and energy of a call, and records them.
#include "sdk/inference/call.h"

#include <exception>

#include "sdk/inference/core.h"

namespace gpulens {

using namespace inference;
using telemetry::RecordRow, telemetry::TextColumn;

struct InferenceCall::State {
  std::shared_ptr<internal::InferenceCore> core;
  RecordRow begun;  // its texts are views of `texts`
  std::array<std::string, telemetry::kTexts> texts;
  std::string error;
  std::optional<EnergyWindow> energy;
  CallClock clock;
  int exceptions = std::uncaught_exceptions();

  void Keep(const InferenceRecord& known) {
    begun = telemetry::FromRecord(known);
    for (size_t i = 0; i < telemetry::kTexts; ++i) {
      texts[i] = begun.texts[i];
      begun.texts[i] = texts[i];
    }
    if (std::isnan(begun.numbers.timestamp))
      begun.numbers.timestamp =
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  void End(RecordRow row) noexcept;
};

void InferenceCall::State::End(RecordRow row) noexcept {
  RecordRow measured;
  clock.End(measured.numbers);
  // In order of precedence: values of Finish, measured ones, values of Begin.
  telemetry::FillFrom(row, measured);
  telemetry::FillFrom(row, begun);
  telemetry::Derive(row.numbers);
  std::unique_ptr<RecordSettler> settler;
  if (energy) {
    energy->End();
    try {
      settler = SettleEnergy(std::move(*energy));
    } catch (...) {
      settler = nullptr;  // no memory: the energy is unknown
    }
  }
  core->Record(row, settler ? &settler : nullptr);
}

InferenceCall::InferenceCall(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
InferenceCall::InferenceCall(InferenceCall&&) noexcept = default;
InferenceCall& InferenceCall::operator=(InferenceCall&& other) noexcept {
  if (this != &other) {
    InferenceCall old(std::move(*this));
    state_ = std::move(other.state_);
  }
  return *this;
}

InferenceCall::~InferenceCall() {
  if (!state_) return;
  RecordRow row;
  const bool failed = !state_->error.empty() || std::uncaught_exceptions() > state_->exceptions;
  row.numbers.outcome = static_cast<int64_t>(failed ? Outcome::kError : Outcome::kCancelled);
  if (!state_->error.empty()) row.text(TextColumn::kErrorType) = state_->error;
  else if (failed) row.text(TextColumn::kErrorType) = "exception";
  state_->End(row);
}

void InferenceCall::Enter() noexcept {
  if (state_) state_->clock.Enter();
}
void InferenceCall::Leave() noexcept {
  if (state_) state_->clock.Leave();
}

void InferenceCall::AddTokens(int64_t tokens) noexcept {
  if (!state_ || tokens <= 0) return;
  if (state_->energy) {
    if (state_->clock.tokens() == 0) state_->energy->Mark(kDecode);
    state_->energy->AddTokens(tokens);
  }
  state_->clock.AddTokens(tokens);
}

void InferenceCall::SetError(std::string_view type) noexcept {
  if (!state_) return;
  try {
    state_->error = type.empty() ? "error" : type.substr(0, telemetry::kMostTextBytes);
  } catch (...) {
    state_->error = "error";
  }
}

void InferenceCall::Finish(const InferenceRecord& known) noexcept {
  if (!state_) return;
  RecordRow row = telemetry::FromRecord(known);
  if (!state_->error.empty() && known.outcome == Outcome::kOk && known.error_type.empty()) {
    row.numbers.outcome = static_cast<int64_t>(Outcome::kError);
    row.text(TextColumn::kErrorType) = state_->error;
  }
  state_->End(row);
  state_.reset();
}

InferenceCall InferenceStore::Begin(const InferenceRecord& known) noexcept {
  std::unique_ptr<InferenceCall::State> state;
  try {
    state = std::make_unique<InferenceCall::State>();
    state->core = core_;
    state->Keep(known);
    if (EnergyMonitor* monitor = core_->options().energy) {
      state->energy.emplace(monitor->Request());
      state->energy->Mark(kPrefill);
    }
  } catch (...) {  // no memory: a call that is not recorded
    state = nullptr;
    core_->Drop();
  }
  return InferenceCall(std::move(state));
}

}  // namespace gpulens

namespace gpulens::inference {
namespace {

using telemetry::RecordRow, telemetry::TextColumn, telemetry::RecordNumbers;

class EnergySettler final : public RecordSettler {
 public:
  explicit EnergySettler(EnergyWindow window) noexcept : window_(std::move(window)) {}
  void Settle(RecordRow& row) noexcept override {
    try {
      Fill(row);
    } catch (...) {  // no memory: the energy is unknown
      return;
    }
  }

 private:
  void Fill(RecordRow& row) {
    const EnergyResult energy = window_.result();
    if (!energy.valid()) return;
    RecordRow known;
    RecordNumbers& n = known.numbers;
    n.energy_joules = energy.energy_joules, n.energy_uncertainty_joules = energy.uncertainty_joules;
    n.gpu_energy_joules = energy.gpu_joules, n.cpu_energy_joules = energy.cpu_joules;
    n.dram_energy_joules = energy.dram_joules, n.power_watts = energy.mean_power_watts;
    n.gpu_utilization_pct = energy.ticks.mean_utilization_ratio * 100;
    n.gpu_memory_used_gb = energy.ticks.peak_memory_used_bytes / telemetry::kGibibyte;
    n.gpu_temperature_c = energy.ticks.mean_temperature_celsius;
    const EnergyResult prefill = window_.phase(kPrefill), decode = window_.phase(kDecode);
    // Without a first token the end of the prefill is unknown.
    if (prefill.valid() && decode.valid()) {
      n.prefill_energy_joules = prefill.energy_joules;
      n.decode_energy_joules = decode.energy_joules;
    }
    // Values measured by the caller are not mixed with ours.
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

std::unique_ptr<RecordSettler> SettleEnergy(EnergyWindow window) {
  return std::make_unique<EnergySettler>(std::move(window));
}

}  // namespace gpulens::inference
