#include "energy/carbon_zones.h"

#include <algorithm>
#include <iterator>

#include "base/parse.h"

namespace gpulens {
namespace {

struct CarbonZone {
  std::string_view name, second_name;
  int64_t mg_per_kwh;
  int year;
};

// The table has at most three decimals.
constexpr CarbonZone kCarbonZones[] = {
#define ZONE(name, second_name, grams_per_kwh, year) \
  {name, second_name, static_cast<int64_t>((grams_per_kwh) * 1000.0 + 0.5), year},
#include "energy/carbon_zones.def"
#undef ZONE
};

}  // namespace

std::optional<int64_t> CarbonOfZone(std::string_view zone) noexcept {
  if (zone.empty()) return std::nullopt;
  const auto found = std::ranges::find_if(kCarbonZones, [&](const CarbonZone& one) {
    return EqualsIgnoringCase(one.name, zone) || EqualsIgnoringCase(one.second_name, zone);
  });
  if (found == std::end(kCarbonZones)) return std::nullopt;
  return found->mg_per_kwh;
}

}  // namespace gpulens
