// Price files are written by hand and by other programs. What is accepted has no negative price, names its
// rows, gives the same twice, and lets no request cost less than nothing or more than its reservation.
// Each charges several requests. Fuzz inputs: 20'000
#include <cstdlib>

#include "pricing/charge.h"

namespace {

using namespace gpulens;
using namespace gpulens::pricing;

constexpr int64_t kTimes[] = {-1, 0, 1'795'435'200'000'000'000, 1'795'424'400'000'000'000};

void Require(bool holds) {
  if (!holds) std::abort();
}

void CheckModel(const ModelPrices& prices, PriceTier tier, int64_t at) {
  LlmUsage usage;
  for (size_t i = 0; i < kLlmClasses; ++i) usage.units[i] = static_cast<int64_t>(i * 40'000);
  const LlmCharge all = ChargeFor(prices, {.usage = usage, .tier = tier, .dispatched_ns = at});
  Int128 sum = 0;
  for (int64_t line : all.lines) {
    Require(line >= 0);
    sum += line;
  }
  Require(sum == all.pico);
  LlmUsage text;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (kTextClasses & ClassBit(static_cast<LlmClass>(i))) text.units[i] = 50'000;
  }
  const LlmCharge charge = ChargeFor(prices, {.usage = text, .tier = tier, .dispatched_ns = at});
  const LlmReserve reserve = ReserveFor(prices, {.input_tokens = 200'000,
                                                 .output_tokens = 100'000,
                                                 .tiers = TierBit(tier),
                                                 .from_ns = at,
                                                 .to_ns = at + 3'600'000'000'000});
  // A row that begins later in the interval prices the reservation alone.
  if (reserve.state != ChargeState::kPriced || charge.state == ChargeState::kNotInForce) return;
  Require(charge.state == ChargeState::kPriced && charge.pico <= reserve.pico);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const PriceFile file{.name = "f", .text = std::string(reinterpret_cast<const char*>(data), size)};
  const auto table = PriceTable::Load({&file, 1});
  if (!table) {
    Require(table.error().code == Code::kInvalidArgument && table.error().detail.starts_with("f:"));
    return 0;
  }
  for (size_t i = 0; i < table->models() && i < 16; ++i) {
    const ModelPrices prices = table->ModelAt(i);
    Require(!prices.rows().empty());
    if (prices.model() != "*" && prices.provider() != "*") {
      Require(table->Find(prices.provider(), prices.model(), "").model() == prices.model());
    }
    for (const PriceRow& row : prices.rows()) {
      Require(ParsePriceRow(PriceRowText(row.id)) == row.id && row.id.line > 0);
      for (size_t tier = 0; tier < kPriceTiers; ++tier) {
        int64_t above = -2;
        for (const PriceRow::Step& step : prices.Steps(row, static_cast<PriceTier>(tier))) {
          Require(step.above > above);
          above = step.above;
          for (int64_t price : prices.Prices(step))
            Require(price >= kUnpriced && price <= 1'000'000'000'000'000);
        }
      }
    }
    for (int64_t at : kTimes) {
      for (size_t tier = 0; tier < kPriceTiers; ++tier) CheckModel(prices, static_cast<PriceTier>(tier), at);
    }
  }
  return 0;
}
