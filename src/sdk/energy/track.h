// One device as it is read: its curve, what was read last, and what is wrong with it. Guarded by the engine's
// lock.
#pragma once

#include <cstdint>
#include <memory>

#include <gpulens/energy.h>

#include "energy/energy_curve.h"

namespace gpulens::sdk {

// Times of this folder are nanoseconds of the steady clock.
inline int64_t NsOf(TimePoint at) noexcept { return at.time_since_epoch().count(); }
inline TimePoint TimeOf(int64_t ns) noexcept { return TimePoint(Duration(ns)); }

struct Track {
  Track(std::shared_ptr<EnergySource> from, size_t number_there, EnergyDevice what, size_t kept);

  // Takes a reading that was requested at `queried_ns` and returned at `at_ns`.
  void Take(const EnergyReading& reading, int64_t queried_ns, int64_t at_ns);
  void Fail(Status status, int64_t at_ns);

  const std::shared_ptr<EnergySource> source;
  // In the source's list; kGone: it was not in the last one.
  static constexpr size_t kGone = ~size_t{0};
  size_t number;
  const EnergyDevice device;
  energy::EnergyCurve curve;

  uint32_t users = 0;  // ledgers that need it
  EnergyReading latest;
  double watts = kNotMeasured;  // reported, or from the last two counts
  int64_t read_ns = 0;          // of the last good reading; 0: there was none
  uint32_t readings = 0;        // good ones
  Status failure;               // of the last reading
  int64_t failing_since_ns = 0;
  bool reopened = false;  // its source, since it failed
  int64_t back_ns = 0;    // when it answered again after that; 0: never

 private:
  double counted_joules_ = kNotMeasured;
  int64_t counted_ns_ = 0;
};

}  // namespace gpulens::sdk
