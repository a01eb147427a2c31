#include "sdk/energy/track.h"

#include <cmath>

namespace gpulens::sdk {
namespace {

energy::EnergyCurve::Options CurveOf(const EnergyDevice& device, size_t readings) {
  energy::EnergyCurve::Options options;
  options.readings = readings;
  if (device.most_watts > 0) options.most_watts = device.most_watts;
  if (device.counter_step_joules >= 0) options.counter_step_joules = device.counter_step_joules;
  const int64_t lag = device.counter_lag.count();
  options.counter_lag_ns = lag < 0 ? energy::EnergyCurve::kLagUnknown : lag;
  return options;
}

double Sane(double value, bool good) noexcept { return std::isfinite(value) && good ? value : kNotMeasured; }

}  // namespace

Track::Track(std::shared_ptr<EnergySource> from, size_t number_there, EnergyDevice what, size_t kept)
    : source(std::move(from)), number(number_there), device(std::move(what)), curve(CurveOf(device, kept)) {}

void Track::Take(const EnergyReading& reading, int64_t queried_ns, int64_t at_ns) {
  latest.joules = Sane(reading.joules, reading.joules >= 0);
  latest.watts = Sane(reading.watts, reading.watts >= 0);
  latest.utilization_ratio =
      Sane(reading.utilization_ratio, reading.utilization_ratio >= 0 && reading.utilization_ratio <= 1);
  latest.memory_used_bytes = Sane(reading.memory_used_bytes, reading.memory_used_bytes >= 0);
  latest.temperature_celsius = Sane(reading.temperature_celsius, true);
  latest.processes = Sane(reading.processes, reading.processes >= 0);
  if (std::isnan(latest.joules) && std::isnan(latest.watts))
    return Fail({Code::kDataLoss, "reports neither energy nor power"}, at_ns);
  failure = {};
  failing_since_ns = 0;
  if (reopened) back_ns = at_ns;
  reopened = false;
  read_ns = at_ns;
  ++readings;
  watts = latest.watts;
  if (!std::isnan(latest.joules) && latest.joules != counted_joules_) {
    const double gained = latest.joules - counted_joules_;
    if (std::isnan(watts) && gained > 0 && at_ns > counted_ns_)
      watts = gained / (static_cast<double>(at_ns - counted_ns_) * 1e-9);
    counted_joules_ = latest.joules;
    counted_ns_ = at_ns;
  }
  // A source may state the time of its reading.
  const int64_t began_ns = reading.began.time_since_epoch().count(),
                ended_ns = reading.ended.time_since_epoch().count();
  const bool reported = began_ns > 0 && began_ns <= ended_ns && ended_ns <= at_ns;
  curve.Add({.at_ns = reported ? ended_ns : at_ns,
             .counter_joules = latest.joules,
             .power_watts = latest.watts,
             .took_ns = reported ? ended_ns - began_ns : at_ns - queried_ns});
}

void Track::Fail(Status status, int64_t at_ns) {
  failure = std::move(status);
  if (failing_since_ns == 0) failing_since_ns = at_ns;
}

}  // namespace gpulens::sdk
