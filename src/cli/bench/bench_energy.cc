#include "cli/bench/bench_energy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace gpulens {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

// Readings that are kept: memory for a longer run is found by reading less often.
constexpr int64_t kMostReadings = 60'000;

EnergyOptions OptionsOf(const LoadPlan& plan) {
  EnergyOptions options;
  const bool known = plan.duration.count() > 0;
  options.history = known ? plan.duration + plan.timeout + minutes(1) : Duration(hours(1));
  options.interval =
      std::clamp<Duration>(options.history / kMostReadings, milliseconds(50), milliseconds(1000));
  return options;
}

void AppendNumber(std::string& out, const char* name, double value) {
  char text[48] = "null";
  if (std::isfinite(value)) std::snprintf(text, sizeof text, "%.9g", value);
  out += ",\"" + std::string(name) + "\":" + text;
}

void AppendName(std::string& out, const char* name, std::string_view value) {
  out += ",\"" + std::string(name) + "\":";
  AppendJsonString(out, value);
}

}  // namespace

bool IsLocalHost(std::string_view host) noexcept {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

BenchMeter::BenchMeter(const LoadPlan& plan, bool always) {
  if (always || IsLocalHost(plan.url.host)) monitor_.emplace(OptionsOf(plan));
  else
    why_ = "the server is on another machine: run this command there, or pass --energy if " + plan.url.host +
           " is this machine";
}

BenchEnergy BenchMeter::Measure(const LoadRecord& record, const LoadSummary& summary) {
  BenchEnergy out;
  if (!monitor_ || summary.end_ns <= summary.begin_ns) {
    out.run.validity = monitor_ ? EnergyValidity::kGap : EnergyValidity::kNoDevice;
    out.run.reason = monitor_ ? "no request was measured" : why_;
    return out;
  }
  const auto at = [&](int64_t ns) { return TimePoint(Duration(record.start_ns + ns)); };
  // A window that ends now waits for the reading that closes the run, too.
  static_cast<void>(monitor_->Window().result(std::chrono::seconds(1)));
  out.run = monitor_->Between(at(summary.begin_ns), at(summary.end_ns));
  if (!out.run.valid()) return out;
  if (summary.completion_tokens > 0)
    out.joules_per_output_token = out.run.energy_joules / static_cast<double>(summary.completion_tokens);
  if (summary.ok > 0) out.joules_per_request = out.run.energy_joules / static_cast<double>(summary.ok);
  return out;
}

std::string EnergyText(const BenchEnergy& energy) {
  const EnergyResult& run = energy.run;
  std::string out = "  energy       ";
  if (!run.valid()) {
    out += "unknown (" + std::string(EnergyValidityName(run.validity)) + "): ";
    AppendPrintable(out, run.reason);
    return out + "\n";
  }
  out += ToString(run) + " by " + std::string(EnergyVendorName(run.vendor));
  char text[96];
  if (std::isfinite(energy.joules_per_output_token)) {
    std::snprintf(text, sizeof text, "; %.3g J/token out, %.3g J/request", energy.joules_per_output_token,
                  energy.joules_per_request);
    out += text;
  }
  out += "\n";
  if (!run.reason.empty()) {
    out += "  note         ";
    AppendPrintable(out, run.reason);
    out += "\n";
  }
  return out;
}

void AppendEnergyJson(std::string& out, const BenchEnergy& energy) {
  const EnergyResult& run = energy.run;
  out += ",\"energy\":{\"devices\":" + std::to_string(run.devices);
  AppendName(out, "validity", EnergyValidityName(run.validity));
  AppendName(out, "reason", run.reason);
  AppendName(out, "vendor", EnergyVendorName(run.vendor));
  AppendName(out, "method", EnergyMethodName(run.method));
  AppendNumber(out, "joules", run.energy_joules);
  AppendNumber(out, "uncertainty_joules", run.uncertainty_joules);
  AppendNumber(out, "mean_power_watts", run.mean_power_watts);
  AppendNumber(out, "cpu_joules", run.cpu_joules);
  AppendNumber(out, "dram_joules", run.dram_joules);
  AppendNumber(out, "joules_per_output_token", energy.joules_per_output_token);
  AppendNumber(out, "joules_per_request", energy.joules_per_request);
  out += '}';
}

}  // namespace gpulens
