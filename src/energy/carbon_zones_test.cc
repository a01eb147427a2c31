#include "energy/carbon_zones.h"

#include <gtest/gtest.h>

namespace gpulens {
namespace {

TEST(CarbonZones, CountriesBiddingZonesAndRegionsInAnyCase) {
  EXPECT_EQ(CarbonOfZone("WORLD"), 475'000);
  EXPECT_EQ(CarbonOfZone("DEU"), 380'950);
  EXPECT_EQ(CarbonOfZone("de"), 380'950);
  EXPECT_EQ(CarbonOfZone("SE3"), 18'000);
  EXPECT_EQ(CarbonOfZone("aws/us-east-1"), 379'069);
  EXPECT_EQ(CarbonOfZone("gcp/europe-north2"), 2'730);
}

TEST(CarbonZones, AnUnknownZoneHasNone) {
  EXPECT_EQ(CarbonOfZone(""), std::nullopt);
  EXPECT_EQ(CarbonOfZone("Atlantis"), std::nullopt);
}

}  // namespace
}  // namespace gpulens
