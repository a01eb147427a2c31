#include "sdk/energy/own_account.h"

#include <deque>

#include <gtest/gtest.h>

#include "sdk/energy/device_ledger.h"

namespace gpulens::sdk {
namespace {

// Two GPUs of 71 W each, all ours; one of them may be looked at a round later than the other.
TEST(OwnAccount, TicksOnlyWithAllDevices) {
  std::deque<DeviceTrack> tracks;
  for (const char* id : {"GPU-0", "GPU-1"}) {
    EnergyDevice device;
    device.id = id;
    tracks.emplace_back(nullptr, tracks.size(), device, 16);
  }
  DeviceSelection both;
  both.shared = {0, 1};
  OwnAccount account(tracks, both, 1'000'000'000, 1);
  EnergyProcesses ours;
  ours.list.push_back({.own = true});
  const auto look = [&](size_t track, int64_t at_ns) {
    EnergyReading reading;
    reading.watts = 71;
    tracks[track].Take(reading, at_ns, at_ns);
    account.Observe(track, at_ns, Status{}, ours);
    account.Tick();
    return account.Result(at_ns).energy.ticks;
  };
  EXPECT_EQ(look(0, 1'000'000).count, 0u) << "whether the second one is ours is not known yet";
  EXPECT_EQ(look(1, 2'000'000).mean_power_watts, 142);
  EXPECT_EQ(look(0, 3'000'000).count, 1u);
  const EnergyTicks ticks = look(1, 4'000'000);
  EXPECT_EQ(ticks.count, 2u);
  EXPECT_EQ(ticks.mean_power_watts, 142);
}

}  // namespace
}  // namespace gpulens::sdk
