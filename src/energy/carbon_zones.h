// Carbon intensity of electricity by zone: carbon_zones.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gpulens {

// Milligrams of CO2 equivalents per kilowatt-hour, a mean of a year. `zone` is WORLD, a country of two or
// three letters, a bidding zone or a region of a cloud ("aws/eu-central-1"), in any case. None for an unknown
// zone.
std::optional<int64_t> CarbonOfZone(std::string_view zone) noexcept;

}  // namespace gpulens
