#include "pricing/charge.h"

#include <algorithm>

namespace gpulens::pricing {
namespace {

constexpr size_t kFirstUnitClass = static_cast<size_t>(LlmClass::kPages);
constexpr size_t kLastUnitClass = static_cast<size_t>(LlmClass::kQueries);
constexpr size_t kLastTokenClass = static_cast<size_t>(LlmClass::kOutputImage);

enum class ClassGroup : uint8_t { kTokens, kExtra, kUnits };

ClassGroup GroupOf(size_t of) noexcept {
  if (of <= kLastTokenClass) return ClassGroup::kTokens;
  return of >= kFirstUnitClass && of <= kLastUnitClass ? ClassGroup::kUnits : ClassGroup::kExtra;
}

// Whether a row of this unit sells the class.
bool Sells(PriceUnit unit, size_t of) noexcept {
  switch (GroupOf(of)) {
    case ClassGroup::kTokens: return unit == PriceUnit::kToken;
    case ClassGroup::kExtra: return true;
    case ClassGroup::kUnits: break;
  }
  switch (static_cast<LlmClass>(of)) {
    case LlmClass::kPages: return unit == PriceUnit::kPage;
    case LlmClass::kMilliseconds: return unit == PriceUnit::kSecond;
    case LlmClass::kCharacters: return unit == PriceUnit::kCharacter;
    case LlmClass::kImages: return unit == PriceUnit::kImage;
    case LlmClass::kQueries: return unit == PriceUnit::kQuery;
    default: return false;
  }
}

std::optional<int64_t> LinePico(size_t of, int64_t units, int64_t price) noexcept {
  if (static_cast<LlmClass>(of) == LlmClass::kMilliseconds) {
    if (units < 0) return std::nullopt;
    const Int128 pico = (Int128{units} * price + 500) / 1000;
    if (pico > INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(pico);
  }
  return PicoOf(units, price);
}

const PriceRow::Step& StepOf(std::span<const PriceRow::Step> steps, int64_t total_input) noexcept {
  size_t at = 0;
  while (at + 1 < steps.size() && total_input > steps[at + 1].above) ++at;
  return steps[at];
}

LlmCharge Failed(LlmCharge charge, ChargeState state) noexcept {
  charge.state = state;
  charge.lines = {};
  charge.prices = {};
  charge.pico = 0;
  return charge;
}

// Raises `dearest` to the price of a class. False: it has none.
bool Raise(const ClassPrices& prices, size_t of, int64_t& dearest) noexcept {
  if (prices[of] == kUnpriced) return false;
  dearest = std::max(dearest, prices[of]);
  return true;
}

// The bound at one step of input tokens.
LlmReserve ReserveAt(const PriceRow& row, const ClassPrices& prices, int64_t input, int64_t output,
                     const ReserveRequest& request) noexcept {
  LlmReserve reserve;
  const auto failed = [&](ChargeState state, size_t of) {
    reserve.state = state;
    reserve.unknown = static_cast<LlmClass>(of);
    return reserve;
  };
  int64_t dearest_in = 0, dearest_out = 0;
  if (row.unit == PriceUnit::kToken) {
    for (size_t of = 0; of <= kLastTokenClass; ++of) {
      if (!(request.classes & ClassBit(static_cast<LlmClass>(of)))) continue;
      const bool in = IsInput(static_cast<LlmClass>(of));
      if ((in ? input : output) == 0) continue;
      if (!Raise(prices, of, in ? dearest_in : dearest_out)) return failed(ChargeState::kClassUnknown, of);
    }
  }
  std::optional<int64_t> sum = PicoOf(input, dearest_in);
  const auto add = [&](std::optional<int64_t> pico) {
    sum = sum && pico ? AddPico(*sum, *pico) : std::nullopt;
  };
  add(PicoOf(output, dearest_out));
  for (size_t of = kLastTokenClass + 1; of < kLlmClasses; ++of) {
    const int64_t units = request.others.units[of];
    if (units == 0 || !Sells(row.unit, of)) continue;
    if (prices[of] == kUnpriced) return failed(ChargeState::kClassUnknown, of);
    add(LinePico(of, units, prices[of]));
  }
  if (!sum) return failed(ChargeState::kOutOfRange, 0);
  reserve.state = ChargeState::kPriced;
  reserve.pico = *sum;
  return reserve;
}

// The bound of one row.
LlmReserve ReserveIn(const ModelPrices& prices, const PriceRow& row, const ReserveRequest& request) noexcept {
  LlmReserve most;
  const auto failed = [&](ChargeState state) {
    most.state = state;
    return most;
  };
  int64_t input = 0, output = 0;
  if (row.unit == PriceUnit::kToken) {
    input = request.input_tokens.value_or(row.max_input);
    const bool out = (request.classes >> static_cast<unsigned>(LlmClass::kOutput)) != 0;
    if (request.output_tokens) {
      output = *request.output_tokens;
    } else if (out) {
      if (row.max_output < 0) return failed(ChargeState::kUnbounded);
      if (request.answers < 0 || __builtin_mul_overflow(row.max_output, request.answers, &output))
        return failed(ChargeState::kOutOfRange);
    }
    if (input < 0) return failed(request.input_tokens ? ChargeState::kOutOfRange : ChargeState::kUnbounded);
    if (output < 0) return failed(ChargeState::kOutOfRange);
  } else {
    // What the row sells must be among the bounds, or nothing limits it.
    bool bounded = false;
    for (size_t of = kFirstUnitClass; of <= kLastUnitClass; ++of)
      bounded = bounded || (Sells(row.unit, of) && request.others.units[of] > 0);
    if (!bounded) return failed(ChargeState::kUnbounded);
  }
  most.state = ChargeState::kPriced;
  for (size_t i = 0; i < kPriceTiers; ++i) {
    const auto tier = static_cast<PriceTier>(i);
    if (tier != PriceTier::kStandard && !(request.tiers & TierBit(tier))) continue;
    const auto steps = prices.Steps(row, tier);
    if (steps.empty()) {
      most.tier = tier;
      return failed(ChargeState::kTierUnknown);
    }
    for (const PriceRow::Step& step : steps) {
      if (step.above >= input && &step != &steps.front()) break;
      const LlmReserve reserve = ReserveAt(row, prices.Prices(step), input, output, request);
      if (reserve.state != ChargeState::kPriced) return reserve;
      most.pico = std::max(most.pico, reserve.pico);
    }
  }
  return most;
}

}  // namespace

std::string_view ChargeStateName(ChargeState state) noexcept {
  switch (state) {
    case ChargeState::kPriced: return "priced";
    case ChargeState::kModelUnknown: return "model_unknown";
    case ChargeState::kNotInForce: return "not_in_force";
    case ChargeState::kTierUnknown: return "tier_unknown";
    case ChargeState::kClassUnknown: return "class_unknown";
    case ChargeState::kUnbounded: return "unbounded";
    case ChargeState::kOutOfRange: return "out_of_range";
  }
  return "unknown";
}

LlmCharge ChargeFor(const ModelPrices& prices, const ChargeRequest& request) noexcept {
  LlmCharge charge;
  charge.tier = request.tier;
  if (!prices) return charge;
  const PriceRow* row = prices.RowAt(request.dispatched_ns);
  if (!row) return Failed(charge, ChargeState::kNotInForce);
  charge.row = row->id;
  const auto steps = prices.Steps(*row, request.tier);
  if (steps.empty()) return Failed(charge, ChargeState::kTierUnknown);

  Int128 input = 0;
  bool own = false;
  size_t foreign = kLlmClasses;  // the first class of another unit
  for (size_t of = 0; of < kLlmClasses; ++of) {
    const int64_t units = request.usage.units[of];
    if (units < 0) return Failed(charge, ChargeState::kOutOfRange);
    if (IsInput(static_cast<LlmClass>(of))) input += units;
    if (units == 0 || GroupOf(of) == ClassGroup::kExtra) continue;
    if (Sells(row->unit, of)) {
      own = true;
    } else {
      foreign = std::min(foreign, of);
    }
  }
  if (input > INT64_MAX) return Failed(charge, ChargeState::kOutOfRange);
  const PriceRow::Step& step = StepOf(steps, request.total_input.value_or(static_cast<int64_t>(input)));
  charge.above = step.above;
  const ClassPrices& of_class = prices.Prices(step);

  size_t unknown = own ? kLlmClasses : foreign;
  if (row->unit == PriceUnit::kUncounted)
    unknown = std::min(unknown, static_cast<size_t>(LlmClass::kRequests));
  for (size_t of = 0; of < kLlmClasses; ++of) {
    const int64_t units = request.usage.units[of];
    if (units == 0 || !Sells(row->unit, of)) continue;
    if (of_class[of] == kUnpriced) {
      unknown = std::min(unknown, of);
      continue;
    }
    const auto line = LinePico(of, units, of_class[of]);
    const auto sum = line ? AddPico(charge.pico, *line) : std::nullopt;
    if (!sum) return Failed(charge, ChargeState::kOutOfRange);
    charge.lines[of] = *line;
    charge.prices[of] = of_class[of];
    charge.pico = *sum;
  }
  charge.state = ChargeState::kPriced;
  if (unknown != kLlmClasses) {
    charge.state = ChargeState::kClassUnknown;
    charge.unknown = static_cast<LlmClass>(unknown);
  }
  return charge;
}

LlmReserve ReserveFor(const ModelPrices& prices, const ReserveRequest& request) noexcept {
  LlmReserve most;
  if (!prices) return most;
  most.state = ChargeState::kNotInForce;
  for (const PriceRow& row : prices.rows()) {
    if (!row.InForceWithin(request.from_ns, request.to_ns)) continue;
    const LlmReserve reserve = ReserveIn(prices, row, request);
    if (reserve.state != ChargeState::kPriced) return reserve;
    most.state = ChargeState::kPriced;
    most.pico = std::max(most.pico, reserve.pico);
    // Rows below count at no moment of the interval.
    if (row.InForceThroughout(request.from_ns, request.to_ns)) break;
  }
  return most;
}

std::string_view ProfileName(Profile profile) noexcept {
  switch (profile) {
    case Profile::kManaged: return "managed";
    case Profile::kByok: return "byok";
    case Profile::kSubscription: return "subscription";
    case Profile::kByoc: return "byoc";
  }
  return "unknown";
}

std::optional<int64_t> ChargedPico(const ProfileTerms& terms, std::optional<int64_t> list_pico,
                                   int64_t ledger_pico) noexcept {
  switch (terms.profile) {
    case Profile::kManaged: return list_pico;
    case Profile::kSubscription: return 0;
    case Profile::kByoc: return ledger_pico;
    case Profile::kByok: break;
  }
  if (terms.fee_share.numerator == 0) return terms.fee_pico;
  if (!list_pico) return std::nullopt;
  const auto share = Scaled(*list_pico, terms.fee_share);
  return share ? AddPico(*share, terms.fee_pico) : std::nullopt;
}

}  // namespace gpulens::pricing
