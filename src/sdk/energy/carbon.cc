// Carbon intensity by zone.
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include <gpulens/energy.h>

#include "base/parse.h"

namespace gpulens {
namespace {

struct CarbonZone {
  std::string_view name, second_name;
  double grams_per_kwh;
  int year;
};

constexpr CarbonZone kCarbonZones[] = {
#define ZONE(name, second_name, grams_per_kwh, year) {name, second_name, grams_per_kwh, year},
#include "sdk/energy/carbon_zones.def"
#undef ZONE
};

}  // namespace

Result<double> CarbonIntensity(std::string_view zone) {
  const auto found = std::ranges::find_if(kCarbonZones, [&](const CarbonZone& one) {
    return EqualsIgnoringCase(one.name, zone) || (!zone.empty() && EqualsIgnoringCase(one.second_name, zone));
  });
  if (found != std::end(kCarbonZones)) return found->grams_per_kwh;
  return Status{
      Code::kInvalidArgument,
      "no carbon intensity is known for the zone \"" + std::string(zone) +
          "\": it must be WORLD, a country of two or three letters (DE, DEU), a bidding zone (SE3) or "
          "a cloud's region (aws/eu-central-1), or give the grams per kilowatt-hour"};
}

}  // namespace gpulens
