// Cross-checks between readings of one GPU that contradict each other. One object per GPU; independent of
// series and vendors; not thread-safe; does not allocate. The limits are in catalog/quality.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "core/validate.h"

namespace gpulens {

enum class CheckedQuantity : uint8_t {
  kPower,
  kPowerInstant,
  kEnergy,
  kMemoryUsed,
  kMemoryFree,
  kMemoryReserved,
  kMemoryTotal,
  kBusy,
  kSmActive,
  kEdge,
  kHotspot,
  kMemoryTemperature,
  kPowerLimitMax,
  kProcesses,
};
inline constexpr size_t kCheckedQuantities = static_cast<size_t>(CheckedQuantity::kProcesses) + 1;

struct CheckedReading {
  double value = 0;
  int64_t at_ns = 0;  // when the source read it, boot time
};
// In the units of the catalogue. Absent: not read in this run, or already rejected.
struct CheckedReadings {
  int64_t now_ns = 0;
  Duration interval{};  // of the collector's runs
  std::array<std::optional<CheckedReading>, kCheckedQuantities> of;

  const std::optional<CheckedReading>& operator[](CheckedQuantity quantity) const noexcept {
    return of[static_cast<size_t>(quantity)];
  }
  std::optional<CheckedReading>& operator[](CheckedQuantity quantity) noexcept {
    return of[static_cast<size_t>(quantity)];
  }
};
// kAccepted, or why the reading is rejected.
struct CrossCheckResults {
  std::array<Validation, kCheckedQuantities> of{};

  Validation operator[](CheckedQuantity quantity) const noexcept { return of[static_cast<size_t>(quantity)]; }
  void Reject(CheckedQuantity quantity, Validation why) noexcept { of[static_cast<size_t>(quantity)] = why; }
};

// The power meter against the energy counter, one window after the other. What the integral itself may be off
// is added to the tolerance, so that a load that moves between two readings is no disagreement.
class EnergyCrossCheck {
 public:
  // kPower or kEnergy: which of them is not believed until a window agrees again.
  std::optional<CheckedQuantity> Validate(const CheckedReadings& readings) noexcept;

 private:
  void Begin(const CheckedReading& power, const CheckedReading& energy) noexcept;
  std::optional<CheckedQuantity> Culprit(const CheckedReadings& readings) const noexcept;

  bool begun_ = false;
  CheckedReading first_power_, first_energy_, power_, energy_;
  double integral_ = 0, bound_ = 0;
  std::optional<CheckedQuantity> culprit_;
};

// A sensor that keeps its value to the digit for an hour in which power moved.
class StuckSensor {
 public:
  bool Validate(const std::optional<CheckedReading>& sensor,
                const std::optional<CheckedReading>& power) noexcept;

 private:
  void Begin(const CheckedReading& sensor) noexcept;

  CheckedReading since_;
  int64_t seen_ns_ = 0;
  // Power as means over a minute: a short peak does not heat a board.
  int64_t minute_ns_ = 0, power_at_ns_ = 0;
  double sum_ = 0, count_ = 0;
  std::optional<double> least_, most_;
};

class CrossChecker {
 public:
  CrossCheckResults Validate(const CheckedReadings& readings) noexcept;

 private:
  void ValidateMemory(const CheckedReadings& readings, CrossCheckResults& out) const noexcept;
  void ValidatePower(const CheckedReadings& readings, CrossCheckResults& out) noexcept;
  void ValidateBusy(const CheckedReadings& readings, CrossCheckResults& out) noexcept;

  EnergyCrossCheck energy_;
  std::array<StuckSensor, 3> sensors_;
  int64_t busy_since_ns_ = 0, busy_seen_ns_ = 0;  // of 100 % with no SM active; 0: not now
};

// Energy of a GPU without an energy counter: the integral of power by trapezoids.
//
// The error bound adds up, per step, |p1 - p0| / 2 x dt — power that goes from p0 to p1 without leaving their
// range has an integral between min x dt and max x dt, and the trapezoid is the middle — and 5 % of the
// step's energy for the meter (NVML, nvmlDeviceGetPowerUsage: "accurate to within +/- 5% of current power
// draw").
class EnergyEstimate {
 public:
  // Power at a moment. The first reading is the base; a reading more than five intervals after the one before
  // restarts without bridging the pause; an old or equal moment is ignored.
  void Observe(const CheckedReading& power, Duration interval) noexcept;
  double joules() const noexcept { return joules_; }
  double error_joules() const noexcept { return error_; }
  // False before the first reading.
  bool begun() const noexcept { return begun_; }

 private:
  bool begun_ = false;
  CheckedReading last_;
  double joules_ = 0, error_ = 0;
};

}  // namespace gpulens
