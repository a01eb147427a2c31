#include "plugins/analyzers/cost/cost_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/testing/allocations.h"
#include "plugins/analyzers/cost/rate_options_testing.h"

namespace gpulens::cost {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr double kBelow = 0.05;
constexpr int64_t kSecond = 1'000'000'000;

std::optional<bool> IdleAfter(std::initializer_list<std::pair<int, std::optional<double>>> observed) {
  IdleState state;
  for (const auto& [second, use] : observed) state.Observe(use, second * kSecond, kBelow, seconds(60));
  return state.idle();
}

TEST(Idle, NeedsTheHoldTimeAndIsUnknownBefore) {
  EXPECT_EQ(IdleAfter({{1, 0.0}}), std::nullopt);
  EXPECT_EQ(IdleAfter({{1, 0.0}, {60, 0.04}}), std::nullopt);
  EXPECT_EQ(IdleAfter({{1, 0.0}, {61, 0.04}}), true);
  EXPECT_EQ(IdleAfter({{1, 0.05}}), false);
  EXPECT_EQ(IdleAfter({{1, 0.9}, {2, 0.0}, {61, 0.0}}), false);
  EXPECT_EQ(IdleAfter({{1, 0.9}, {2, 0.0}, {62, 0.0}}), true);
  EXPECT_EQ(IdleAfter({{1, 0.9}, {2, 0.0}, {40, 0.5}, {62, 0.0}}), false) << "the hold time begins again";
}

TEST(Idle, EndsAtTwiceTheThresholdOrAfterTheHoldTime) {
  EXPECT_EQ(IdleAfter({{1, 0.0}, {61, 0.0}, {62, 0.1}}), false);
  EXPECT_EQ(IdleAfter({{1, 0.0}, {61, 0.0}, {62, 0.06}, {121, 0.06}}), true);
  EXPECT_EQ(IdleAfter({{1, 0.0}, {61, 0.0}, {62, 0.06}, {122, 0.06}}), false);
}

TEST(Idle, IsUnknownWhileTheUseIs) {
  EXPECT_EQ(IdleAfter({{1, 0.0}, {61, 0.0}, {62, {}}}), std::nullopt);
  EXPECT_EQ(IdleAfter({{1, 0.0}, {61, 0.0}, {62, {}}, {63, 0.0}}), std::nullopt);
}

TEST(TokenPrices, AddUpToTheCost) {
  for (double share : {0.0, 0.125, 0.3, 1.0}) {
    const TokenPrices prices = PricesOf(55.04, 1000, 250, share);
    EXPECT_NEAR(1000 * *prices.per_prompt + 250 * *prices.per_generation, 55.04, 1e-12) << share;
  }
  EXPECT_DOUBLE_EQ(*PricesOf(10, 4, 0, 0.5).per_prompt, 2.5);
  EXPECT_DOUBLE_EQ(*PricesOf(10, 0, 4, 0.5).per_generation, 2.5);
  EXPECT_FALSE(PricesOf(10, 0, 4, 0.5).per_prompt);
}

TEST(TokenPrices, AreUnknownWithoutTokensOrTimes) {
  EXPECT_FALSE(PricesOf(10, 0, 0, 0.5).per_prompt);
  EXPECT_FALSE(PricesOf(10, 4, 4, {}).per_prompt);
  EXPECT_FALSE(PricesOf(10, std::nan(""), 4, 0.5).per_generation) << "unknown is not 0";
}

// GPUs and one engine, read once a second.
class CostMetricsTest : public ::testing::Test {
 protected:
  void Use(const std::map<std::string, std::string>& options) {
    rates_ = std::make_unique<LiveRates>(*LiveRates::Make(RateConfig(options)));
  }
  void AddGpus(int count, const std::string& engine = "vllm") {
    for (int i = 0; i < count; ++i) {
      ledger::GpuReading& gpu = gpus_.emplace_back();
      gpu.gpu = "GPU-" + std::to_string(i);
      gpu.model = "NVIDIA H100 80GB HBM3";
      gpu.energy_uj = 1'000'000'000;
      gpu.power_watts = 500;
      gpu.utilization = 0.9;
      gpu.users_known = true;
      if (!engine.empty()) AddUser(gpu, engine, 1 << 30);
      entities_.push_back(
          MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", std::string_view(std::to_string(i))}})));
    }
  }
  static void AddUser(ledger::GpuReading& gpu, const std::string& engine, std::optional<int64_t> bytes) {
    ledger::GpuUser user;
    user.pid = 100 + static_cast<int64_t>(gpu.users.size());
    user.owner.engine = engine;
    user.memory_bytes = bytes;
    gpu.users.push_back(user);
  }
  // 100 prompt and 50 generated tokens a second, a quarter of the time in prefill.
  void AddEngine(const std::string& name = "vllm") {
    ledger::EngineReading& engine = engines_.emplace_back();
    engine.engine = name;
    ledger::EngineWork& work = engine.work.emplace_back();
    work.prompt_tokens = work.generated_tokens = work.prefill_seconds = work.decode_seconds = 1000;
    engine_entities_.push_back(MakeRef<Entity>("engine", AttributeSet({{"target", std::string_view(name)}})));
  }
  void Step(bool pages = true) {
    now_ = now_ + seconds(1);
    for (size_t i = 0; i < gpus_.size(); ++i) {
      gpus_[i].at_ns = now_.boot_ns;
      if (gpus_[i].energy_uj) *gpus_[i].energy_uj += 500'000'000;  // 500 J
      metrics_.Observe(gpus_[i], entities_[i]);
    }
    for (size_t i = 0; pages && i < engines_.size(); ++i) {
      engines_[i].at_ns = now_.boot_ns - 300'000'000;
      ledger::EngineWork& work = engines_[i].work[0];
      work.prompt_tokens += 100, work.generated_tokens += 50;
      work.prefill_seconds += 0.25, work.decode_seconds += 0.75;
      metrics_.Observe(engines_[i], engine_entities_[i]);
    }
    out_.Begin(now_);
    metrics_.Write(now_, *rates_, out_);
    frame_ = out_.Finish();
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) Step();
  }
  // The value of the only series with the attribute, or none.
  std::optional<double> Value(const MetricDesc& desc, std::string_view key = {},
                              std::string_view value = {}) {
    std::optional<double> found;
    for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot) {
      const SeriesInfo& info = (*frame_->layout)[slot];
      if (info.desc != &desc || frame_->quality[slot] == Quality::kAbsent) continue;
      if (!key.empty() && info.attributes.Text(key) != value) continue;
      EXPECT_FALSE(found) << desc.name << " has two series";
      const Cell cell = frame_->cells[info.first_cell];
      found = desc.number == Number::kInt ? static_cast<double>(cell.i) : cell.d;
    }
    return found;
  }

  Instant now_{100 * kSecond, 1'770'000'000 * kSecond};
  CostMetrics metrics_{CostMetrics::Options{}};
  std::unique_ptr<LiveRates> rates_;
  SeriesTable table_;
  FrameWriter out_{table_, seconds(10)};
  Ref<const Frame> frame_;
  std::vector<ledger::GpuReading> gpus_;
  std::vector<ledger::EngineReading> engines_;
  std::vector<EntityRef> entities_, engine_entities_;
};

TEST_F(CostMetricsTest, AGpuHasItsPriceAndCarbon) {
  Use({{"price_per_gpu_hour", "6.88"}, {"pue", "1.2"}, {"co2_grams_per_kwh", "380.95"}});
  AddGpus(1);
  Step();
  EXPECT_DOUBLE_EQ(*Value(kGpuCostPerGpuHour), 6.88);
  EXPECT_DOUBLE_EQ(*Value(kGpuCostRate), 6.88 / 3600);
  EXPECT_DOUBLE_EQ(*Value(kGpuCo2Intensity), 380.95);
  EXPECT_DOUBLE_EQ(*Value(kGpuCo2Rate), 500 * 1.2 / 1000 * 380.95 / 3600);
  EXPECT_EQ(*Value(kGpuIdle), 0);
  EXPECT_EQ(*Value(kGpuCostIdleRate), 0);
}

TEST_F(CostMetricsTest, WhatIsNotConfiguredOrReadIsAbsent) {
  Use({});
  AddGpus(1);
  gpus_[0].utilization = {};
  AddEngine();
  Steps(5);
  for (const MetricDesc* desc : {&kGpuCostPerGpuHour, &kGpuCostRate, &kGpuCostIdleRate, &kGpuIdle,
                                 &kGpuCo2Intensity, &kGpuCo2Rate, &kGpuCostPerPromptToken})
    EXPECT_FALSE(Value(*desc)) << desc->name;
  EXPECT_TRUE(Value(kGpuJoulesPerToken)) << "energy needs no price";
}

TEST_F(CostMetricsTest, AnIdleGpuCostsItsRate) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(1);
  gpus_[0].utilization = 0.01;
  Steps(60);
  EXPECT_FALSE(Value(kGpuIdle));
  Step();
  EXPECT_EQ(*Value(kGpuIdle), 1);
  EXPECT_DOUBLE_EQ(*Value(kGpuCostIdleRate), 0.001);
  gpus_[0].utilization = {};
  Step();
  EXPECT_FALSE(Value(kGpuIdle));
  EXPECT_FALSE(Value(kGpuCostIdleRate));
}

TEST_F(CostMetricsTest, EightGpusOfOneEngineAreChargedOnce) {
  Use({{"price_per_gpu_hour", "6.88"}});
  AddGpus(8);
  AddEngine();
  Steps(100);
  // In each second 100 prompt and 50 generated tokens for the price and the energy of 8 GPUs.
  const double cost = 8 * 6.88 / 3600, prompt = *Value(kGpuCostPerPromptToken),
               generation = *Value(kGpuCostPerGenerationToken);
  EXPECT_NEAR(100 * prompt + 50 * generation, cost, 1e-12);
  EXPECT_NEAR(100 * prompt, cost / 4, 1e-12) << "a quarter of the time was prefill";
  EXPECT_NEAR(*Value(kGpuJoulesPerToken), 8 * 500.0 / 150, 1e-9);
  EXPECT_NEAR(*Value(kGpuJoulesPerToken) * *Value(kGpuTokensPerWatt), 1, 1e-12);
  EXPECT_TRUE(Value(kGpuJoulesPerToken, "gpu.cost.binding", "processes"));
}

TEST_F(CostMetricsTest, GpusOfOthersAreNotTheEngines) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(2);
  AddGpus(2, "");
  AddEngine();
  Steps(10);
  EXPECT_NEAR(100 * *Value(kGpuCostPerPromptToken) + 50 * *Value(kGpuCostPerGenerationToken), 0.002, 1e-12);
}

TEST_F(CostMetricsTest, ASharedGpuIsDividedByMemory) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(1, "");
  AddUser(gpus_[0], "a", 3000);
  AddUser(gpus_[0], "b", 1000);
  AddEngine("a");
  AddEngine("b");
  Steps(10);
  double sum = 0;
  for (std::string_view name : {"a", "b"}) {
    sum += 100 * *Value(kGpuCostPerPromptToken, "target", name) +
           50 * *Value(kGpuCostPerGenerationToken, "target", name);
  }
  EXPECT_NEAR(sum, 0.001, 1e-12) << "once";
  EXPECT_NEAR(*Value(kGpuCostPerPromptToken, "target", "a"),
              3 * *Value(kGpuCostPerPromptToken, "target", "b"), 1e-12);
}

TEST_F(CostMetricsTest, TheOnlyEngineHasAllGpusWhereNoProcessIsKnown) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(2, "");
  AddEngine();
  Steps(10);
  EXPECT_TRUE(Value(kGpuCostPerPromptToken, "gpu.cost.binding", "all_gpus"));
  // A process of the engine is found later.
  AddUser(gpus_[1], "vllm", {});
  Step();
  EXPECT_FALSE(Value(kGpuCostPerPromptToken, "gpu.cost.binding", "all_gpus"));
  EXPECT_NEAR(100 * *Value(kGpuCostPerPromptToken, "gpu.cost.binding", "processes") +
                  50 * *Value(kGpuCostPerGenerationToken),
              0.001, 1e-12);
}

TEST_F(CostMetricsTest, OfTwoEnginesWithoutProcessesNoneHasAGpu) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(2, "");
  AddEngine("a");
  AddEngine("b");
  Steps(10);
  EXPECT_FALSE(Value(kGpuCostPerPromptToken));
  EXPECT_FALSE(Value(kGpuJoulesPerToken));
}

TEST_F(CostMetricsTest, NoCounterNoJoules) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(2);
  gpus_[1].energy_uj = {};
  AddEngine();
  Steps(10);
  EXPECT_FALSE(Value(kGpuJoulesPerToken)) << "the energy of one of its GPUs is not known";
  EXPECT_TRUE(Value(kGpuCostPerPromptToken));
}

TEST_F(CostMetricsTest, ARestartedEngineOrCounterBeginsAgain) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(1);
  AddEngine();
  Steps(10);
  engines_[0].work[0] = {};
  engines_[0].work[0].prompt_tokens = engines_[0].work[0].generated_tokens = 0;
  engines_[0].work[0].prefill_seconds = engines_[0].work[0].decode_seconds = 0;
  Step();
  EXPECT_FALSE(Value(kGpuCostPerPromptToken));
  Step();
  EXPECT_NEAR(100 * *Value(kGpuCostPerPromptToken) + 50 * *Value(kGpuCostPerGenerationToken), 0.001, 1e-12);
  gpus_[0].energy_uj = 0;
  Step();
  EXPECT_FALSE(Value(kGpuJoulesPerToken));
  Steps(3);
  EXPECT_NEAR(*Value(kGpuJoulesPerToken), 500.0 / 150, 1e-9);
}

TEST_F(CostMetricsTest, SeriesOfWhatIsGoneEnd) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(2);
  AddEngine();
  Steps(3);
  gpus_.pop_back();
  engines_.clear();
  for (int i = 0; i < 130; ++i) Step();
  EXPECT_TRUE(Value(kGpuCostPerGpuHour)) << "one is left";
  size_t live = 0;
  for (uint32_t slot = 0; slot < frame_->layout->slots(); ++slot)
    live += (*frame_->layout)[slot].desc != nullptr;
  EXPECT_EQ(live, 4u);  // price, rate, idle, idle rate
}

TEST_F(CostMetricsTest, AGpuWithOtherAttributesHasOtherSeries) {
  Use({{"price_per_gpu_hour", "3.6"}});
  AddGpus(1);
  Step();
  entities_[0] = MakeRef<Entity>("gpu", AttributeSet({{"gpu.index", "0"}, {"k8s.pod.name", "p"}}));
  Step();
  EXPECT_TRUE(Value(kGpuCostPerGpuHour, "k8s.pod.name", "p"));
  EXPECT_TRUE(Value(kGpuCostPerGpuHour)) << "the former one has ended";
}

TEST_F(CostMetricsTest, ASteadyTickDoesNotAllocate) {
  Use({{"price_per_gpu_hour", "6.88"}, {"co2_grams_per_kwh", "100"}});
  AddGpus(8);
  AddEngine();
  Steps(200);
  const uint64_t before = ThreadAllocations();
  Steps(20);
  EXPECT_EQ(ThreadAllocations(), before);
}

}  // namespace
}  // namespace gpulens::cost
