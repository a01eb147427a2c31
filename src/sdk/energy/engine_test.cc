#include "sdk/energy/engine.h"

#include <cmath>
#include <map>
#include <random>
#include <stdexcept>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/testing/allocations.h"
#include "sdk/energy/engine_fixture_for_test.h"

namespace gpulens::sdk {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMs = 1'000'000;
constexpr double kGib = 1024.0 * 1024 * 1024;

EnergyReading Watts(double watts) {
  EnergyReading reading;
  reading.watts = watts;
  return reading;
}

// Returns the given values, one at each reading; the last one is repeated.
FakeSource::Reads Script(std::vector<EnergyReading> readings) {
  return [readings = std::move(readings), next = size_t{0}](int64_t) mutable {
    return readings[std::min(next++, readings.size() - 1)];
  };
}
FakeSource::Reads Counts(std::vector<double> joules) {
  std::vector<EnergyReading> readings;
  for (double one : joules) readings.emplace_back().joules = one;
  return Script(std::move(readings));
}

TEST(Engine, AResultHasTheEnergyOfEachDevice) {
  Fixture two;
  two.source->AddGpu("GPU-0", Counts({2, 5, 6})).AddGpu("GPU-1", Counts({3, 7, 9}));
  two.Start();
  WindowSlot *const window = two.Begin(), *const a = two.Begin(true), *const b = two.Begin(true);
  two.Pass(seconds(1), seconds(1));
  EnergyResult result = two.End(window);
  ASSERT_EQ(result.by_device.size(), 2u);
  EXPECT_EQ(result.by_device[0].id, "GPU-0");
  EXPECT_EQ(result.by_device[1].validity, EnergyValidity::kValid);
  EXPECT_NEAR(result.by_device[0].energy_joules, 3, 1e-9);
  EXPECT_NEAR(result.by_device[1].energy_joules, 4, 1e-9);
  for (WindowSlot* half : {a, b}) {
    result = two.End(half);
    EXPECT_NEAR(result.by_device[0].energy_joules, 1.5, 1e-9);
    EXPECT_NEAR(result.by_device[1].energy_joules, 2, 1e-9);
  }
}

// Longer ago than the curves reach: each device's energy at the begin is kept with the window.
TEST(Engine, TheEnergyOfEachDeviceOutlivesTheHistory) {
  Fixture one;
  one.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 100 * SecondsOf(ns);
    return reading;
  });
  EnergyOptions options;
  options.history = seconds(1);
  one.Start(options);
  WindowSlot* const window = one.Begin();
  one.Pass(seconds(400));
  const EnergyResult result = one.End(window);
  ASSERT_EQ(result.by_device.size(), 1u);
  EXPECT_EQ(result.by_device[0].validity, EnergyValidity::kValid);
  EXPECT_NEAR(result.by_device[0].energy_joules, 40'000, 0.1);
  EXPECT_NEAR(result.by_device[0].energy_joules, result.energy_joules, 1e-6);
}

// From the start on: the counter is written every 100 ms, and its lag is unknown.
TEST(Engine, SharesAndPhasesOfASteadyPowerAreNarrow) {
  Fixture one;
  one.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 30 * std::floor(SecondsOf(ns) * 10);
    reading.watts = 300;
    return reading;
  });
  one.source->devices().back().most_watts = 1000;
  one.source->devices().back().counter_lag = Duration(-1);
  one.Start();
  for (const int before : {0, 10}) {
    one.Pass(seconds(before));
    WindowSlot* const alone = one.Begin(true);
    one.Pass(milliseconds(210), milliseconds(30));
    EnergyResult result = one.End(alone);
    EXPECT_NEAR(result.energy_joules, 63, result.uncertainty_joules);
    EXPECT_LE(result.uncertainty_joules, before == 0 ? 63 * 0.1 : 63 * 0.05) << ToString(result);
    WindowSlot* const first = one.Begin(true);
    one.Pass(milliseconds(150), milliseconds(30));
    WindowSlot* const second = one.Begin(true);
    second->Mark("decode", one.engine->Now() + 60 * kMs);
    one.Pass(milliseconds(150), milliseconds(30));
    const EnergyResult decode = one.engine->ResultOf(*second, second->PhaseOf("decode"));
    EXPECT_NEAR(decode.energy_joules, 13.5, decode.uncertainty_joules);
    EXPECT_LE(decode.uncertainty_joules, 13.5 * 0.2) << ToString(decode);
    for (const auto& [slot, joules] : {std::pair(first, 67.5), std::pair(second, 22.5)}) {
      result = one.End(slot);
      EXPECT_NEAR(result.energy_joules, joules, result.uncertainty_joules);
      EXPECT_LE(result.uncertainty_joules, joules * 0.1) << ToString(result);
    }
  }
}

TEST(Engine, OneDevicesResetLeavesTheOtherKnown) {
  Fixture two;
  two.source->AddGpu("GPU-0", Counts({2, 5, 6})).AddGpu("GPU-1", Counts({3, 1, 9}));
  two.Start();
  WindowSlot* const window = two.Begin();
  two.Pass(seconds(2), seconds(1));
  const EnergyResult result = two.End(window);
  EXPECT_EQ(result.validity, EnergyValidity::kCounterReset);
  EXPECT_TRUE(std::isnan(result.energy_joules));
  ASSERT_EQ(result.by_device.size(), 2u);
  EXPECT_NEAR(result.by_device[0].energy_joules, 4, 1e-9);
  EXPECT_EQ(result.by_device[0].validity, EnergyValidity::kValid);
  EXPECT_EQ(result.by_device[1].validity, EnergyValidity::kCounterReset);
  EXPECT_TRUE(std::isnan(result.by_device[1].energy_joules));
}

TEST(Engine, CountersAreDifferencesOfTheirReadings) {
  Fixture one;
  one.source->AddGpu("GPU-0", Counts({5, 8}));
  one.Start();
  WindowSlot* window = one.Begin();
  one.Pass(seconds(1), seconds(1));
  EnergyResult result = one.End(window);
  EXPECT_NEAR(result.energy_joules, 3, 1e-9);
  EXPECT_EQ(result.method, EnergyMethod::kCounter);
  EXPECT_EQ(result.validity, EnergyValidity::kValid);
  EXPECT_EQ(result.vendor, EnergyVendor::kNvidia);
  EXPECT_EQ(result.duration, seconds(1));
  EXPECT_NEAR(result.mean_power_watts, 3, 1e-9);
  EXPECT_LE(result.uncertainty_joules, 0.0011) << "both edges are readings";

  Fixture two;
  two.source->AddGpu("GPU-0", Counts({2, 5})).AddGpu("GPU-1", Counts({3, 7}));
  two.Start();
  window = two.Begin();
  two.Pass(seconds(1), seconds(1));
  result = two.End(window);
  EXPECT_NEAR(result.energy_joules, 7, 1e-9);
  EXPECT_NEAR(result.gpu_joules, 7, 1e-9);
  EXPECT_TRUE(std::isnan(result.cpu_joules));
  EXPECT_EQ(result.devices, 2u);

  Fixture amd(EnergyVendor::kAmd);
  amd.source->AddGpu("GPU-a", Counts({1000 * 15.3e-6, 2000 * 15.3e-6}));
  amd.Start();
  window = amd.Begin();
  amd.Pass(seconds(1), seconds(1));
  EXPECT_NEAR(amd.End(window).energy_joules, 0.0153, 1e-12);
}

TEST(Engine, IntegratesPowerWithoutCounters) {
  Fixture flat;
  flat.source->AddGpu("GPU-0", [](int64_t) { return Watts(300); });
  flat.Start();
  WindowSlot* window = flat.Begin();
  flat.engine->Round(true);  // a tick at the begin, as the original has
  flat.Pass(seconds(10), seconds(1));
  EnergyResult result = flat.End(window);
  EXPECT_NEAR(result.energy_joules, 3000, 1e-6);
  EXPECT_EQ(result.method, EnergyMethod::kPowerIntegral);
  EXPECT_EQ(result.ticks.count, 10u);
  EXPECT_EQ(result.ticks.mean_power_watts, 300);
  EXPECT_EQ(result.ticks.peak_power_watts, 300);

  Fixture ramp;
  ramp.source->AddGpu("GPU-0", Script({Watts(0), Watts(100), Watts(200), Watts(300), Watts(400)}));
  ramp.Start();
  window = ramp.Begin();
  ramp.Pass(seconds(4), seconds(1));
  result = ramp.End(window);
  EXPECT_NEAR(result.energy_joules, 800, 1e-6);
  EXPECT_NEAR(result.mean_power_watts, 200, 1e-6);
  EXPECT_EQ(result.ticks.peak_power_watts, 400);
  EXPECT_NEAR(result.uncertainty_joules, 200, 1) << "of an integral it is an estimate";
}

TEST(Engine, TicksSumPowerAndMemoryAndAverageTheRest) {
  auto gpu = [](double watts, double use, double gib, double celsius) {
    EnergyReading reading = Watts(watts);
    reading.utilization_ratio = use / 100;
    reading.memory_used_bytes = gib * kGib;
    reading.temperature_celsius = celsius;
    return reading;
  };
  Fixture one;
  one.source->AddGpu(
      "GPU-0", Script({gpu(1, 1, 1, 1), gpu(100, 40, 8, 50), gpu(200, 60, 12, 60), gpu(300, 80, 16, 70)}));
  one.Start();
  WindowSlot* window = one.Begin();
  one.Pass(seconds(3), seconds(1));
  EnergyTicks ticks = one.End(window).ticks;
  EXPECT_EQ(ticks.count, 3u);
  EXPECT_NEAR(ticks.mean_power_watts, 200, 1e-9);
  EXPECT_NEAR(ticks.mean_utilization_ratio, 0.60, 1e-9);
  EXPECT_NEAR(ticks.mean_memory_used_bytes / kGib, 12, 1e-9);
  EXPECT_NEAR(ticks.mean_temperature_celsius, 60, 1e-9);
  EXPECT_NEAR(ticks.peak_power_watts, 300, 1e-9);
  EXPECT_NEAR(ticks.peak_utilization_ratio, 0.80, 1e-9);
  EXPECT_NEAR(ticks.peak_memory_used_bytes / kGib, 16, 1e-9);
  EXPECT_NEAR(ticks.peak_temperature_celsius, 70, 1e-9);

  Fixture two;
  two.source->AddGpu("GPU-0", [&](int64_t) { return gpu(200, 80, 10, 60); });
  two.source->AddGpu("GPU-1", [&](int64_t) { return gpu(300, 90, 12, 70); });
  two.Start();
  window = two.Begin();
  two.Pass(seconds(1), seconds(1));
  EnergyResult result = two.End(window);
  EXPECT_NEAR(result.energy_joules, 500, 1e-6);
  EXPECT_NEAR(result.ticks.mean_power_watts, 500, 1e-9);
  EXPECT_NEAR(result.ticks.mean_utilization_ratio, 0.85, 1e-9);
  EXPECT_NEAR(result.ticks.mean_memory_used_bytes / kGib, 22, 1e-9);
  EXPECT_NEAR(result.ticks.mean_temperature_celsius, 65, 1e-9);

  Fixture rise;
  for (const char* id : {"GPU-0", "GPU-1"})
    rise.source->AddGpu(id, Script({Watts(100), Watts(200), Watts(300)}));
  rise.Start();
  window = rise.Begin();
  rise.Pass(seconds(2), seconds(1));
  result = rise.End(window);
  EXPECT_NEAR(result.energy_joules, 800, 1e-6);
  EXPECT_NEAR(result.ticks.peak_power_watts, 600, 1e-9);
}

TEST(Engine, ReportsProcessorAndMemoryOfAGpuWithoutAddingThem) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", Counts({10, 30}));
  fixture.source->Add({.id = "package-0", .name = {}, .part = EnergyPart::kCpu}, Counts({1, 5}));
  fixture.source->Add({.id = "package-1", .name = {}, .part = EnergyPart::kCpu}, Counts({1, 2}));
  fixture.source->Add({.id = "dram-0", .name = {}, .part = EnergyPart::kDram}, Counts({7, 8}));
  fixture.Start();
  WindowSlot* window = fixture.Begin();
  fixture.Pass(seconds(1), seconds(1));
  EnergyResult result = fixture.End(window);
  EXPECT_NEAR(result.energy_joules, 20, 1e-9);
  EXPECT_NEAR(result.cpu_joules, 5, 1e-9);
  EXPECT_NEAR(result.dram_joules, 1, 1e-9);
  EXPECT_EQ(result.devices, 1u);
}

// Otherwise a window that begins at once would begin before the first reading of the processor.
TEST(Engine, LedgerIsReadOnceItsProcessorsAreRead) {
  Fixture one;
  EnergyDevice package;
  package.id = "package-0";
  package.part = EnergyPart::kCpu;
  one.source->AddGpu("GPU-0", Counts({5})).Add(package, Counts({1}));
  std::vector<bool> read;
  one.source->before_read = [&] { read.push_back(one.engine->HasRead(*one.ledger)); };
  one.Start();
  EXPECT_EQ(read, (std::vector<bool>{false, false}));
  EXPECT_TRUE(one.engine->HasRead(*one.ledger));
}

TEST(Engine, MeasuresProcessorAndMemoryWithoutAGpu) {
  Fixture fixture(EnergyVendor::kCpuRapl);
  fixture.source->Add({.id = "package-0", .name = {}, .part = EnergyPart::kCpu}, Counts({0.5, 0.6}));
  fixture.source->Add({.id = "dram-0", .name = {}, .part = EnergyPart::kDram}, Counts({0.1, 0.12}));
  fixture.Start();
  WindowSlot* window = fixture.Begin();
  fixture.Pass(seconds(1), seconds(1));
  EnergyResult result = fixture.End(window);
  EXPECT_NEAR(result.energy_joules, 0.12, 1e-9);
  EXPECT_NEAR(result.cpu_joules, 0.1, 1e-9);
  EXPECT_NEAR(result.dram_joules, 0.02, 1e-9);
  EXPECT_TRUE(std::isnan(result.gpu_joules));
  EXPECT_EQ(result.vendor, EnergyVendor::kCpuRapl);
}

TEST(Engine, SharesOfEightRequestsAddUpToTheBoard) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading = Watts(300);
    reading.joules = 300 * SecondsOf(ns);
    return reading;
  });
  fixture.Start();
  fixture.Pass(milliseconds(100));
  std::vector<WindowSlot*> requests;
  for (int i = 0; i < 8; ++i) requests.push_back(fixture.Begin(true));
  WindowSlot* window = fixture.Begin();
  fixture.Pass(milliseconds(500));
  double sum = 0;
  for (WindowSlot* one : requests) one->End(fixture.engine->Now());
  for (WindowSlot* one : requests) {
    EnergyResult result = fixture.End(one);
    EXPECT_NEAR(result.device_energy_joules, 150, 1e-6);
    sum += result.energy_joules;
  }
  EXPECT_NEAR(sum, 150, 1e-6) << "the original records 1201 J";
  EXPECT_NEAR(fixture.End(window).energy_joules, 150, 1e-6);
  EXPECT_EQ(ToString(EnergyResult{}), "no energy (running: )");
}

TEST(Engine, FailedReadingIsNotZero) {
  for (const bool at_begin : {true, false}) {
    Fixture fixture;
    fixture.source->AddGpu("GPU-0", [](int64_t ns) {
      EnergyReading reading;
      reading.joules = 5'000'000 + 100 * SecondsOf(ns);
      return reading;
    });
    fixture.Start();
    fixture.Pass(milliseconds(200));
    if (at_begin) fixture.source->read_status = {Code::kIo, "GPU is lost"};
    fixture.Pass(milliseconds(50));
    WindowSlot* window = fixture.Begin();
    fixture.source->read_status = {};
    fixture.Pass(milliseconds(100));
    if (!at_begin) fixture.source->throws = true;
    fixture.Pass(milliseconds(50));
    window->End(fixture.engine->Now());
    fixture.source->throws = false;
    fixture.Pass(milliseconds(100));
    EnergyResult result = fixture.End(window);
    EXPECT_TRUE(result.valid()) << result.reason;
    EXPECT_NEAR(result.energy_joules, 15, 1e-3) << "the originals record 5 000 006 J";
  }
}

TEST(Engine, FallingCounterInvalidatesTheResult) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", Counts({100, 110, 120, 3, 13, 23}));
  fixture.Start();
  WindowSlot* across = fixture.Begin(true);
  fixture.Pass(milliseconds(200));
  WindowSlot* after = fixture.Begin();
  fixture.Pass(milliseconds(50));
  EnergyResult result = fixture.End(across);
  EXPECT_EQ(result.validity, EnergyValidity::kCounterReset);
  EXPECT_TRUE(std::isnan(result.energy_joules));
  EXPECT_NE(result.reason, "");
  EXPECT_NEAR(fixture.End(after).energy_joules, 10, 1e-9);
}

TEST(Engine, NamesASourceThatStops) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 100 * SecondsOf(ns);
    return reading;
  });
  fixture.Start();
  fixture.Pass(milliseconds(500));
  WindowSlot* slot = fixture.Begin(true);
  fixture.source->read_status = {Code::kIo, "GPU is lost"};
  fixture.Pass(seconds(1));
  slot->End(fixture.engine->Now());
  EnergyResult result = fixture.engine->ResultOf(*slot, 0);
  EXPECT_EQ(result.validity, EnergyValidity::kSourceFailed);
  EXPECT_EQ(result.reason, "fake: GPU-0 has not answered for 1.0 s: GPU is lost");
  EXPECT_EQ(result.duration, seconds(1));
  EXPECT_TRUE(std::isnan(result.energy_joules));
  // It comes back too late: what was drawn meanwhile is a gap.
  fixture.Pass(seconds(4));
  fixture.source->read_status = {};
  fixture.Pass(milliseconds(100));
  EXPECT_EQ(fixture.End(slot).validity, EnergyValidity::kGap);
  WindowSlot* next = fixture.Begin();
  fixture.Pass(milliseconds(100));
  EXPECT_NEAR(fixture.End(next).energy_joules, 10, 1e-6);
}

// A driver that is unloaded for 20 s: reopened after 1 s, then less and less often, until it answers.
TEST(Engine, ReopensALostSource) {
  Fixture fixture;
  double zero = 0;
  auto counts = [&](int64_t ns) {
    EnergyReading reading;
    reading.watts = 100;
    reading.joules = 5 + SecondsOf(ns - 1'000'000'000'000) * 100 - zero;
    return reading;
  };
  fixture.source->AddGpu("GPU-0", counts).AddGpu("GPU-1", counts);
  fixture.Start({.devices = {"GPU-0"}});
  fixture.Pass(seconds(2));
  WindowSlot* across = fixture.Begin();
  fixture.source->read_status = {Code::kIo, "GPU is lost"};
  fixture.source->open_status = {Code::kUnavailable, "the driver is not loaded"};
  fixture.Pass(milliseconds(900));
  EXPECT_EQ(fixture.source->opens, 1);
  fixture.Pass(seconds(19));
  EXPECT_EQ(fixture.source->opens, 1 + 5) << "after 1, 2, 4, 8 and 16 s";
  fixture.source->open_status = {};
  fixture.source->on_open = [&] {
    fixture.source->read_status = {};
    zero = 2'000;                                                           // the counter restarts
    std::swap(fixture.source->devices()[0], fixture.source->devices()[1]);  // and so do the numbers
  };
  fixture.Pass(seconds(15));
  EXPECT_EQ(fixture.source->opens, 7);
  const EnergyResult broken = fixture.End(across);
  EXPECT_FALSE(broken.valid());
  EXPECT_TRUE(std::isnan(broken.energy_joules));
  EXPECT_NE(broken.reason.find("fake: GPU-0 was lost and is back"), std::string::npos) << broken.reason;
  WindowSlot* later = fixture.Begin();
  fixture.Pass(seconds(1));
  const EnergyResult good = fixture.End(later);
  EXPECT_TRUE(good.valid()) << good.reason;
  EXPECT_NEAR(good.energy_joules, 100, good.uncertainty_joules + 0.01);
  fixture.Pass(seconds(90));
  EXPECT_EQ(fixture.source->opens, 7) << "what answers is left alone";
}

TEST(Engine, NamesADeviceThatDoesNotComeBack) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t) { return Watts(100); });
  fixture.Start();
  fixture.source->read_status = {Code::kIo, "GPU is lost"};
  fixture.source->on_open = [&] {
    fixture.source->read_status = {};
    fixture.source->devices()[0].id = "GPU-1";
  };
  fixture.Pass(seconds(5));
  WindowSlot* slot = fixture.Begin();
  fixture.Pass(seconds(5));
  const EnergyResult result = fixture.End(slot);
  EXPECT_EQ(result.validity, EnergyValidity::kSourceFailed);
  EXPECT_NE(result.reason.find("GPU-0"), std::string::npos) << result.reason;
  EXPECT_NE(result.reason.find("was missing when its source was reopened"), std::string::npos)
      << result.reason;
  EXPECT_GE(fixture.source->opens, 3);
  EXPECT_EQ(fixture.engine->DevicesOf(*fixture.engine->AddLedger({})).size(), 2u)
      << "new ones are for new monitors";
}

// A reading by another process applies to the time at which that process read.
TEST(Engine, EarlierReadingsRemainValid) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [&](int64_t ns) {
    EnergyReading reading;
    const int64_t then = ns - 30 * kMs;
    const double t = SecondsOf(then - 1'000'000'000'000);  // 100 W, and 1,000 more each second
    reading.joules = 1'000 + t * (100 + 500 * t);
    reading.watts = 100 + 1'000 * t;
    reading.began = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(then - kMs));
    reading.ended = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(then));
    return reading;
  });
  fixture.Start();
  fixture.Pass(seconds(1));
  WindowSlot* slot = fixture.Begin();
  fixture.Pass(seconds(1));
  slot->End(fixture.engine->Now());
  fixture.Pass(milliseconds(100));
  const EnergyResult result = fixture.engine->ResultOf(*slot, 0);
  fixture.engine->pool().Release(slot);
  EXPECT_NEAR(result.energy_joules, 1600, 3) << "30 ms late it would be 1,570";
}

TEST(Engine, RemarksOnOtherProcesses) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 100 * SecondsOf(ns);
    reading.processes = 3;
    return reading;
  });
  fixture.Start();
  WindowSlot* slot = fixture.Begin();
  fixture.Pass(milliseconds(50));
  const EnergyResult result = fixture.End(slot);
  EXPECT_TRUE(result.valid());
  EXPECT_EQ(result.reason, "3 processes use one of these devices: it is the energy of all of them");
}

TEST(Engine, FreesAWindowWithoutAWaiter) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", Counts({1, 2, 3, 4, 5, 6, 7}));
  fixture.Start();
  std::map<WindowSlot*, int> seen;
  for (int i = 0; i < 100; ++i) {
    WindowSlot* slot = fixture.Begin(i % 2 == 0);
    ++seen[slot];
    slot->End(fixture.engine->Now());
    fixture.engine->pool().Release(slot);
    fixture.Pass(milliseconds(50));
  }
  EXPECT_LE(seen.size(), 3u);
}

TEST(Engine, MeasuresPhasesOfARequest) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 100 * SecondsOf(ns);
    return reading;
  });
  fixture.Start();
  WindowSlot* slot = fixture.Begin(true);
  fixture.clock.Advance(milliseconds(10));
  slot->Mark("prefill", fixture.engine->Now());
  fixture.Pass(milliseconds(80));
  slot->Mark("decode", fixture.engine->Now());
  fixture.Pass(milliseconds(130));
  slot->Mark("prefill", fixture.engine->Now());
  fixture.Pass(milliseconds(50));
  slot->End(fixture.engine->Now());
  EXPECT_NEAR(fixture.engine->ResultOf(*slot, slot->PhaseOf("prefill")).energy_joules, 13, 1e-6);
  EnergyResult decode = fixture.engine->ResultOf(*slot, slot->PhaseOf("decode"));
  EXPECT_NEAR(decode.energy_joules, 13, 1e-6);
  EXPECT_EQ(decode.duration, milliseconds(130));
  EXPECT_EQ(slot->PhaseOf("none"), 0);
  for (int i = 0; i < 20; ++i) slot->Mark("late", fixture.engine->Now());
  EXPECT_EQ(slot->lost_marks(), 0u) << "it has ended";
  EXPECT_NEAR(fixture.End(slot).energy_joules, 27, 1e-6);

  slot = fixture.Begin();
  for (int i = 0; i < 20; ++i) slot->Mark("many " + std::to_string(i), fixture.engine->Now());
  EXPECT_EQ(slot->lost_marks(), 4u);
  EXPECT_EQ(slot->PhaseOf("many 7"), 8);
  EXPECT_EQ(slot->PhaseOf("many 8"), 0) << "there are eight";
  fixture.Pass(milliseconds(50));
  EXPECT_NE(fixture.End(slot).reason, "");
}

TEST(Engine, ChoosesDevices) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", Counts({1})).AddGpu("GPU-1", Counts({1}));
  fixture.source->Add({.id = "GPU-2", .name = {}, .part = EnergyPart::kGpu, .usable = false}, Counts({1}));
  fixture.source->Add({.id = "package-0", .name = {}, .part = EnergyPart::kCpu}, Counts({1}));
  DeviceLedger* ledger = fixture.Start();
  EXPECT_EQ(ledger->selection().shared, (std::vector<size_t>{0, 1})) << "what this process may use";
  EXPECT_EQ(ledger->selection().auxiliary, (std::vector<size_t>{3}));
  EnergyOptions options;
  options.devices = {"gpu-2", "GPU-2", "package-0"};
  EXPECT_EQ(fixture.engine->AddLedger(options)->selection().shared, (std::vector<size_t>{2}))
      << "what is asked for";
  options.devices = {"package-0"};
  EXPECT_EQ(fixture.engine->AddLedger(options)->selection().vendor, EnergyVendor::kCpuRapl);
  options.devices = {"GPU-9"};
  const Status& unknown = fixture.engine->AddLedger(options)->selection().status;
  EXPECT_EQ(unknown.code, Code::kInvalidArgument);
  EXPECT_EQ(unknown.detail, "there is no device 'GPU-9'; there are: GPU-0, GPU-1, GPU-2, package-0");
  options.devices.clear();
  options.prefer = EnergyVendor::kCpuRapl;
  EXPECT_EQ(fixture.engine->AddLedger(options)->selection().shared, (std::vector<size_t>{3}));
  options.prefer = EnergyVendor::kAmd;
  EXPECT_EQ(fixture.engine->AddLedger(options)->selection().vendor, EnergyVendor::kNvidia) << "there is none";

  Fixture none;
  none.source->open_status = {Code::kPermissionDenied, "ask root"};
  DeviceLedger* nothing = none.Start();
  EnergyResult result;
  DeviceLedger::Explain(nothing->selection().status, result);
  EXPECT_EQ(result.validity, EnergyValidity::kPermissionDenied);
  EXPECT_EQ(result.reason, "no device whose energy can be read (see gpulens doctor); fake: ask root");
}

TEST(Engine, ReadsThePast) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading = Watts(100);
    reading.joules = 100 * SecondsOf(ns);
    return reading;
  });
  fixture.source->Add({.id = "package-0", .name = {}, .part = EnergyPart::kCpu}, [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 50 * SecondsOf(ns);
    return reading;
  });
  fixture.Start();
  fixture.Pass(milliseconds(100));
  const int64_t from = fixture.engine->Now();
  fixture.Pass(seconds(1), milliseconds(100));
  const auto samples = fixture.ledger->History(from, fixture.engine->Now());
  ASSERT_EQ(samples.size(), 11u);
  EXPECT_NEAR(samples[5].gpu_watts, 100, 1e-9);
  EXPECT_NEAR(samples[5].cpu_watts, 50, 1e-6) << "by its counts";
  EXPECT_NEAR(samples[10].gpu_joules - samples[0].gpu_joules, 100, 1e-6);
  EnergyResult result = fixture.ledger->Between(from + 130 * kMs, from + 250 * kMs);
  EXPECT_NEAR(result.energy_joules, 12, 1e-6) << "120 ms of 100 W, between readings: the original says 0";
  EXPECT_NEAR(result.cpu_joules, 6, 1e-6);
  EXPECT_EQ(fixture.ledger->Between(from - 9000 * kMs, from).validity, EnergyValidity::kGap);
}

TEST(Engine, SumIsUnknownWithoutOneSocket) {
  Fixture fixture;
  const int64_t asleep_ns = fixture.clock.Now().boot_ns + 500 * kMs;
  fixture.source->AddGpu("GPU-0", [](int64_t) { return Watts(100); });
  for (const char* id : {"package-0", "package-1"}) {
    const bool sleeps = std::string_view(id) == "package-1";
    fixture.source->Add({.id = id, .name = {}, .part = EnergyPart::kCpu}, [=](int64_t ns) {
      if (sleeps && ns > asleep_ns) throw std::runtime_error("it sleeps");
      EnergyReading reading;
      reading.joules = 50 * SecondsOf(ns);
      return reading;
    });
  }
  fixture.Start();
  const int64_t from = fixture.engine->Now();
  fixture.Pass(seconds(1), milliseconds(100));
  const auto samples = fixture.ledger->History(from, fixture.engine->Now());
  ASSERT_EQ(samples.size(), 11u);
  EXPECT_NEAR(samples[5].cpu_watts, 100, 1e-6);
  EXPECT_NEAR(samples[6].gpu_watts, 100, 1e-9);
  EXPECT_TRUE(std::isnan(samples[6].cpu_watts)) << "half of it would look like a fall";
  EXPECT_TRUE(std::isnan(samples[6].cpu_joules));
}

TEST(Engine, KeepsTheRequestedHistory) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 100 * SecondsOf(ns);
    return reading;
  });
  EnergyOptions options;
  options.interval = milliseconds(5);
  options.history = seconds(30);
  fixture.Start(options);
  fixture.Pass(seconds(30), milliseconds(5));
  const int64_t now = fixture.engine->Now();
  const EnergyResult result = fixture.ledger->Between(now - 29'000 * kMs, now);
  EXPECT_TRUE(result.valid()) << result.reason;
  EXPECT_NEAR(result.energy_joules, 2900, 1e-3);
  EXPECT_EQ(fixture.ledger->History(0, now).size(), 6000u);
}

TEST(Engine, DoesNotAllocateInASteadyRun) {
  if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer counts for itself";
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t ns) {
    EnergyReading reading = Watts(100);
    reading.joules = 100 * SecondsOf(ns);
    return reading;
  });
  EnergyOptions options;
  options.share = Share::kByTokens;
  fixture.Start(options);
  auto turn = [&] {
    WindowSlot* slots[4];
    for (WindowSlot*& slot : slots) slot = fixture.Begin(true);
    for (WindowSlot* slot : slots) slot->Mark("decode", fixture.engine->Now()), slot->AddTokens(3);
    fixture.Pass(milliseconds(50));
    for (WindowSlot* slot : slots) slot->End(fixture.engine->Now()), fixture.engine->pool().Release(slot);
  };
  for (int i = 0; i < 20; ++i) turn();
  const uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) turn();
  EXPECT_EQ(ThreadAllocations() - before, 0u);
}

// Loads at random, counters that are written now and then, and windows of 20 to 500 ms on them.
struct TruthAndFixture {
  std::vector<double> watts, joules;  // by millisecond
  Fixture fixture;

  explicit TruthAndFixture(uint32_t seed, int step, int phase) : watts(6000), joules(6001) {
    std::mt19937 random(seed);
    double level = 100;
    for (size_t ms = 0; ms < watts.size(); ++ms) {
      if (random() % 15 == 0) level = 60 + static_cast<double>(random() % 640);
      watts[ms] = level;
      joules[ms + 1] = joules[ms] + level * 1e-3;
    }
    EnergyDevice device;
    device.id = "GPU-0";
    device.most_watts = 700;
    device.counter_lag = Duration(-1);
    const int64_t zero = fixture.engine ? 0 : fixture.clock.Now().boot_ns;
    fixture.source->Add(device, [this, zero, step, phase](int64_t ns) {
      const auto ms = (ns - zero) / kMs;
      const auto written = std::max<int64_t>(0, (ms - phase) / step * step + phase);
      EnergyReading reading = Watts(watts[static_cast<size_t>(ms)]);
      reading.joules = std::floor(joules[static_cast<size_t>(std::min(ms, written))] * 1000) / 1000;
      return reading;
    });
  }
  double Truth(int64_t from_ms, int64_t to_ms) const {
    return joules[static_cast<size_t>(to_ms)] - joules[static_cast<size_t>(from_ms)];
  }
};

RC_GTEST_PROP(EngineProperty, WindowsAreWithinTheirUncertainty, (uint32_t seed)) {
  const int step = *rc::gen::inRange(1, 110), phase = *rc::gen::inRange(0, step),
            every = *rc::gen::inRange(5, 60);
  TruthAndFixture world(seed, step, phase);
  Fixture& fixture = world.fixture;
  fixture.Start();
  fixture.Pass(milliseconds(300), milliseconds(every));
  std::mt19937 random(seed + 1);
  int64_t ms = 300, next_tick = 300 + every;
  struct Running {
    WindowSlot* slot;
    int64_t begin, end;
  };
  std::vector<Running> running;
  for (; ms < 3000; ++ms) {
    if (random() % 60 == 0 && running.size() < 10) {
      running.push_back({fixture.Begin(), ms, ms + 20 + static_cast<int64_t>(random() % 481)});
    }
    for (size_t i = 0; i < running.size();) {
      if (running[i].end != ms) {
        ++i;
        continue;
      }
      if (random() % 2 == 0) fixture.engine->Round(false);  // a reading for the result
      const EnergyResult result = fixture.End(running[i].slot);
      RC_ASSERT(result.valid());
      const double truth = world.Truth(running[i].begin, running[i].end);
      RC_ASSERT(std::abs(result.energy_joules - truth) <= result.uncertainty_joules + 1e-6);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    }
    fixture.clock.Advance(milliseconds(1));
    if (ms + 1 >= next_tick) {
      fixture.engine->Round(true);
      next_tick += every;
    }
  }
}

RC_GTEST_PROP(EngineProperty, SharesAddUpToTheCounter, (uint32_t seed, bool tokens)) {
  const int step = *rc::gen::inRange(1, 60);
  TruthAndFixture world(seed, step, 0);
  Fixture& fixture = world.fixture;
  EnergyOptions options;
  if (tokens) options.share = Share::kByTokens;
  fixture.Start(options);
  fixture.Pass(milliseconds(300));
  std::mt19937 random(seed + 1);
  // One request after the other covers all of the time, others come and go.
  std::vector<WindowSlot*> all, open;
  WindowSlot* window = fixture.Begin();
  WindowSlot* cover = fixture.Begin(true);
  all.push_back(cover);
  for (int ms = 300; ms < 2300; ++ms) {
    if (random() % 40 == 0) {
      WindowSlot* next = fixture.Begin(true);
      cover->End(fixture.engine->Now());
      all.push_back(cover = next);
    }
    if (random() % 30 == 0) all.push_back(open.emplace_back(fixture.Begin(true)));
    if (random() % 30 == 0 && !open.empty()) {
      open.front()->End(fixture.engine->Now());
      open.erase(open.begin());
    }
    for (WindowSlot* one : open) one->AddTokens(random() % 5 == 0 ? 1 : 0);
    fixture.clock.Advance(milliseconds(1));
    if (random() % 40 == 0) fixture.engine->Round(true);
  }
  for (WindowSlot* one : all) one->End(fixture.engine->Now());
  window->End(fixture.engine->Now());
  fixture.Pass(milliseconds(200));
  double sum = 0;
  for (WindowSlot* one : all) {
    const EnergyResult result = fixture.End(one);
    RC_ASSERT(result.valid());
    RC_ASSERT(result.energy_joules <= result.device_energy_joules + 1e-6);
    sum += result.energy_joules;
  }
  const EnergyResult whole = fixture.End(window);
  RC_ASSERT(std::abs(sum - whole.energy_joules) < 1e-3);
  RC_ASSERT(std::abs(whole.energy_joules - world.Truth(300, 2300)) <= whole.uncertainty_joules);
}

}  // namespace
}  // namespace gpulens::sdk
