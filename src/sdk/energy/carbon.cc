// Carbon intensity by zone.
#include <string>
#include <string_view>

#include <gpulens/energy.h>

#include "energy/carbon_zones.h"

namespace gpulens {

Result<double> CarbonIntensity(std::string_view zone) {
  if (const auto mg_per_kwh = CarbonOfZone(zone)) return static_cast<double>(*mg_per_kwh) / 1000;
  return Status{
      Code::kInvalidArgument,
      "no carbon intensity is known for the zone \"" + std::string(zone) +
          "\": it must be WORLD, a country of two or three letters (DE, DEU), a bidding zone (SE3) or "
          "a cloud's region (aws/eu-central-1), or give the grams per kilowatt-hour"};
}

}  // namespace gpulens
