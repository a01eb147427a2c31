// How often the process that holds a vendor's library has ended unplanned lately, by driver.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/series_finder.h"
#include "plugins/analyzers/fleet_health/health_window.h"

namespace gpulens {

// Not thread-safe. Does not allocate while drivers and layouts stay.
class DriverFailures {
 public:
  // More within five minutes are no chance.
  static constexpr double kMost = 2;

  struct Driver {
    std::string name;          // "nvml", as in the attribute `driver`
    RecentGrowth recent = {};  // crashed, hung, killed, ended by itself, or wrote what it must not
    double total = 0;          // the same since the agent started
    bool seen = false;         // in the last tick
  };

  DriverFailures();
  // Counts in one tick after another.
  void Read(const Snapshot& snapshot);
  // Within the last five minutes; 0 of a driver that was never seen. Failures before the first Read are not
  // counted.
  double Recent(std::string_view driver) const noexcept;
  const std::vector<Driver>& drivers() const noexcept { return drivers_; }

 private:
  Driver& Find(std::string_view name);

  SeriesFinder starts_;
  std::vector<Driver> drivers_;
};

}  // namespace gpulens
