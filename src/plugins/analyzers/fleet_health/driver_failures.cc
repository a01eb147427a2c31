#include "plugins/analyzers/fleet_health/driver_failures.h"

#include <algorithm>

#include "catalog/self.h"
#include "plugins/analyzers/fleet_health/gpu_inputs.h"

namespace gpulens {
namespace {

// Of the reasons for which a reader process is started; the others are planned.
constexpr std::string_view kUnplanned[] = {"crash", "exited", "hang", "killed", "protocol"};

}  // namespace

DriverFailures::DriverFailures() : starts_(kSelfDriverStarts) {}

DriverFailures::Driver& DriverFailures::Find(std::string_view name) {
  auto at = std::find_if(drivers_.begin(), drivers_.end(),
                         [&](const Driver& driver) { return driver.name == name; });
  if (at != drivers_.end()) return *at;
  drivers_.push_back({.name = std::string(name)});
  return drivers_.back();
}

void DriverFailures::Read(const Snapshot& snapshot) {
  for (Driver& driver : drivers_) {
    driver.total = 0;
    driver.seen = false;
  }
  starts_.ForEach(snapshot, [&](const SeriesInfo& info, double value, const Frame&, uint32_t) {
    Driver& driver = Find(TextOf(info.attributes, "reader"));
    driver.seen = true;
    const std::string_view reason = TextOf(info.attributes, "reason");
    if (std::find(std::begin(kUnplanned), std::end(kUnplanned), reason) != std::end(kUnplanned))
      driver.total += value;
  });
  for (Driver& driver : drivers_) {
    if (driver.seen) driver.recent.Read(snapshot.closed_at.boot_ns, driver.total);
  }
}

double DriverFailures::Recent(std::string_view name) const noexcept {
  for (const Driver& driver : drivers_) {
    if (driver.name == name) return driver.recent.grown();
  }
  return 0;
}

}  // namespace gpulens
