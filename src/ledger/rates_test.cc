#include "ledger/rates.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/files.h"
#include "base/rfc3339.h"

namespace gpulens::ledger {
namespace {

constexpr int64_t kDollar = 1'000'000'000'000;
const std::string kFolder = GPULENS_SOURCE_DIR "/src/ledger/testdata/rates_corpus/";

int64_t At(std::string_view time) { return ParseRfc3339(time).value(); }

RateFile File(const std::string& name) { return {.name = name, .text = *ReadFile(kFolder + name, 8 << 20)}; }

std::optional<int64_t> Price(const RateOptions& options, std::string_view model,
                             std::string_view time = "2026-11-26T12:00:00Z") {
  auto table = RateTable::Make(options);
  EXPECT_TRUE(table) << table.error().detail;
  return table->At(model, At(time)).pico_per_gpu_hour;
}

TEST(Decimal, TextsAreReadExactly) {
  EXPECT_EQ(ParseDecimal("6.88", 12), 6'880'000'000'000);
  EXPECT_EQ(ParseDecimal("0.000000000001", 12), 1);
  EXPECT_EQ(ParseDecimal("7.", 3), 7000);
  EXPECT_EQ(ParseDecimal(".5", 3), 500);
  EXPECT_EQ(ParseDecimal("1.5000", 1), 15);
  EXPECT_EQ(ParseDecimal("9000000", 12), 9'000'000 * kDollar);
  for (const char* wrong :
       {"", ".", "-1", "+1", "1e3", "1,5", " 1", "1 ", "1.2.3", "0x1", "nan", "9000000.1"})
    EXPECT_EQ(ParseDecimal(wrong, 12), std::nullopt) << wrong;
  EXPECT_EQ(ParseDecimal("0.0001", 3), std::nullopt);
}

TEST(Decimal, EveryIntegerComesBack) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 10'000; ++i) {
    const auto value = static_cast<int64_t>(random() % 9'000'000'000'000'000'000u) >> (random() % 63);
    ASSERT_EQ(ParseDecimal(DecimalText(value, 12), 12), value) << value;
  }
  EXPECT_EQ(DecimalText(-1'500, 3), "-1.5");
  EXPECT_EQ(DecimalText(0, 12), "0");
}

TEST(Rates, OnePriceIsOfAllGpus) {
  RateOptions options;
  options.pico_per_gpu_hour = 6'880'000'000'000;
  EXPECT_EQ(Price(options, "anything"), 6'880'000'000'000);
}

TEST(Rates, AModelsPricePrecedesTheOnePrice) {
  RateOptions options;
  options.pico_per_gpu_hour = 2 * kDollar;
  options.pico_by_model = {{"H100", 5 * kDollar}, {"H100 80GB HBM3", 6 * kDollar}, {"L4", kDollar}};
  EXPECT_EQ(Price(options, "NVIDIA H100 80GB HBM3"), 6 * kDollar);
  EXPECT_EQ(Price(options, "NVIDIA H100 PCIe"), 5 * kDollar);
  EXPECT_EQ(Price(options, "NVIDIA L4"), kDollar);
  EXPECT_EQ(Price(options, "NVIDIA L40S"), 2 * kDollar) << "L4 is no word of L40S";
}

TEST(Rates, P548xlargeIs688) {
  RateOptions options;
  options.instance_type = "p5.48xlarge";
  auto table = RateTable::Make(options);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->At("NVIDIA H100 80GB HBM3", 0).pico_per_gpu_hour, 6'880'000'000'000);
  EXPECT_EQ(table->PriceOrigin("NVIDIA H100 80GB HBM3", 0),
            "built-in list: aws p5.48xlarge 55.04 USD/h / 8 GPUs, us-east-1, read 2026-11-09 "
            "(datareceipts/data-receipts 109-gpu-pricing)");
}

TEST(Rates, AnInstancesPriceIsDividedByItsGpus) {
  RateOptions options;
  options.instance_type = "g6e.12xlarge";
  EXPECT_EQ(Price(options, "NVIDIA L40S"), 2'623'150'000'000);  // 10.4926 / 4
  options.instance_type = "g6.12xlarge";
  EXPECT_EQ(Price(options, "NVIDIA L4"), 1'150'400'000'000);  // 4.6016 / 4
}

TEST(Rates, TheBuiltInListIsSound) {
  // Each row has a positive price below 100 USD for a GPU, and no two of one region contradict each other.
  struct Row {
    std::string provider, type, region, day;
  };
  const Row rows[] = {
#define PRICE(provider, type, gpus, usd, region, day, source) {provider, type, region, day},
#include "ledger/gpu_prices.def"
#undef PRICE
  };
  EXPECT_GE(std::size(rows), 70u);
  for (const Row& row : rows) {
    RateOptions options;
    options.provider = row.provider;
    options.instance_type = row.type;
    options.region = row.region;
    const auto price = Price(options, "x");
    ASSERT_TRUE(price) << row.type;
    EXPECT_GT(*price, kDollar / 10) << row.type;
    EXPECT_LT(*price, 100 * kDollar) << row.type;
    EXPECT_TRUE(ParseRfc3339(row.day + "T00:00:00Z")) << row.type;
  }
}

TEST(Rates, AnotherRegionHasNoPriceAndAReason) {
  RateOptions options;
  options.provider = "aws";
  options.instance_type = "p5.48xlarge";
  options.region = "eu-central-1";
  auto table = RateTable::Make(options);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->At("x", 0).pico_per_gpu_hour, std::nullopt);
  EXPECT_EQ(table->PriceOrigin("x", 0),
            "the built-in list has a price for us-east-1, not for the region eu-central-1");
}

TEST(Rates, SeveralRegionsAreNotGuessed) {
  RateOptions options;
  options.instance_type = "a2-highgpu-1g";
  auto table = RateTable::Make(options);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->At("x", 0).pico_per_gpu_hour, std::nullopt);
  EXPECT_NE(table->PriceOrigin("x", 0).find("give the provider and the region"), std::string::npos);
  options.region = "us-central1";
  EXPECT_EQ(Price(options, "x"), 3'673'385'000'000);
}

TEST(Rates, WhatIsNotKnownIsAbsent) {
  auto table = RateTable::Make({});
  ASSERT_TRUE(table);
  const Rates rates = table->At("NVIDIA H100 80GB HBM3", 0);
  EXPECT_EQ(rates.pico_per_gpu_hour, std::nullopt);
  EXPECT_EQ(rates.pico_per_kwh, std::nullopt);
  EXPECT_EQ(rates.mg_per_kwh, std::nullopt);
  EXPECT_EQ(rates.pue_milli, 1000);
  EXPECT_FALSE(table->has_carbon());
  RateOptions options;
  options.instance_type = "m5.large";
  table = RateTable::Make(options);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->PriceOrigin("", 0), "no list has a price of the instance type m5.large");
}

TEST(Rates, TheFilesPriceOfADayIsInForceFromThatDay) {
  RateOptions options;
  options.price_file = File("prices.tsv");
  options.instance_type = "BOX-8";
  EXPECT_EQ(Price(options, "NVIDIA H100 80GB HBM3", "2026-06-30T23:59:59Z"), 5 * kDollar);
  EXPECT_EQ(Price(options, "NVIDIA H100 80GB HBM3", "2026-07-01T00:00:00Z"), 4'500'000'000'000);
  auto table = RateTable::Make(options);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->At("x", At("2025-12-31T23:59:59Z")).pico_per_gpu_hour, std::nullopt);
  EXPECT_TRUE(
      table->PriceOrigin("x", At("2025-12-31T23:59:59Z")).starts_with("not yet in force: prices.tsv:"));
}

TEST(Rates, AnUnknownPriceOfTheFileStaysUnknown) {
  RateOptions options;
  options.price_file = File("prices.tsv");
  options.instance_type = "box-4";
  EXPECT_EQ(Price(options, "NVIDIA L40S"), std::nullopt);
}

TEST(Rates, APartOfAGpuIsTheOneThatItsMachineSees) {
  RateOptions options;
  options.price_file = File("prices.tsv");
  options.instance_type = "part";
  EXPECT_EQ(Price(options, "NVIDIA L4"), 202'000'000'000);
}

TEST(Rates, ProductsAreFoundByTheirWords) {
  RateOptions options;
  options.price_file = File("products.csv");
  EXPECT_EQ(Price(options, "NVIDIA H100 80GB HBM3"), 4'250'000'000'000);
  EXPECT_EQ(Price(options, "NVIDIA H100 PCIe"), 5 * kDollar);
  EXPECT_EQ(Price(options, "NVIDIA A100-SXM4-80GB"), 2'500'000'000'000);
  EXPECT_EQ(Price(options, "NVIDIA A100-SXM4-40GB"), std::nullopt);
  EXPECT_EQ(Price(options, "NVIDIA L40S"), 1'200'000'000'000);
  EXPECT_EQ(Price(options, "NVIDIA L40"), std::nullopt);
}

TEST(Rates, CarbonIsOfItsHourAndGapsAreUnknown) {
  RateOptions options;
  options.carbon_file = File("carbon.csv");
  options.mg_per_kwh = 1;  // the file counts
  auto table = RateTable::Make(options);
  ASSERT_TRUE(table) << table.error().detail;
  EXPECT_TRUE(table->has_carbon());
  const auto at = [&](const char* time) { return table->At("", At(time)).mg_per_kwh; };
  EXPECT_EQ(at("2026-02-28T23:59:59Z"), std::nullopt);
  EXPECT_EQ(at("2026-03-01T00:00:00Z"), 210'500);
  EXPECT_EQ(at("2026-03-01T00:59:59Z"), 210'500);
  EXPECT_EQ(at("2026-03-01T01:00:00Z"), 190'000);
  EXPECT_EQ(at("2026-03-01T02:30:00Z"), std::nullopt) << "unknown in the file";
  EXPECT_EQ(at("2026-03-01T03:30:00Z"), 170'125) << "04:00+01:00";
  EXPECT_EQ(at("2026-03-01T04:30:00Z"), std::nullopt) << "a gap is not interpolated";
  EXPECT_EQ(at("2026-03-01T05:00:00Z"), 160'000);
  EXPECT_EQ(at("2026-03-01T06:00:00Z"), std::nullopt);
}

TEST(Rates, APueBelowOneIsRefused) {
  RateOptions options;
  options.pue_milli = 999;
  auto table = RateTable::Make(options);
  ASSERT_FALSE(table);
  EXPECT_EQ(table.error().detail, "the power usage effectiveness is below 1: 0.999");
}

TEST(Rates, BadFilesAreRefusedWithTheirLine) {
  size_t count = 0;
  for (const char* kind : {"prices_invalid", "carbon_invalid"}) {
    for (const auto& entry : std::filesystem::directory_iterator(kFolder + kind)) {
      const std::string name = std::string(kind) + "/" + entry.path().filename().string();
      RateOptions options;
      (kind[0] == 'p' ? options.price_file : options.carbon_file) = File(name);
      auto table = RateTable::Make(options);
      ASSERT_FALSE(table) << name;
      EXPECT_EQ(table.error().code, Code::kInvalidArgument);
      EXPECT_TRUE(table.error().detail.starts_with(name + ":")) << table.error().detail;
      ++count;
    }
  }
  EXPECT_GE(count, 31u);
}

TEST(Rates, LimitsOfFiles) {
  RateOptions options;
  options.price_file =
      RateFile{.name = "f", .text = "gpu_product,usd_per_hour\n" + std::string(5 << 20, '#')};
  EXPECT_FALSE(RateTable::Make(options));
  options.price_file->text = "gpu_product,usd_per_hour\n" + std::string(5000, 'x') + ",1\n";
  EXPECT_FALSE(RateTable::Make(options));
  options.price_file->text = "gpu_product,usd_per_hour" + std::string(70, ',') + "\n";
  EXPECT_FALSE(RateTable::Make(options));
  std::string many = "gpu_product,usd_per_hour\n";
  for (int i = 0; i < 100'001; ++i) many += "a,1\n";
  options.price_file->text = many;
  auto table = RateTable::Make(options);
  ASSERT_FALSE(table);
  EXPECT_NE(table.error().detail.find("more than 100000 rows"), std::string::npos);
}

}  // namespace
}  // namespace gpulens::ledger
