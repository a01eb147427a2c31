// Share of one run in the energy of one device, from occasional observations of the device's processes. Pure.
//
//   RunShare share(begin_ns);
//   share.Observe({.at_ns = now, .share = ShareOf(processes)});   // some times a second
//   share.Settle(curve);                                          // after each reading
//   RunPart part = share.Upto(end_ns, curve);
//
// Between two observations the run has the mean of the two shares, with half of their difference as error;
// before the first it has the first share, after the last the last. Shares of all users add up to 1, so the
// parts of all runs and of others add up to the device's energy, its idle power included. Keeps observations
// until the curve has settled. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <gpulens/energy_source.h>

#include "energy/energy_curve.h"

namespace gpulens::energy {

// How a share was determined, from the most to the least certain.
enum class SharingMethod : uint8_t { kNone, kExclusive, kByUtilization, kByCpuTime, kEqually, kWholeBoard };
inline constexpr size_t kSharings = 6;

struct UseShare {
  double own = 0;     // of the device, 0 to 1
  double spread = 0;  // difference to another way of sharing: an error estimate
  SharingMethod sharing = SharingMethod::kNone;
};
// No processes: 0. Only ours: 1. Else by utilization, or in equal parts where that is unknown or all are
// idle.
UseShare ShareOf(const EnergyProcesses& processes) noexcept;
// For a device that does not report processes.
inline constexpr UseShare kWholeBoard{.own = 1, .spread = 0, .sharing = SharingMethod::kWholeBoard};

struct UseObservation {
  int64_t at_ns = 0;
  UseShare share;
  bool since_last = false;  // the share is of the time since the look before
};

struct RunPart {
  double joules = 0;                    // the run's
  double device_joules = 0;             // of the whole device since the run first used it
  double half_width = 0;                // by the readings: a bound where there is a counter
  double sharing_half_width = 0;        // of the sharing: an estimate
  std::array<double, kSharings> by{};   // `joules` by way of sharing
  double guessed_seconds = 0;           // before the first reading, whose power is assumed
  EnergyFlaw flaw = EnergyFlaw::kNone;  // while the run used it: `joules` is incomplete

  bool used() const noexcept { return device_joules > 0 || flaw != EnergyFlaw::kNone; }
};

class RunShare {
 public:
  // `most_watts`: that the device can draw; infinite or NaN: not known.
  RunShare(int64_t begin_ns, double most_watts);

  // Ignored when it is not later than the last.
  void Observe(const UseObservation& look);
  std::optional<int64_t> seen_ns() const noexcept { return seen_; }
  // Adds the energy that no later reading changes.
  void Settle(const EnergyCurve& curve);
  // The run's part from its begin to `end_ns`, which is not before what is settled.
  RunPart Upto(int64_t end_ns, const EnergyCurve& curve) const;

 private:
  struct Slice {
    double own = 0, off = 0;
    SharingMethod sharing = SharingMethod::kNone;
  };
  Slice Between(const UseObservation& look) const noexcept;
  Slice Last() const noexcept;
  bool Begin(const EnergyCurve& curve, int64_t until_ns, const Slice& slice);
  void Take(const EnergyCurve& curve, int64_t until_ns, const Slice& slice);
  void Add(double joules, const Slice& slice) noexcept;

  const double most_watts_;
  int64_t at_ns_;  // taken up to here
  bool begun_ = false;
  double joules_ = 0, half_width_ = 0, integral_half_width_ = 0;  // of the curve, there
  uint32_t flaws_ended_ = 0;
  double own_ = 0;  // of the slice before
  double own_seconds_ = 0;
  std::optional<UseObservation> last_;
  std::optional<int64_t> seen_;
  std::deque<UseObservation> ahead_;
  RunPart part_;
};

}  // namespace gpulens::energy
