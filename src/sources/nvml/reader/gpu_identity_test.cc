#include "sources/nvml/reader/gpu_identity.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

namespace gpulens::nvml {
namespace {

PciInfo At(const char* text) {
  PciInfo info{};
  info.bus = 0x3b;
  std::snprintf(info.bus_id, sizeof info.bus_id, "%s", text);
  return info;
}

TEST(BusId, TheFunctionIsTheTexts) {
  EXPECT_EQ(BusIdOf(At("00000000:3B:00.0")), "0000:3b:00.0");
  EXPECT_EQ(BusIdOf(At("00000000:3B:00.4")), "0000:3b:00.4") << "a virtual function";
  EXPECT_EQ(BusIdOf(At("00000000:3B:00")), "0000:3b:00.0") << "no function is the first one";
}

TEST(BusId, ATextThatIsNotOfThisDeviceCountsForNothing) {
  for (const char* text : {"", "nonsense", "00000000:3C:00.4", "00000000:3B:00.9"})
    EXPECT_EQ(BusIdOf(At(text)), "0000:3b:00.0") << text;
  PciInfo endless = At("");
  std::memset(endless.bus_id, '0', sizeof endless.bus_id);
  EXPECT_EQ(BusIdOf(endless), "0000:3b:00.0");
}

}  // namespace
}  // namespace gpulens::nvml
