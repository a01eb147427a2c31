// Random price rows and usages. What is charged is compared with sums computed here again.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pricing/pricing_testing.h"

namespace gpulens::pricing {
namespace {

// Rows of one model, with what a file may have on tokens.
PriceTable RandomTable(std::mt19937_64& random) {
  const auto below = [&](uint64_t end) { return random() % end; };
  const auto price = [&](uint64_t chance) {
    return below(chance) == 0 ? std::string("-") : std::to_string(below(50'000'000));
  };
  std::string text =
      "provider\tmodel\tmode\tinput\tcached_input\tcache_write\tcache_write_long\taudio_input\toutput\t"
      "reasoning_output\tweb_search\trequest\tlong_above\tlong_input\tlong_output\tlong_cached_input\tbatch_"
      "input\t"
      "batch_output\tpriority_multiplier\tmultiplier\tmax_input\tmax_output\thours\n";
  for (const char* hours : {"-", "13:00-14:00"}) {
    text += "p\ta\t" + std::string(below(4) ? "chat" : "realtime");
    text += "\t" + std::to_string(1 + below(50'000'000));
    for (int i = 0; i < 4; ++i) text += "\t" + price(2);
    text += "\t" + std::to_string(1 + below(90'000'000));
    text += "\t" + price(2) + "\t" + price(3) + "\t" + price(3);
    if (below(2)) {
      text += "\t" + std::to_string(below(3000)) + "\t" + std::to_string(1 + below(99'000'000)) + "\t" +
              std::to_string(1 + below(99'000'000)) + "\t" + price(2);
    } else {
      text += "\t-\t-\t-\t-";
    }
    text += "\t" + price(3) + "\t" + price(3) + "\t" + (below(3) ? "7/4" : "-") + "\t" +
            (below(2) ? "11/10" : "-");
    text += "\t4000\t4000\t" + std::string(hours) + "\n";
  }
  return TableOf({{.name = "f", .text = text}});
}

LlmUsage RandomUsage(std::mt19937_64& random, int64_t most) {
  LlmUsage usage;
  for (size_t of = 0; of < kLlmClasses; ++of) {
    if (random() % 3 == 0) usage.units[of] = static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  }
  return usage;
}

// Text classes alone: these have prices in every row.
LlmUsage TextUsage(std::mt19937_64& random, int64_t most) {
  LlmUsage usage = RandomUsage(random, most);
  for (size_t of = 0; of < kLlmClasses; ++of) {
    if (!(kTextClasses & ClassBit(static_cast<LlmClass>(of)))) usage.units[of] = 0;
  }
  return usage;
}

constexpr PriceTier kTiers[] = {PriceTier::kStandard, PriceTier::kBatch, PriceTier::kFlex,
                                PriceTier::kPriority, PriceTier::kFast};

RC_GTEST_PROP(ChargeProperty, LinesAddUpAndAreUnitsTimesPrices, (uint32_t seed)) {
  std::mt19937_64 random(seed);
  const PriceTable table = RandomTable(random);
  for (PriceTier tier : kTiers) {
    const ChargeRequest request{.usage = RandomUsage(random, 2000), .tier = tier, .dispatched_ns = kNoon};
    const LlmCharge charge = ChargeFor(table.Find("p", "a", ""), request);
    Int128 sum = 0;
    for (size_t of = 0; of < kLlmClasses; ++of) {
      sum += charge.lines[of];
      RC_ASSERT(charge.lines[of] == request.usage.units[of] * charge.prices[of]);
    }
    RC_ASSERT(sum == charge.pico);
  }
}

RC_GTEST_PROP(ChargeProperty, ClassesArePricedApartFromEachOther, (uint32_t seed)) {
  std::mt19937_64 random(seed);
  const PriceTable table = RandomTable(random);
  const ModelPrices prices = table.Find("p", "a", "");
  ChargeRequest whole{.usage = TextUsage(random, 2000), .dispatched_ns = kNoon};
  const LlmCharge charge = ChargeFor(prices, whole);
  RC_ASSERT(charge.state == ChargeState::kPriced);
  // Each class alone, in any order, at the same total input.
  int64_t input = 0;
  std::vector<size_t> order;
  for (size_t of = 0; of < kLlmClasses; ++of) {
    if (IsInput(static_cast<LlmClass>(of))) input += whole.usage.units[of];
    order.push_back(of);
  }
  std::shuffle(order.begin(), order.end(), random);
  PicoSum sum;
  for (size_t of : order) {
    ChargeRequest one{.usage = {}, .dispatched_ns = kNoon, .total_input = input};
    one.usage.units[of] = whole.usage.units[of];
    sum.Add(ChargeFor(prices, one).pico);
  }
  RC_ASSERT(sum.pico() == charge.pico);
}

RC_GTEST_PROP(ChargeProperty, TheOrderOfRequestsChangesNoSum, (uint32_t seed)) {
  std::mt19937_64 random(seed);
  const PriceTable table = RandomTable(random);
  const ModelPrices prices = table.Find("p", "a", "");
  std::vector<int64_t> charges;
  for (int i = 0; i < 50; ++i) {
    charges.push_back(
        ChargeFor(prices, {.usage = TextUsage(random, 2000),
                           .dispatched_ns = kNoon + static_cast<int64_t>(random() % 3) * kHourNs})
            .pico);
  }
  const auto sum_of = [&] {
    PicoSum sum;
    for (int64_t pico : charges) sum.Add(pico);
    return sum;
  };
  const PicoSum sum = sum_of();
  std::shuffle(charges.begin(), charges.end(), random);
  RC_ASSERT(sum_of() == sum);
}

// More units never cost less while the step of input tokens is the same.
RC_GTEST_PROP(ChargeProperty, MoreUnitsNeverCostLess, (uint32_t seed)) {
  std::mt19937_64 random(seed);
  const PriceTable table = RandomTable(random);
  const ModelPrices prices = table.Find("p", "a", "");
  ChargeRequest request{.usage = TextUsage(random, 2000), .dispatched_ns = kNoon};
  const LlmCharge before = ChargeFor(prices, request);
  for (size_t of = 0; of < kLlmClasses; ++of) {
    if (kTextClasses & ClassBit(static_cast<LlmClass>(of)))
      request.usage.units[of] += static_cast<int64_t>(random() % 1000);
  }
  const LlmCharge after = ChargeFor(prices, request);
  RC_ASSERT(after.state == ChargeState::kPriced);
  if (after.above == before.above) RC_ASSERT(after.pico >= before.pico);
}

RC_GTEST_PROP(ReserveProperty, NoChargeWithinTheBoundsIsAboveTheReserve, (uint32_t seed)) {
  std::mt19937_64 random(seed);
  const PriceTable table = RandomTable(random);
  const ModelPrices prices = table.Find("p", "a", "");
  ReserveRequest request;
  request.input_tokens = static_cast<int64_t>(random() % 4000);
  request.output_tokens = static_cast<int64_t>(random() % 4000);
  request.from_ns = kNoon + static_cast<int64_t>(random() % 180) * kHourNs / 60;
  request.to_ns = request.from_ns + static_cast<int64_t>(random() % 60) * kHourNs / 60;
  for (PriceTier tier : kTiers) {
    request.tiers = TierBit(tier);
    const LlmReserve reserve = ReserveFor(prices, request);
    for (int i = 0; i < 20; ++i) {
      LlmUsage usage;
      int64_t input = *request.input_tokens, output = *request.output_tokens;
      for (size_t of = 0; of < kLlmClasses; ++of) {
        if (!(kTextClasses & ClassBit(static_cast<LlmClass>(of)))) continue;
        int64_t& left = IsInput(static_cast<LlmClass>(of)) ? input : output;
        usage.units[of] = static_cast<int64_t>(random() % static_cast<uint64_t>(left + 1));
        left -= usage.units[of];
      }
      const int64_t span = request.to_ns - request.from_ns + 1;
      const LlmCharge charge = ChargeFor(
          prices,
          {.usage = usage,
           .tier = random() % 2 ? tier : PriceTier::kStandard,
           .dispatched_ns = request.from_ns + static_cast<int64_t>(random() % static_cast<uint64_t>(span))});
      if (reserve.state != ChargeState::kPriced) continue;
      RC_ASSERT(charge.state == ChargeState::kPriced);
      RC_ASSERT(charge.pico <= reserve.pico);
    }
  }
}

}  // namespace
}  // namespace gpulens::pricing
