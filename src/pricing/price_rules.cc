// How the prices of a row follow from what its file lists: price_table.h has the rules of tiers and long
// requests, charge.h those of classes.
#include <algorithm>
#include <utility>

#include "pricing/price_table_impl.h"

namespace gpulens::pricing::price_table_internal {
namespace {

// A price before it is rounded. Not known, or a fraction of positive terms.
struct Price {
  bool known = false;
  Int128 numerator = 0, denominator = 1;
};

Int128 CommonDivisor(Int128 a, Int128 b) noexcept {
  while (b != 0) a = std::exchange(b, a % b);
  return a;
}

Price WholePrice(int64_t value) noexcept {
  return value == kUnpriced ? Price{} : Price{.known = true, .numerator = value, .denominator = 1};
}

// a x (numerator / denominator), unknown if one of them is; sets `overflow` where the terms do not fit.
Price Times(Price a, Price numerator, Price denominator, bool& overflow) noexcept {
  if (!a.known || !numerator.known || !denominator.known || denominator.numerator == 0) return {};
  Price product = {.known = true, .numerator = 1, .denominator = 1};
  for (Int128 factor : {a.numerator, numerator.numerator, denominator.denominator}) {
    const Int128 common = CommonDivisor(product.denominator, factor);
    if (common > 1) product.denominator /= common, factor /= common;
    overflow = __builtin_mul_overflow(product.numerator, factor, &product.numerator) || overflow;
    if (overflow) return {};
  }
  for (Int128 factor : {a.denominator, numerator.denominator, denominator.numerator}) {
    const Int128 common = CommonDivisor(product.numerator, factor);
    if (common > 1) product.numerator /= common, factor /= common;
    overflow = __builtin_mul_overflow(product.denominator, factor, &product.denominator) || overflow;
    if (overflow) return {};
  }
  return product;
}

Price RatioPrice(Ratio ratio) noexcept {
  return {.known = true, .numerator = ratio.numerator, .denominator = ratio.denominator};
}

using PriceList = std::array<Price, kLlmClasses>;

LlmClass DirectionOf(LlmClass of) noexcept { return IsOutput(of) ? LlmClass::kOutput : LlmClass::kInput; }
bool IsExtra(LlmClass of) noexcept {
  return of == LlmClass::kWebSearches || of == LlmClass::kWebFetches || of == LlmClass::kRequests;
}
Price& At(PriceList& list, LlmClass of) noexcept { return list[static_cast<size_t>(of)]; }
const Price& At(const PriceList& list, LlmClass of) noexcept { return list[static_cast<size_t>(of)]; }

PriceList ListOf(const ClassPrices& listed) noexcept {
  PriceList list;
  for (size_t i = 0; i < kLlmClasses; ++i) list[i] = WholePrice(listed[i]);
  return list;
}

// `own` with what it lacks: the prices of `base` x `multiplier`, or x how `own` changes the direction's
// price.
PriceList Derived(const PriceList& own, const PriceList& base, const std::optional<Ratio>& multiplier,
                  bool& overflow) noexcept {
  PriceList list = own;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    const auto of = static_cast<LlmClass>(i);
    if (list[i].known || !base[i].known) continue;
    if (IsExtra(of) || base[i].numerator == 0) {
      list[i] = base[i];
    } else if (multiplier) {
      list[i] = Times(base[i], RatioPrice(*multiplier), WholePrice(1), overflow);
    } else {
      const LlmClass direction = DirectionOf(of);
      if (of != direction) list[i] = Times(base[i], At(own, direction), At(base, direction), overflow);
    }
  }
  return list;
}

// `tier` at another step: each price changes as the standard one does.
PriceList AtStep(const PriceList& tier, const PriceList& standard, const PriceList& standard_at_step,
                 bool& overflow) noexcept {
  PriceList list;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (IsExtra(static_cast<LlmClass>(i)) || (tier[i].known && tier[i].numerator == 0)) {
      list[i] = tier[i];
    } else {
      list[i] = Times(tier[i], standard_at_step[i], standard[i], overflow);
    }
  }
  return list;
}

// The rules of charge.h for classes without a price. `listed`: the standard prices of the row.
void FillClasses(PriceList& list, const PriceList& listed, std::string_view mode) noexcept {
  const auto use = [&](LlmClass of, LlmClass other) {
    if (!At(list, of).known) At(list, of) = At(list, other);
  };
  const bool audio_is_text =
      mode != "realtime" && !mode.starts_with("audio_") && !At(listed, LlmClass::kOutputAudio).known;
  const bool own_audio = At(list, LlmClass::kInputAudio).known;
  use(LlmClass::kInputCached, LlmClass::kInput);
  if (!At(listed, LlmClass::kInputWrite5m).known) use(LlmClass::kInputWriteLong, LlmClass::kInput);
  use(LlmClass::kInputWrite5m, LlmClass::kInput);
  use(LlmClass::kInputImage, LlmClass::kInput);
  use(LlmClass::kInputVideo, LlmClass::kInput);
  use(LlmClass::kInputTool, LlmClass::kInput);
  if (audio_is_text) use(LlmClass::kInputAudio, LlmClass::kInput);
  if (own_audio) use(LlmClass::kInputAudioCached, LlmClass::kInputAudio);
  if (audio_is_text) use(LlmClass::kInputAudioCached, LlmClass::kInputCached);
  if (mode == "image_generation") use(LlmClass::kOutput, LlmClass::kOutputImage);
  use(LlmClass::kOutputReasoning, LlmClass::kOutput);
  if (mode == "audio_speech") use(LlmClass::kOutputAudio, LlmClass::kOutput);
  for (LlmClass free : {LlmClass::kWebFetches, LlmClass::kRequests}) {
    if (!At(list, free).known) At(list, free) = WholePrice(0);
  }
}

std::optional<LlmClass> UnitClass(PriceUnit unit) noexcept {
  switch (unit) {
    case PriceUnit::kSecond: return LlmClass::kMilliseconds;
    case PriceUnit::kCharacter: return LlmClass::kCharacters;
    case PriceUnit::kImage: return LlmClass::kImages;
    case PriceUnit::kPage: return LlmClass::kPages;
    case PriceUnit::kQuery: return LlmClass::kQueries;
    case PriceUnit::kToken:
    case PriceUnit::kUncounted: break;
  }
  return std::nullopt;
}

// For a unit that is no token, `input` or `output` is the price of the unit.
void FillUnit(PriceList& list, PriceUnit unit) noexcept {
  const Price in = At(list, LlmClass::kInput), out = At(list, LlmClass::kOutput);
  const auto charges = [](const Price& price) { return price.known && price.numerator != 0; };
  Price price = in.known ? in : out;
  if (charges(out)) {
    price = out;
    if (charges(in) && (in.numerator != out.numerator || in.denominator != out.denominator)) price = {};
  }
  for (size_t i = 0; i < kLlmClasses; ++i) {
    if (!IsExtra(static_cast<LlmClass>(i))) list[i] = {};
  }
  if (const auto of = UnitClass(unit)) At(list, *of) = price;
  for (LlmClass free : {LlmClass::kWebFetches, LlmClass::kRequests}) {
    if (!At(list, free).known) At(list, free) = WholePrice(0);
  }
}

std::optional<ClassPrices> Rounded(const PriceList& list, const std::optional<Ratio>& multiplier) noexcept {
  ClassPrices prices;
  for (size_t i = 0; i < kLlmClasses; ++i) {
    prices[i] = kUnpriced;
    Price price = list[i];
    if (!price.known) continue;
    bool overflow = false;
    if (multiplier) price = Times(price, RatioPrice(*multiplier), WholePrice(1), overflow);
    if (overflow || price.numerator / price.denominator > kMostPrice) return std::nullopt;
    Int128 whole = price.numerator / price.denominator;
    const Int128 rest = price.numerator % price.denominator;
    if (rest >= price.denominator - rest) ++whole;
    prices[i] = static_cast<int64_t>(whole);
  }
  return prices;
}

// The lists of a tier at each step, before rounding.
std::vector<PriceList> ListsOf(const ListedPrices& listed, size_t tier, bool& overflow) {
  const auto with_step = [](ClassPrices prices, const ListedPrices::Step& step) {
    prices[static_cast<size_t>(LlmClass::kInput)] = step.input;
    prices[static_cast<size_t>(LlmClass::kOutput)] = step.output;
    prices[static_cast<size_t>(LlmClass::kInputCached)] = step.cached_input;
    return prices;
  };
  const auto& steps = listed.tiers;
  std::vector<PriceList> standard = {
      ListOf(steps.empty() ? listed.sets[0] : with_step(listed.sets[0], steps.front()))};
  if (listed.long_above) {
    standard.push_back(
        Derived(ListOf(listed.sets[kLongSet]), standard[0], listed.multipliers[kLongSet], overflow));
  }
  ClassPrices none;
  none.fill(kUnpriced);
  for (size_t i = 1; i < steps.size(); ++i)
    standard.push_back(Derived(ListOf(with_step(none, steps[i])), standard[0], std::nullopt, overflow));
  if (tier == 0) return standard;
  std::vector<PriceList> lists = {
      Derived(ListOf(listed.sets[tier]), standard[0], listed.multipliers[tier], overflow)};
  for (size_t i = 1; i < standard.size(); ++i)
    lists.push_back(AtStep(lists[0], standard[0], standard[i], overflow));
  return lists;
}

}  // namespace

std::optional<std::vector<PriceStep>> StepsOf(const ListedPrices& listed, PriceTier tier) {
  const auto set = static_cast<size_t>(tier);
  const bool sold = tier == PriceTier::kStandard || listed.multipliers[set].has_value() ||
                    std::any_of(listed.sets[set].begin(), listed.sets[set].end(),
                                [](int64_t price) { return price != kUnpriced; });
  std::vector<PriceStep> steps;
  if (!sold) return steps;
  bool overflow = false;
  std::vector<PriceList> lists = ListsOf(listed, set, overflow);
  const PriceList standard = ListOf(listed.sets[0]);
  for (size_t i = 0; i < lists.size(); ++i) {
    if (listed.unit == PriceUnit::kToken) {
      FillClasses(lists[i], standard, listed.mode);
    } else {
      FillUnit(lists[i], listed.unit);
    }
    const auto prices = overflow ? std::nullopt : Rounded(lists[i], listed.multipliers[0]);
    if (!prices) return std::nullopt;
    int64_t above = -1;
    if (i > 0) above = listed.tiers.empty() ? *listed.long_above : listed.tiers[i].from;
    steps.push_back({.above = above, .prices = *prices});
  }
  return steps;
}

}  // namespace gpulens::pricing::price_table_internal
