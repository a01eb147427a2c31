#include "cli/bench/bench_energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json.h"

namespace gpulens {
namespace {

using ::testing::HasSubstr;

LoadPlan PlanFor(const std::string& url) {
  LoadPlan plan;
  plan.url = *ParseHttpUrl(url);
  return plan;
}

TEST(BenchEnergy, WhatIsThisMachine) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"})
    EXPECT_TRUE(IsLocalHost(host)) << host;
  for (const char* host : {"gpu7", "10.0.0.1", "localhost.example", ""})
    EXPECT_FALSE(IsLocalHost(host)) << host;
}

TEST(BenchEnergy, OfAnotherMachineNothingIsKnown) {
  BenchMeter meter(PlanFor("http://gpu7:8000/v1"), false);
  LoadSummary summary;
  summary.begin_ns = 1;
  summary.end_ns = 2;
  summary.completion_tokens = 5;
  const BenchEnergy energy = meter.Measure({}, summary);
  EXPECT_FALSE(energy.run.valid());
  EXPECT_TRUE(std::isnan(energy.joules_per_output_token));
  EXPECT_THAT(EnergyText(energy), HasSubstr("unknown (no_device): the server is on another machine"));
  std::string json = "{\"a\":1";
  AppendEnergyJson(json, energy);
  const auto document = JsonDocument::Parse(json + "}");
  ASSERT_TRUE(document) << json;
  EXPECT_THAT(json, HasSubstr("\"joules\":null"));
}

TEST(BenchEnergy, JoulesByTokensAndRequests) {
  BenchEnergy energy;
  energy.run.energy_joules = energy.run.device_energy_joules = 1'200;
  energy.run.uncertainty_joules = 4;
  energy.run.duration = std::chrono::seconds(3);
  energy.run.devices = 2;
  energy.run.vendor = EnergyVendor::kNvidia;
  energy.run.method = EnergyMethod::kCounter;
  energy.run.validity = EnergyValidity::kValid;
  energy.run.reason = "3 other processes use the GPUs\x1b";
  energy.joules_per_output_token = 0.512345;
  energy.joules_per_request = 60;
  const std::string text = EnergyText(energy);
  EXPECT_THAT(text, HasSubstr("energy       1200.0 J ± 4.0 J (counter, 3.000 s, 2 GPUs"));
  EXPECT_THAT(text, HasSubstr("by nvidia; 0.512 J/token out, 60 J/request\n"));
  EXPECT_THAT(text, HasSubstr("note         3 other processes use the GPUs\\x1b\n"));
  std::string json;
  AppendEnergyJson(json, energy);
  EXPECT_THAT(json, HasSubstr("\"joules_per_output_token\":0.512345"));
  EXPECT_THAT(json, HasSubstr("\"validity\":\"valid\""));
}

}  // namespace
}  // namespace gpulens
