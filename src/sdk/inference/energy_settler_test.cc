#include "sdk/inference/call.h"

#include <chrono>
#include <cmath>

#include <gtest/gtest.h>

#include "sdk/energy/engine.h"
#include "sdk/energy/fake_source_for_test.h"

namespace gpulens::inference {
namespace {

using namespace std::chrono_literals;

// A GPU that draws 100 W, by its counter.
EnergyMonitor Monitor() {
  auto source = std::make_shared<sdk::FakeSource>(sdk::SteadyClock(), EnergyVendor::kNvidia);
  source->AddGpu("GPU-a", [](int64_t ns) {
    EnergyReading reading;
    reading.joules = static_cast<double>(ns) * 1e-7;
    return reading;
  });
  EnergyOptions options;
  options.interval = 1ms;
  options.sources = {std::move(source)};
  return EnergyMonitor(options);
}

// Until the devices drew something since then.
void Wait(EnergyWindow& window, double joules) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!(window.Estimate().energy_joules > joules) && std::chrono::steady_clock::now() < deadline) {
  }
}

TEST(SettleEnergy, EnergyIsTheSumOfPhases) {
  EnergyMonitor monitor = Monitor();
  ASSERT_TRUE(monitor.status().ok()) << monitor.status().detail;
  EnergyWindow window = monitor.Request();
  window.Mark(kPrefill);
  Wait(window, 0.5);
  window.Mark(kDecode);
  Wait(window, 1.5);
  window.End();
  telemetry::RecordRow row;
  row.numbers.completion_tokens = 8;
  SettleEnergy(std::move(window))->Settle(row);
  const telemetry::RecordNumbers& n = row.numbers;
  EXPECT_GT(n.energy_joules, 1);
  EXPECT_NEAR(n.prefill_energy_joules + n.decode_energy_joules, n.energy_joules, 0.05 * n.energy_joules);
  EXPECT_GT(n.prefill_energy_joules, 0);
  EXPECT_DOUBLE_EQ(n.energy_per_output_token_joules, n.energy_joules / 8);
  EXPECT_EQ(row.text(telemetry::TextColumn::kEnergyVendor), "nvidia");
}

TEST(SettleEnergy, HasNoPhasesWithoutAFirstToken) {
  EnergyMonitor monitor = Monitor();
  EnergyWindow window = monitor.Request();
  window.Mark(kPrefill);
  Wait(window, 0.5);
  window.End();
  telemetry::RecordRow row;
  SettleEnergy(std::move(window))->Settle(row);
  EXPECT_GT(row.numbers.energy_joules, 0.4);
  EXPECT_TRUE(std::isnan(row.numbers.prefill_energy_joules)) << "nobody knows where the prompt ended";
  EXPECT_TRUE(std::isnan(row.numbers.decode_energy_joules));
}

TEST(SettleEnergy, PrefersEnergyOfTheCaller) {
  EnergyMonitor monitor = Monitor();
  EnergyWindow window = monitor.Request();
  Wait(window, 0.5);
  window.End();
  telemetry::RecordRow row;
  row.numbers.energy_joules = 7;
  SettleEnergy(std::move(window))->Settle(row);
  EXPECT_EQ(row.numbers.energy_joules, 7);
  EXPECT_TRUE(std::isnan(row.numbers.gpu_energy_joules)) << "nothing is mixed";
}

}  // namespace
}  // namespace gpulens::inference
