#include "plugins/analyzers/cost/cost_options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "plugins/analyzers/cost/rate_options_testing.h"

namespace gpulens::cost {
namespace {

constexpr int64_t kDollar = 1'000'000'000'000;
constexpr std::string_view kH100 = "NVIDIA H100 80GB HBM3";

std::string FirstFault(const std::map<std::string, std::string>& texts,
                       const std::map<std::string, std::string>& models = {}) {
  ConfigFaults faults;
  CheckRateOptions(RateConfig(texts, models), faults);
  return faults.empty() ? "" : faults.faults()[0].problem;
}

TEST(RateOptions, WrongTextsAreRefusedByName) {
  EXPECT_EQ(FirstFault({}), "");
  EXPECT_EQ(FirstFault({{"price_per_gpu_hour", "6,88"}}), "price_per_gpu_hour is no price: \"6,88\"");
  EXPECT_EQ(FirstFault({{"electricity_per_kwh", "-0.1"}}), "electricity_per_kwh is no price: \"-0.1\"");
  EXPECT_EQ(FirstFault({}, {{"H100", "free"}}), "price_by_model of \"H100\" is no price: \"free\"");
  EXPECT_EQ(FirstFault({}, {{"H100", ""}}), "price_by_model of \"H100\" is no price: \"-\"");
  EXPECT_EQ(FirstFault({{"pue", "0.9"}}), "pue is not between 1 and 10: \"0.9\"");
  EXPECT_EQ(FirstFault({{"pue", "1.12345"}}), "pue is not between 1 and 10: \"1.12345\"");
  EXPECT_EQ(FirstFault({{"co2_grams_per_kwh", "20000"}}), "co2_grams_per_kwh is no intensity: \"20000\"");
  EXPECT_EQ(FirstFault({{"carbon_zone", "Atlantis"}}),
            "no carbon intensity is known for the zone \"Atlantis\"");
  EXPECT_EQ(FirstFault({{"carbon_zone", "DE"}, {"co2_grams_per_kwh", "1"}}),
            "carbon_zone and co2_grams_per_kwh contradict each other");
  EXPECT_EQ(FirstFault({{"carbon_zone", "DE"}, {"carbon_file", "f"}}),
            "carbon_file and carbon_zone contradict each other");
}

TEST(RateOptions, ValuesAreExact) {
  auto rates = LiveRates::Make(RateConfig({{"price_per_gpu_hour", "6.88"},
                                           {"electricity_per_kwh", "0.123456789012"},
                                           {"pue", "1.25"},
                                           {"carbon_zone", "DE"}}));
  ASSERT_TRUE(rates) << rates.error().detail;
  const ledger::Rates at = rates->At(kH100, 0);
  EXPECT_EQ(at.pico_per_gpu_hour, 6'880'000'000'000);
  EXPECT_EQ(at.pico_per_kwh, 123'456'789'012);
  EXPECT_EQ(at.pue_milli, 1250);
  EXPECT_EQ(at.mg_per_kwh, 380'950);
}

// What the enricher `cloud` finds on machines of three clouds.
AttributeSet Machine(std::string_view provider, std::string_view type, std::string_view region) {
  return AttributeSet({{"cloud.provider", provider}, {"host.type", type}, {"cloud.region", region}});
}

TEST(RateOptions, TheMachineThatTheCloudNamesHasItsPriceOrAReason) {
  auto rates = LiveRates::Make(RateConfig({}));
  ASSERT_TRUE(rates);
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, std::nullopt);
  struct {
    AttributeSet machine;
    std::optional<int64_t> pico;
    std::string_view origin;
  } const rows[] = {
      {Machine("aws", "p5.48xlarge", "us-east-1"), 6'880'000'000'000, "built-in list: aws p5.48xlarge 55.04"},
      {Machine("aws", "p5.48xlarge", "eu-north-1"),
       {},
       "the built-in list has a price for us-east-1, not for"},
      {Machine("gcp", "a3-ultragpu-8g", "us-central1"), 10'436'500'000'000,
       "built-in list: gcp a3-ultragpu-8g"},
      {Machine("gcp", "n2-standard-4", "us-central1"),
       {},
       "no list has a price of the instance type n2-standard-4"},
      {Machine("azure", "Standard_ND96isr_H100_v5", "eastus"), 12'290'000'000'000,
       "built-in list: azure Standard_ND96isr"},
      {Machine("azure", "p5.48xlarge", "eastus"), {}, "no list has a price of the instance type p5.48xlarge"},
  };
  Instant now{1, 1};
  for (const auto& row : rows) {
    EXPECT_TRUE(rates->Update(now, row.machine));
    EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, row.pico) << row.origin;
    EXPECT_TRUE(rates->table().PriceOrigin(kH100, 0).starts_with(row.origin))
        << rates->table().PriceOrigin(kH100, 0);
    EXPECT_FALSE(rates->Update(now, row.machine)) << "nothing changed";
  }
}

TEST(RateOptions, AConfiguredInstanceTypeIsNotTheCloudsRegion) {
  auto rates = LiveRates::Make(RateConfig({{"instance_type", "p5.48xlarge"}}));
  ASSERT_TRUE(rates);
  rates->Update({1, 1}, Machine("gcp", "a3-ultragpu-8g", "europe-west1"));
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, 6'880'000'000'000);
}

TEST(RateOptions, AConfiguredRegionUsesThatRegionsPriceElsewhere) {
  auto rates = LiveRates::Make(RateConfig({{"region", "us-east-1"}}));
  ASSERT_TRUE(rates);
  rates->Update({1, 1}, Machine("aws", "p5.48xlarge", "eu-north-1"));
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, 6'880'000'000'000);
}

class RateFiles : public ::testing::Test {
 protected:
  RateFiles() {
    char folder[] = "/tmp/gpulens-rates-XXXXXX";
    EXPECT_TRUE(::mkdtemp(folder));
    folder_ = folder;
  }
  ~RateFiles() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, std::string_view text) const {
    ASSERT_TRUE(WriteFileAtomically(Path(name), text, {.sync = false}));
  }
  // A tick ten seconds later.
  bool Tick(LiveRates& rates) {
    now_ = now_ + std::chrono::seconds(10);
    return rates.Update(now_, AttributeSet());
  }

  std::string folder_;
  Instant now_{1'000'000'000, 1'700'000'000'000'000'000};
};

TEST_F(RateFiles, AChangedFileIsReadAgainAndABadOneIsNot) {
  Write("prices.csv", "gpu_product,usd_per_hour\nH100,4\n");
  auto rates = LiveRates::Make(RateConfig({{"price_file", Path("prices.csv")}}));
  ASSERT_TRUE(rates) << rates.error().detail;
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, 4 * kDollar);
  const uint64_t version = rates->version();
  EXPECT_FALSE(Tick(*rates));
  Write("prices.csv", "gpu_product,usd_per_hour\nH100,5.5\n");
  EXPECT_FALSE(rates->Update(now_, AttributeSet())) << "looked a moment ago";
  EXPECT_TRUE(Tick(*rates));
  EXPECT_NE(rates->version(), version);
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, 5'500'000'000'000);
  Write("prices.csv", "gpu_product,usd_per_hour\nH100,cheap\n");
  EXPECT_FALSE(Tick(*rates));
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, 5'500'000'000'000);
  std::filesystem::remove(Path("prices.csv"));
  EXPECT_FALSE(Tick(*rates));
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, 5'500'000'000'000);
  Write("prices.csv", "gpu_product,usd_per_hour\nH100,6\n");
  EXPECT_TRUE(Tick(*rates));
  EXPECT_EQ(rates->At(kH100, 0).pico_per_gpu_hour, 6 * kDollar);
}

TEST_F(RateFiles, CarbonByHourChangesWithItsFile) {
  Write("carbon.csv", "time,g_per_kwh\n2026-03-01T00:00:00Z,100\n");
  auto rates = LiveRates::Make(RateConfig({{"carbon_file", Path("carbon.csv")}}));
  ASSERT_TRUE(rates) << rates.error().detail;
  constexpr int64_t kMidnight = 1'772'323'200'000'000'000, kHour = 3'600'000'000'000;
  EXPECT_EQ(rates->At("", kMidnight).mg_per_kwh, 100'000);
  EXPECT_EQ(rates->At("", kMidnight + kHour).mg_per_kwh, std::nullopt);
  Tick(*rates);
  Write("carbon.csv", "time,g_per_kwh\n2026-03-01T00:00:00Z,100\n2026-03-01T01:00:00Z,90\n");
  EXPECT_TRUE(Tick(*rates));
  EXPECT_EQ(rates->At("", kMidnight + kHour).mg_per_kwh, 90'000);
}

TEST_F(RateFiles, AFileThatIsWrongAtTheStartIsRefused) {
  auto missing = LiveRates::Make(RateConfig({{"price_file", Path("none.csv")}}));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kUnavailable);
  Write("prices.csv", "gpu_product,usd_per_hour\nH100,cheap\n");
  auto wrong = LiveRates::Make(RateConfig({{"price_file", Path("prices.csv")}}));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().detail,
            Path("prices.csv") +
                ":2: usd_per_hour is no decimal number below 9 million with at most 12 decimals: \"cheap\"");
}

}  // namespace
}  // namespace gpulens::cost
