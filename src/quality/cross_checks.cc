#include "quality/cross_checks.h"

#include <algorithm>
#include <cmath>

#include "catalog/quality.h"

namespace gpulens {
namespace {

using namespace cross_check;

double Seconds(int64_t ns) noexcept { return static_cast<double>(ns) * 1e-9; }

// Whether the pause between two moments is short enough to know what was between them.
bool Adjoins(int64_t before_ns, int64_t after_ns, Duration interval) noexcept {
  return after_ns > before_ns && after_ns - before_ns <= kBridgedIntervals * interval.count();
}

struct Step {
  double joules, bound;
};
Step Integrate(const CheckedReading& from, const CheckedReading& to) noexcept {
  double seconds = Seconds(to.at_ns - from.at_ns);
  return {(from.value + to.value) / 2 * seconds, std::abs(to.value - from.value) / 2 * seconds};
}

}  // namespace

void EnergyCrossCheck::Begin(const CheckedReading& power, const CheckedReading& energy) noexcept {
  begun_ = true;
  first_power_ = power_ = power;
  first_energy_ = energy_ = energy;
  integral_ = bound_ = 0;
}

// Which of the two is wrong: what cannot be by itself; else the meter of power, which has no memory.
std::optional<CheckedQuantity> EnergyCrossCheck::Culprit(const CheckedReadings& readings) const noexcept {
  double grown = energy_.value - first_energy_.value;
  // A power meter on Ampere and later reports the mean of the second before, so ends that differ shift the
  // sum.
  double lag = std::abs(power_.value - first_power_.value);
  double tolerance = kEnergyShare * std::max(grown, integral_) + kEnergySlack + bound_ + lag;
  if (std::abs(grown - integral_) <= tolerance) return std::nullopt;
  double mean = grown / Seconds(energy_.at_ns - first_energy_.at_ns);
  const auto& limit = readings[CheckedQuantity::kPowerLimitMax];
  bool impossible = grown <= 0 || (limit && mean > kPowerOverMax * limit->value);
  return impossible ? CheckedQuantity::kEnergy : CheckedQuantity::kPower;
}

std::optional<CheckedQuantity> EnergyCrossCheck::Validate(const CheckedReadings& readings) noexcept {
  const auto &power = readings[CheckedQuantity::kPower], &energy = readings[CheckedQuantity::kEnergy];
  if (!power || !energy) return culprit_;
  if (begun_ && power->at_ns == power_.at_ns) return culprit_;
  bool goes_on = begun_ && Adjoins(power_.at_ns, power->at_ns, readings.interval) &&
                 energy->at_ns > energy_.at_ns && energy->value >= energy_.value;
  if (!goes_on) {
    Begin(*power, *energy);
    return culprit_;
  }
  Step step = Integrate(power_, *power);
  integral_ += step.joules;
  bound_ += step.bound;
  power_ = *power;
  energy_ = *energy;
  if (Seconds(power_.at_ns - first_power_.at_ns) >= kEnergyWindow) {
    culprit_ = Culprit(readings);
    Begin(*power, *energy);
  }
  return culprit_;
}

void StuckSensor::Begin(const CheckedReading& sensor) noexcept {
  *this = {};
  since_ = sensor;
}

bool StuckSensor::Validate(const std::optional<CheckedReading>& sensor,
                           const std::optional<CheckedReading>& power) noexcept {
  constexpr int64_t kMinute = 60'000'000'000;
  if (!sensor) return false;
  // A value after a pause starts again: what was between is unknown.
  bool goes_on =
      since_.at_ns != 0 && sensor->value == since_.value && sensor->at_ns - seen_ns_ <= 10 * kMinute;
  if (!goes_on) Begin(*sensor);
  seen_ns_ = sensor->at_ns;
  if (power && power->at_ns > power_at_ns_) {
    power_at_ns_ = power->at_ns;
    if (minute_ns_ == 0) minute_ns_ = power->at_ns;
    sum_ += power->value;
    ++count_;
    if (power->at_ns - minute_ns_ >= kMinute) {
      double mean = sum_ / count_;
      least_ = std::min(least_.value_or(mean), mean);
      most_ = std::max(most_.value_or(mean), mean);
      minute_ns_ = power->at_ns;
      sum_ = count_ = 0;
    }
  }
  if (!most_ || Seconds(sensor->at_ns - since_.at_ns) < kStuckFor) return false;
  return *most_ - *least_ >= std::max(kStuckPowerLeast, kStuckPowerShare * *most_);
}

void CrossChecker::ValidateMemory(const CheckedReadings& readings, CrossCheckResults& out) const noexcept {
  const auto &used = readings[CheckedQuantity::kMemoryUsed], &free = readings[CheckedQuantity::kMemoryFree],
             &reserved = readings[CheckedQuantity::kMemoryReserved],
             &total = readings[CheckedQuantity::kMemoryTotal];
  if (!total || !used) return;
  if (used->value > total->value) out.Reject(CheckedQuantity::kMemoryUsed, Validation::kInconsistent);
  // Only what one call read can add up.
  if (!free || free->at_ns != used->at_ns) return;
  bool whole = reserved && reserved->at_ns == used->at_ns;
  double sum = used->value + free->value + (whole ? reserved->value : 0);
  bool fits = whole ? std::abs(sum - total->value) <= kMemorySlack : sum <= total->value + kMemorySlack;
  if (fits) return;
  out.Reject(CheckedQuantity::kMemoryUsed, Validation::kInconsistent);
  out.Reject(CheckedQuantity::kMemoryFree, Validation::kInconsistent);
  if (whole) out.Reject(CheckedQuantity::kMemoryReserved, Validation::kInconsistent);
}

void CrossChecker::ValidatePower(const CheckedReadings& readings, CrossCheckResults& out) noexcept {
  if (std::optional<CheckedQuantity> culprit = energy_.Validate(readings))
    out.Reject(*culprit, Validation::kInconsistent);
  const auto& limit = readings[CheckedQuantity::kPowerLimitMax];
  if (!limit) return;
  auto above = [&](CheckedQuantity quantity, double times) {
    if (readings[quantity] && readings[quantity]->value > times * limit->value)
      out.Reject(quantity, Validation::kOutOfRange);
  };
  above(CheckedQuantity::kPower, kPowerOverMax);
  above(CheckedQuantity::kPowerInstant, kInstantPowerOverMax);
}

void CrossChecker::ValidateBusy(const CheckedReadings& readings, CrossCheckResults& out) noexcept {
  const auto &busy = readings[CheckedQuantity::kBusy], &sm = readings[CheckedQuantity::kSmActive];
  if (!busy || !sm || busy->value < kBusyAtLeast || sm->value > 0) {
    busy_since_ns_ = 0;
    return;
  }
  bool goes_on =
      busy_since_ns_ != 0 && readings.now_ns - busy_seen_ns_ <= kBridgedIntervals * readings.interval.count();
  if (!goes_on) busy_since_ns_ = readings.now_ns;
  busy_seen_ns_ = readings.now_ns;
  if (Seconds(readings.now_ns - busy_since_ns_) < kBusyFor) return;
  const auto& processes = readings[CheckedQuantity::kProcesses];
  bool idle = processes && processes->value == 0;
  out.Reject(idle ? CheckedQuantity::kBusy : CheckedQuantity::kSmActive, Validation::kInconsistent);
}

CrossCheckResults CrossChecker::Validate(const CheckedReadings& readings) noexcept {
  CrossCheckResults out;
  ValidateMemory(readings, out);
  ValidatePower(readings, out);
  ValidateBusy(readings, out);
  constexpr CheckedQuantity kSensors[] = {CheckedQuantity::kEdge, CheckedQuantity::kHotspot,
                                          CheckedQuantity::kMemoryTemperature};
  for (size_t i = 0; i < sensors_.size(); ++i) {
    if (sensors_[i].Validate(readings[kSensors[i]], readings[CheckedQuantity::kPower]))
      out.Reject(kSensors[i], Validation::kStuck);
  }
  return out;
}

void EnergyEstimate::Observe(const CheckedReading& power, Duration interval) noexcept {
  if (begun_ && power.at_ns <= last_.at_ns) return;
  if (begun_ && Adjoins(last_.at_ns, power.at_ns, interval)) {
    Step step = Integrate(last_, power);
    joules_ += step.joules;
    error_ += step.bound + kPowerAccuracy * step.joules;
  }
  begun_ = true;
  last_ = power;
}

}  // namespace gpulens
