#include "pricing/list_prices.h"

#include <gtest/gtest.h>

#include "pricing/price_table.h"

namespace gpulens::pricing {
namespace {

TEST(ListPrices, AreAFileThatLoads) {
  const std::string text = ListPrices();
  EXPECT_NE(text.find("as of " + std::string(kListPricesDay)), std::string::npos);
  const PriceFile file{"builtin", text};
  const auto table = PriceTable::Load({&file, 1});
  ASSERT_TRUE(table.ok()) << table.error().detail;
  EXPECT_GT(table->models(), 400u);
  EXPECT_EQ(table->sources()[0].disputed, 0u) << "prices on which sources contradict each other are left out";
  for (size_t i = 0; i < table->models(); ++i) {
    const ModelPrices model = table->ModelAt(i);
    EXPECT_NE(model.model(), "*") << "a list prices no model that it does not name";
  }
}

TEST(ListPrices, PriceWhatProvidersNamed) {
  const PriceFile file{"builtin", ListPrices()};
  const std::string only[] = {"anthropic"};
  const auto table = PriceTable::Load({&file, 1}, only);
  ASSERT_TRUE(table.ok());
  const ModelPrices model = table->Find("anthropic", "claude-haiku-4-5-20251001", "");
  ASSERT_TRUE(model);
  const PriceRow* row = model.RowAt(1'795'000'000'000'000'000);
  ASSERT_NE(row, nullptr);
  const auto& prices = model.Prices(model.Steps(*row, PriceTier::kStandard)[0]);
  EXPECT_EQ(prices[static_cast<size_t>(LlmClass::kInput)], 1'000'000) << "1 USD per million";
  EXPECT_EQ(prices[static_cast<size_t>(LlmClass::kOutput)], 5'000'000);
  EXPECT_FALSE(table->Find("openai", "gpt-5", "")) << "another provider's are not loaded";
}

}  // namespace
}  // namespace gpulens::pricing
