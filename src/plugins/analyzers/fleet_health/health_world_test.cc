// Two simulations: ten thousand hours without a fault, and random faults.

#include <gtest/gtest.h>

#include <random>

#include "plugins/analyzers/fleet_health/health_random_testing.h"

namespace gpulens {
namespace {

using namespace health_world;
using std::chrono::seconds;

TEST(HealthWorlds, FaultsAreNeverHealthy) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    std::mt19937 generator(seed);
    Draw draw = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(generator); };
    World world(3);
    std::vector<Truth> truths(world.size());
    std::vector<int> lasted(world.size());
    for (int step = 0; step < 400; ++step) {
      for (size_t gpu = 0; gpu < world.size(); ++gpu) {
        if (draw(20) == 0) {
          ChangeTruth(truths[gpu], draw);
          lasted[gpu] = 0;
        }
        Show(world, gpu, truths[gpu]);
      }
      world.Tick(seconds(1));
      for (size_t gpu = 0; gpu < world.size(); ++gpu) {
        ASSERT_EQ(FalseClear(truths[gpu], world.result(gpu), lasted[gpu]), "")
            << "seed " << seed << ", second " << step << ", GPU " << gpu;
        ++lasted[gpu];
      }
    }
    // A repaired GPU is healthy again.
    for (int step = 0; step < 32; ++step) {
      for (size_t gpu = 0; gpu < world.size(); ++gpu) Show(world, gpu, {});
      world.Tick(seconds(1));
    }
    for (size_t gpu = 0; gpu < world.size(); ++gpu) ASSERT_EQ(world.result(gpu).state, "ok") << seed;
  }
}

// A GPU that works as GPUs do: jobs come and go, it heats and cools, its link slows down when it idles, a
// reading fails now and then, an application makes a mistake, a bit is corrected, a packet is sent again.
class HealthyGpu {
 public:
  HealthyGpu(World& world, size_t gpu, unsigned seed) : world_(world), gpu_(gpu), generator_(seed) {
    Begin();
  }

  void Live(double passed) {
    left_ -= passed;
    if (left_ <= 0) {
      busy_ = !busy_;
      left_ = std::exponential_distribution<double>(1 / (busy_ ? 3600.0 : 900.0))(generator_);
    }
    double goal = busy_ ? 72 : 34;
    heat_ += (goal - heat_) * (1 - std::exp(-passed / 90)) + Noise(0.4);
    Count(corrected_, 1.0 / (72 * 3600), passed);
    Count(replays_, 1.0 / 7200, passed);
    Count(link_replays_, 1.0 / (24 * 3600), passed);
    Count(xids_, 1.0 / (400 * 3600), passed);
    Show();
  }

 private:
  double Noise(double width) { return std::normal_distribution<double>(0, width)(generator_); }
  bool Chance(double share) { return std::bernoulli_distribution(share)(generator_); }
  void Count(double& count, double per_second, double passed) {
    if (Chance(per_second * passed)) ++count;
  }
  // One call in ten thousand fails.
  double Read(double value) { return Chance(1e-4) ? std::nan("") : value; }

  // Readings that never change.
  void Begin() {
    using sv = std::string_view;
    auto set = [&](const MetricDesc& desc, const AttributeSet& extra, double value) {
      world_.Set(gpu_, desc, extra, value);
    };
    const AttributeSet kNothing;
    set(kGpuState, AttributeSet({{"gpu.state", sv("ok")}}), 1);
    set(kGpuState, AttributeSet({{"gpu.state", sv("lost")}}), 0);
    set(kGpuInfo, AttributeSet({{"gpu.vendor", sv("nvidia")}}), 1);
    set(kGpuPcieLinkGenMax, kNothing, 5);
    set(kGpuPcieLinkWidthMax, kNothing, 16);
    set(kGpuPcieLinkWidthCurrent, kNothing, 16);
  }

  void Show() {
    using sv = std::string_view;
    auto set = [&](const MetricDesc& desc, const AttributeSet& extra, double value) {
      world_.Set(gpu_, desc, extra, value);
    };
    static const AttributeSet kNothing, kEdge({{"gpu.temperature.sensor", sv("edge")}}),
        kMemory({{"gpu.temperature.sensor", sv("memory")}}), kGraphics({{"gpu.clock.type", sv("graphics")}}),
        kCompute({{"gpu.task.type", sv("compute")}}),
        kVolatile({{"gpu.ecc.count_type", sv("volatile")}, {"gpu.ecc.error_type", sv("correctable")}}),
        kBrake({{"gpu.throttle.cause", sv("power_brake")}}),
        kActive({{"gpu.interconnect.state", sv("active")}}),
        kReplay({{"gpu.interconnect.error_type", sv("replay")}}),
        kRestart({{"gpu.xid.action", sv("restart_app")}});
    set(kGpuTemperature, kEdge, Read(heat_));
    set(kGpuTemperature, kMemory, Read(heat_ + 6));
    set(kGpuTemperatureMargin, kNothing, Read(87 - heat_));
    set(kGpuPowerDraw, kNothing, Read(busy_ ? 550 + Noise(60) : 75 + Noise(3)));
    set(kGpuMemoryUsed, kNothing, Read(busy_ ? 6e10 : 1e9));
    set(kGpuClockFrequency, kGraphics, Read(busy_ ? 1755 : 345));
    set(kGpuUtilization, kCompute, Read(busy_ ? 0.9 : 0));
    set(kGpuPcieLinkGenCurrent, kNothing, busy_ ? 5 : 1);
    set(kGpuEccErrors, kVolatile, corrected_);
    set(kGpuPcieReplayCount, kNothing, replays_);
    set(kGpuInterconnectErrors, kReplay, link_replays_);
    set(kGpuInterconnectLinks, kActive, Read(18));
    // The supply brakes for a moment when all GPUs begin at once.
    set(kGpuThrottleReason, kBrake, busy_ && Chance(1e-4) ? 1 : 0);
    set(kGpuXidErrors, kNothing, xids_);
    set(kGpuXidRecent, kRestart, xids_);
  }

  World& world_;
  const size_t gpu_;
  std::mt19937 generator_;
  bool busy_ = false;
  double left_ = 0, heat_ = 34, corrected_ = 0, replays_ = 0, link_replays_ = 0, xids_ = 0;
};

TEST(HealthWorlds, AtMostOneFalseAlarmInTenThousandHealthyNodeHours) {
  constexpr int kHours = 10'000, kStep = 120;  // seconds
  World world(2);
  std::vector<HealthyGpu> gpus;
  for (size_t i = 0; i < world.size(); ++i) gpus.emplace_back(world, i, 20261123 + static_cast<unsigned>(i));
  int alarms = 0;
  std::vector<bool> ill(world.size());
  std::string first;
  for (int64_t step = 0; step < int64_t{kHours} * 3600 / kStep; ++step) {
    for (HealthyGpu& gpu : gpus) gpu.Live(kStep);
    world.Tick(seconds(kStep));
    for (size_t gpu = 0; gpu < world.size(); ++gpu) {
      const World::Result& result = world.result(gpu);
      bool now = result.state != "ok" || result.score < kDegradedBelow;
      if (now && !ill[gpu]) {
        ++alarms;
        first += result.state + " " + (result.conditions.empty() ? "" : result.conditions[0]) + "; ";
      }
      ill[gpu] = now;
    }
  }
  EXPECT_LE(alarms, 1) << first;
}

}  // namespace
}  // namespace gpulens
