// The numbers that OpenJarvis' own tests state of energy: what readings of boards, packages and sessions add
// up to. An engine and its clock are driven by hand, so that a second is one.
#include <cmath>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "sdk/energy/engine_fixture_for_test.h"
#include "sdk/energy/sources/system_sources.h"
#include "src/compat/power_trace.h"

namespace gpulens::sdk {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kAny =
    std::numeric_limits<double>::quiet_NaN();  // of a reading: not reported; of a result: not checked

// A reading of a board, in the units of the original.
struct Reported {
  double watts, percent = kAny, gib = kAny, celsius = kAny;
};
// Boards read at the same times, a second apart.
struct Aggregate {
  const char* name;
  std::vector<std::vector<Reported>> boards;
  double joules = kAny;
  Reported mean{kAny}, peak{kAny};
};

std::vector<Aggregate> Aggregates() {
  return {
      {"300 W, 11 readings", {std::vector<Reported>(11, {300})}, 3000, {300}, {300}},
      {"0 to 400 W", {{{0}, {100}, {200}, {300}, {400}}}, 800, {200}, {400}},
      {"one of 250 W", {{{250}}}, 0, {250}, {250}},
      {"peaks", {{{200, 60, 10, 55}, {400, 95, 20, 80}, {300, 70, 15, 65}}}, kAny, {kAny}, {400, 95, 20, 80}},
      {"means", {{{100, 40, 8, 50}, {200, 60, 12, 60}, {300, 80, 16, 70}}}, kAny, {200, 60, 12, 60}, {kAny}},
      {"two boards",
       {{{200, 80, 10, 60}, {200, 80, 10, 60}}, {{300, 90, 12, 70}, {300, 90, 12, 70}}},
       500,
       {500, 85, 22, 65},
       {kAny}},
      {"two that rise", {{{100}, {200}, {300}}, {{100}, {200}, {300}}}, 800, {kAny}, {600}},
  };
}

// NaN: not checked.
void Near(double got, double wanted, const std::string& what, double within = 1e-9) {
  if (std::isnan(wanted)) return;
  EXPECT_NEAR(got, wanted, within) << what;
}

void ExpectReported(const Reported& got, const Reported& wanted, const std::string& what) {
  for (auto member : {&Reported::watts, &Reported::percent, &Reported::gib, &Reported::celsius})
    Near(got.*member, wanted.*member, what, 1e-6);
}

TEST(OpenJarvisEnergyCases, Aggregates) {
  for (const Aggregate& one : Aggregates()) {
    Fixture fixture;
    size_t tick = 0;
    for (const std::vector<Reported>& board : one.boards) {
      fixture.source->AddGpu("GPU-" + std::to_string(fixture.source->devices().size()), [&tick,
                                                                                         &board](int64_t) {
        const Reported& reported = board[std::min(tick, board.size() - 1)];
        EnergyReading reading;
        reading.watts = reported.watts, reading.temperature_celsius = reported.celsius;
        reading.utilization_ratio = reported.percent / 100, reading.memory_used_bytes = reported.gib * kGib;
        return reading;
      });
    }
    fixture.Start();
    WindowSlot* window = fixture.Begin();
    // The readings are in the window, the first and the last a nanosecond from its ends.
    const size_t readings = one.boards.front().size();
    for (; tick < readings; ++tick) {
      fixture.clock.Advance(tick == 0 ? Duration(nanoseconds(1)) : Duration(seconds(1)));
      fixture.engine->Round(true);
    }
    fixture.clock.Advance(nanoseconds(1));
    const EnergyResult result = fixture.End(window);
    const EnergyTicks& ticks = result.ticks;
    EXPECT_EQ(ticks.count, readings) << one.name;
    Near(result.energy_joules, one.joules, one.name, 1e-5);
    ExpectReported({ticks.mean_power_watts, ticks.mean_utilization_ratio * 100,
                    ticks.mean_memory_used_bytes / kGib, ticks.mean_temperature_celsius},
                   one.mean, one.name);
    ExpectReported({ticks.peak_power_watts, ticks.peak_utilization_ratio * 100,
                    ticks.peak_memory_used_bytes / kGib, ticks.peak_temperature_celsius},
                   one.peak, one.name);
  }
}

TEST(OpenJarvisEnergyCases, MeansAreNaNWithoutReadings) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t) { return EnergyReading{}; });
  fixture.Start();
  const EnergyResult result = fixture.End(fixture.Begin());
  EXPECT_EQ(result.ticks.count, 0u);
  EXPECT_TRUE(std::isnan(result.ticks.mean_power_watts));
  EXPECT_FALSE(result.valid());
}

// Counters before and after.
TEST(OpenJarvisEnergyCases, Counters) {
  struct Counted {
    const char* name;
    EnergyVendor vendor;
    std::vector<EnergyPart> parts;
    std::vector<double> before, after;
    double joules, cpu = kAny, dram = kAny;
  };
  using enum EnergyPart;
  const Counted cases[] = {
      {"5,000 to 8,000 mJ", EnergyVendor::kNvidia, {kGpu}, {5}, {8}, 3},
      {"two boards", EnergyVendor::kNvidia, {kGpu, kGpu}, {2, 3}, {5, 7}, 7},
      {"1,000 steps of 15.3 uJ", EnergyVendor::kAmd, {kGpu}, {1000 * 15.3e-6}, {2000 * 15.3e-6}, 0.0153},
      {"package and memory", EnergyVendor::kCpuRapl, {kCpu, kDram}, {0.5, 0.1}, {0.6, 0.12}, 0.12, 0.1, 0.02},
      {"a board, a processor and its memory",
       EnergyVendor::kNvidia,
       {kGpu, kCpu, kDram},
       {0, 0, 0},
       {3.0, 1.5, 0.5},
       3.0,
       1.5,
       0.5},
  };
  for (const Counted& one : cases) {
    Fixture fixture(one.vendor);
    bool after = false;
    for (size_t i = 0; i < one.parts.size(); ++i) {
      EnergyDevice device;
      device.id = "device-" + std::to_string(i);
      device.part = one.parts[i];
      fixture.source->Add(device, [&, i](int64_t) {
        EnergyReading reading;
        reading.joules = after ? one.after[i] : one.before[i];
        return reading;
      });
    }
    fixture.Start();
    WindowSlot* window = fixture.Begin();
    after = true;
    fixture.Pass(seconds(1), seconds(1));
    const EnergyResult result = fixture.End(window);
    EXPECT_NEAR(result.energy_joules, one.joules, 1e-9) << one.name;
    Near(result.cpu_joules, one.cpu, one.name);
    Near(result.dram_joules, one.dram, one.name);
  }
}

// In the files of the kernel: microjoules, the last one past the end of its counter.
TEST(OpenJarvisEnergyCases, Rapl) {
  struct Zones {
    const char *package[2], *dram[2];
    double cpu, memory;
  };
  for (const auto& [package, dram, cpu, memory] :
       {Zones{{"500000", "600000"}, {"100000", "120000"}, 0.1, 0.02},
        Zones{{"1000", "5000"}, {"2000", "3000"}, 0.004, 0.001},
        Zones{{"900000", "200000"}, {"5", "6"}, 0.3, 1e-6}}) {
    testing::TempFolder root;
    const auto write = [&](int when) {
      for (const auto& [zone, name, energy] : {std::tuple("intel-rapl:0", "package-0", package[when]),
                                               std::tuple("intel-rapl:0:0", "dram", dram[when])}) {
        const std::string folder = std::string("sys/class/powercap/") + zone + "/";
        std::filesystem::create_directories(root.path() + "/" + folder);
        root.Write(folder + "name", name + std::string("\n"));
        root.Write(folder + "energy_uj", energy + std::string("\n"));
        root.Write(folder + "max_energy_range_uj", "1000000\n");
      }
    };
    write(0);
    Fixture fixture;
    fixture.Start({}, std::make_shared<RaplEnergy>(root.path()));
    WindowSlot* window = fixture.Begin();
    write(1);
    // A value may be a millisecond old, so it holds half of that before it is read.
    fixture.clock.Advance(seconds(1));
    window->End(fixture.engine->Now());
    fixture.Pass(std::chrono::microseconds(500));
    const EnergyResult result = fixture.End(window);
    EXPECT_NEAR(result.cpu_joules, cpu, 1e-9);
    EXPECT_NEAR(result.dram_joules, memory, 1e-9);
    EXPECT_NEAR(result.energy_joules, cpu + memory, 1e-9);
  }
}

// ---- sessions
constexpr int64_t kMs = 1'000'000;

TEST(OpenJarvisEnergyCases, Sessions) {
  energy::PowerTrace steady(1000), one(10), ramp(10), ten(100), three(3), two(10), thrice(10);
  for (int i = 0; i < 11; ++i) steady.Add({.at_ns = i * 100 * kMs, .gpu_watts = 100, .cpu_watts = 50});
  one.Add({.at_ns = 0, .gpu_watts = 100});
  ramp.Add({.at_ns = 0});
  ramp.Add({.at_ns = 1000 * kMs, .gpu_watts = 200, .cpu_watts = 100});
  for (int i = 0; i < 10; ++i) ten.Add({.at_ns = i * 1000});
  for (int i = 0; i < 5; ++i) three.Add({.at_ns = i, .gpu_watts = static_cast<double>(i)});
  two.Add({.at_ns = 0, .gpu_watts = 100, .cpu_watts = 40});
  two.Add({.at_ns = 1000, .gpu_watts = 200, .cpu_watts = 60});
  for (double watts : {100, 200, 150})
    thrice.Add({.at_ns = static_cast<int64_t>(thrice.size()), .gpu_watts = watts});
  struct Case {
    const char* name;
    double got, wanted;
  };
  for (const auto& [name, got, wanted] : {
           Case{"100 W for a second", steady.EnergyJoules(0, 1000 * kMs).gpu, 100},
           Case{"50 W", steady.EnergyJoules(0, 1000 * kMs).cpu, 50},
           Case{"one sample", one.EnergyJoules(0, 1000 * kMs).gpu, 0},
           Case{"0 to 200 W", ramp.EnergyJoules(0, 1000 * kMs).gpu, 100},
           Case{"0 to 100 W", ramp.EnergyJoules(0, 1000 * kMs).cpu, 50},
           Case{"window", static_cast<double>(ten.Within(2000, 6000).size()), 5},
           Case{"the newest", static_cast<double>(three.Within(0, 9).size()), 3},
           Case{"mean, GPU", two.MeanWatts(0, 1000).gpu, 150},
           Case{"mean, CPU", two.MeanWatts(0, 1000).cpu, 50},
           Case{"mean of three", thrice.MeanWatts(0, 1000).gpu, 150},
       })
    EXPECT_NEAR(got, wanted, 1e-9) << name;
}

// Prefill until 500 ms, decode until a second; 300 W, of which the processor draws 100.
TEST(OpenJarvisEnergyCases, Phases) {
  Fixture fixture;
  fixture.source->AddGpu("GPU-0", [](int64_t) {
    EnergyReading reading;
    reading.watts = 200;
    return reading;
  });
  fixture.source->Add({.id = "package-0", .name = {}, .part = EnergyPart::kCpu}, [](int64_t ns) {
    EnergyReading reading;
    reading.joules = 100 * SecondsOf(ns);
    return reading;
  });
  fixture.Start();
  WindowSlot* window = fixture.Begin();
  window->Mark("prefill", fixture.engine->Now());
  fixture.Pass(std::chrono::milliseconds(500));
  window->Mark("decode", fixture.engine->Now());
  fixture.Pass(std::chrono::milliseconds(500));
  window->End(fixture.engine->Now());
  for (const char* phase : {"prefill", "decode"}) {
    const EnergyResult half = fixture.engine->ResultOf(*window, window->PhaseOf(phase));
    EXPECT_EQ(half.duration, std::chrono::milliseconds(500)) << phase;
    EXPECT_NEAR(half.energy_joules, 100, 1e-6) << phase;
  }
  const EnergyResult whole = fixture.End(window);
  const double joules = whole.energy_joules + whole.cpu_joules;
  EXPECT_NEAR(joules, 300, 1e-6);
  EXPECT_NEAR(joules / 100, 3, 1e-8) << "of 100 tokens";
}

}  // namespace
}  // namespace gpulens::sdk
