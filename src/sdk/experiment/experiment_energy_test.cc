#include <gpulens/experiment_energy.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <thread>

#include "base/testing/temp_folder.h"
#include "sdk/energy/engine.h"
#include "sdk/energy/fake_source_for_test.h"
#include "store/experiments/run_reader.h"

namespace gpulens {
namespace {

using namespace std::chrono_literals;
using experiments::RunReader;
using ::testing::HasSubstr;

// Three GPUs of 100 W each, half busy, from the clock's zero on.
EnergyReading HundredWatts(int64_t ns) {
  EnergyReading out;
  out.joules = 100 * sdk::SecondsOf(ns);
  out.watts = 100, out.utilization_ratio = 0.5, out.memory_used_bytes = 1e9, out.processes = 4;
  return out;
}

std::shared_ptr<sdk::FakeSource> ThreeGpus() {
  auto source = std::make_shared<sdk::FakeSource>(sdk::SteadyClock(), EnergyVendor::kNvidia);
  for (const char* id : {"GPU-a", "GPU-b", "GPU-c"}) source->AddGpu(id, HundredWatts);
  return source;
}

class ExperimentEnergyTest : public ::testing::Test {
 protected:
  Experiment Started(ExperimentEnergyMeter meter, std::chrono::nanoseconds heartbeat = 10s) const {
    ExperimentOptions options;
    options.db = path, options.join = false;
    options.energy = std::move(meter);
    options.flush_interval = 1ms, options.heartbeat_interval = heartbeat;
    auto started = Experiment::Start("run", std::move(options));
    EXPECT_TRUE(started.ok()) << started.status().detail;
    return *std::move(started);
  }
  experiments::RunRow Row(const std::string& id) const {
    auto reader = RunReader::Open(path);
    EXPECT_TRUE(reader.ok()) << reader.status().detail;
    return *reader->ById(id);
  }

  gpulens::testing::TempFolder folder;
  std::string path = folder.path() + "/experiments.db";
};

TEST_F(ExperimentEnergyTest, MeasuresTheTimeOfTheRun) {
  const auto before = std::chrono::steady_clock::now();
  EnergyMonitor monitor({.interval = 1ms, .sources = {ThreeGpus()}});
  const auto begin = std::chrono::steady_clock::now();
  Experiment run = Started(EnergyOf(monitor));
  for (int64_t step = 0; step < 100; ++step) run.LogMetric("loss", 1, step);
  ASSERT_TRUE(run.Flush(20s));
  const auto inner = std::chrono::steady_clock::now();
  ASSERT_TRUE(run.End());
  const auto after = std::chrono::steady_clock::now();
  const ExperimentEnergy& energy = run.energy();
  EXPECT_EQ(energy.validity, "valid") << energy.reason;
  EXPECT_EQ(energy.method, "counter");
  EXPECT_EQ(energy.vendor, "nvidia");
  EXPECT_EQ(energy.devices, 3u);
  // 300 W, from after `begin` to before `after`, and for most of it.
  const double least = 300 * std::chrono::duration<double>(inner - begin).count() * 0.5;
  EXPECT_LE(energy.energy_joules, 300 * std::chrono::duration<double>(after - before).count());
  EXPECT_GE(energy.energy_joules + energy.uncertainty_joules, least);
  EXPECT_EQ(energy.attribution, "whole_board") << "this source does not tell who uses a device";
  EXPECT_THAT(energy.reason, HasSubstr("energy of all processes: this source does not tell"));

  const experiments::EnergyRow row = Row(run.id()).energy;
  EXPECT_EQ(row.joules, energy.energy_joules);
  EXPECT_EQ(row.reason, energy.reason);
  EXPECT_EQ(row.gpus(), 3);
  EXPECT_EQ(row.attribution, "whole_board");
  EXPECT_EQ(row.device_joules, energy.device_energy_joules);
  EXPECT_EQ(row.vendor, "nvidia");
}

TEST_F(ExperimentEnergyTest, KilledRunHasJoulesUpToItsHeartbeat) {
  EnergyMonitor monitor({.interval = 1ms, .sources = {ThreeGpus()}});
  Experiment run = Started(EnergyOf(monitor), 1ms);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  experiments::EnergyRow row;
  while (!(row.joules > 0 && row.mean_power_watts > 0) && std::chrono::steady_clock::now() < deadline) {
    ASSERT_TRUE(run.Flush(20s));
    row = Row(run.id()).energy;
  }
  EXPECT_EQ(row.validity, "running");
  EXPECT_GT(row.joules, 0);
  EXPECT_DOUBLE_EQ(row.mean_power_watts, 300);
  EXPECT_DOUBLE_EQ(row.peak_utilization_ratio, 0.5);
  EXPECT_DOUBLE_EQ(row.mean_memory_used_bytes, 3e9);
  ASSERT_TRUE(run.End());
  EXPECT_EQ(Row(run.id()).energy.validity, "valid");
}

// GPU-a is ours, GPU-b another's, GPU-c both of theirs.
TEST_F(ExperimentEnergyTest, CountsOnlyDevicesOfItsProcesses) {
  auto source = ThreeGpus();
  for (EnergyDevice& device : source->devices()) device.most_watts = 100;
  source->who = [](size_t device, EnergyProcesses& out) {
    const EnergyProcess own{.own = true, .utilization_ratio = 0.6, .memory_used_bytes = 1e9};
    const EnergyProcess other{.own = false, .utilization_ratio = 0.2, .memory_used_bytes = 5e9};
    if (device != 1) out.list.push_back(own);
    if (device != 0) out.list.push_back(other);
    return Status();
  };
  const auto begin = std::chrono::steady_clock::now();
  Experiment run = Started(EnergyOf(EnergyMonitor({.interval = 1ms, .sources = {source}})));
  run.LogMetric("loss", 1, 0);
  ASSERT_TRUE(run.Flush(20s));
  ASSERT_TRUE(run.End());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const ExperimentEnergy& energy = run.energy();
  EXPECT_EQ(energy.validity, "valid") << energy.reason;
  EXPECT_EQ(energy.attribution, "shared_by_utilization") << "the one that says least";
  EXPECT_EQ(energy.devices, 2u);
  EXPECT_LE(energy.energy_joules, 175 * seconds);
  EXPECT_NEAR(energy.energy_joules, energy.device_energy_joules * 1.75 / 2, 1e-3 * energy.energy_joules);
  EXPECT_DOUBLE_EQ(energy.mean_power_watts, 175);
  EXPECT_DOUBLE_EQ(energy.mean_memory_used_bytes, 2e9);
  EXPECT_DOUBLE_EQ(energy.mean_utilization_ratio, 0.55) << "of GPU-a the device's, of GPU-c ours";
  EXPECT_THAT(energy.reason, HasSubstr("43 % of it on devices that other processes used, too"));
}

TEST_F(ExperimentEnergyTest, HasNoJoulesWithoutADevice) {
  auto source = ThreeGpus();
  source->who = [](size_t, EnergyProcesses& out) {
    out.list.push_back({.own = false, .utilization_ratio = 1});
    return Status();
  };
  Experiment run = Started(EnergyOf(EnergyMonitor({.interval = 1ms, .sources = {source}})));
  ASSERT_TRUE(run.End());
  EXPECT_TRUE(std::isnan(run.energy().energy_joules));
  EXPECT_EQ(run.energy().validity, "no_device");
  EXPECT_EQ(run.energy().devices, 0u);
  EXPECT_THAT(run.energy().reason, HasSubstr("none of its processes used one of the 3 devices"));
}

// The devices open long after the end of the run: its energy is estimated from the power then, with a wide
// bound.
TEST_F(ExperimentEnergyTest, ShortRunIsMeasuredCompletely) {
  auto source = ThreeGpus();
  for (EnergyDevice& device : source->devices()) device.most_watts = 400;
  std::promise<void> open;
  source->on_open = [released = open.get_future().share()] { released.wait(); };
  const auto before = std::chrono::steady_clock::now();
  Experiment run = Started(EnergyOfThisMachine({.interval = 1ms, .sources = {source}}));
  const auto begun = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begun < 20ms) continue;
  const auto over = std::chrono::steady_clock::now();
  open.set_value();
  ASSERT_TRUE(run.End());
  const auto after = std::chrono::steady_clock::now();
  const ExperimentEnergy& energy = run.energy();
  EXPECT_EQ(energy.validity, "valid") << energy.reason;
  EXPECT_GE(energy.energy_joules, 300 * std::chrono::duration<double>(over - begun).count() * 0.99);
  EXPECT_LE(energy.energy_joules, 300 * std::chrono::duration<double>(after - before).count() * 1.01);
  EXPECT_GE(energy.uncertainty_joules, 0.02 * 3 * 300) << "each may have drawn 400 W, or nothing";
  EXPECT_THAT(energy.reason, HasSubstr("are estimated from the power read after them"));
}

TEST_F(ExperimentEnergyTest, UnknownDoesNotReplaceKnown) {
  std::atomic<int> queried = 0;
  Experiment run = Started(
      [&](bool ended) {
        ++queried;
        if (ended) return ExperimentEnergy{.method = {}, .validity = "source_failed", .reason = "gone"};
        return ExperimentEnergy{
            .energy_joules = 5, .method = "counter", .validity = "running", .reason = {}, .devices = 1};
      },
      1ms);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (queried == 0 && std::chrono::steady_clock::now() < deadline) ASSERT_TRUE(run.Flush(20s));
  ASSERT_TRUE(run.End());
  EXPECT_EQ(run.energy().validity, "source_failed");
  EXPECT_EQ(Row(run.id()).energy.joules, 5);
}

TEST_F(ExperimentEnergyTest, IsNaNWithAReasonWithoutDevices) {
  auto source = ThreeGpus();
  source->open_status = {Code::kUnavailable, "no driver"};
  Experiment run = Started(EnergyOf(EnergyMonitor({.sources = {source}})));
  ASSERT_TRUE(run.End());
  EXPECT_TRUE(std::isnan(run.energy().energy_joules));
  EXPECT_EQ(run.energy().validity, "no_device");
  EXPECT_THAT(Row(run.id()).energy.reason, HasSubstr("no driver"));
  EXPECT_EQ(Row(run.id()).energy.gpus(), std::nullopt);
}

TEST_F(ExperimentEnergyTest, SlowDriverDelaysOnlyTheEnd) {
  auto source = ThreeGpus();
  std::promise<void> open;
  source->before_read = [released = open.get_future().share()] { released.wait(); };
  Experiment run = Started(EnergyOfThisMachine({.interval = 1ms, .sources = {source}}), 1ms);
  run.LogMetric("loss", 1, 0);
  ASSERT_TRUE(run.Flush(20s)) << "the writer does not wait";
  EXPECT_EQ(Row(run.id()).energy.validity, "") << "and nothing is told that is not known";
  std::thread ending([&] { EXPECT_TRUE(run.End()); });
  open.set_value();
  ending.join();
  EXPECT_EQ(run.energy().validity, "valid") << run.energy().reason;
  EXPECT_EQ(run.energy().devices, 3u);
}

}  // namespace
}  // namespace gpulens
