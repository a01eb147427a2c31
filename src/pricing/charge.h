// What a request is charged: usage x prices, in picodollars. Pure, noexcept, without allocation.
//
// WHAT A CLASS WITHOUT A PRICE OF ITS OWN COSTS. Price files leave most classes out, and each rule here is a
// possible mistake in money, so each has its reason. It is applied once, when the table is loaded.
//   input_cached        as input: a provider that lists no discount gives none.
//   input_write_5m      as input: without a listed surcharge a written token is a token that was read.
//   input_write_long    as input, but unknown where the row has a price for short writes: a surcharge exists,
//                       and the one for an hour is the larger one (Anthropic: 2 instead of 1.25 times input).
//   input_image, input_video, input_tool
//                       as input: providers that sell them otherwise list it (Gemini's Live API, gpt-image).
//   input_audio         as input (Gemini 2.5 Pro), but unknown in the modes realtime and audio_…, and where
//                       the row sells audio output: there audio is another product, at up to 67 times the
//                       price of text.
//   input_audio_cached  as input_audio where that has a price of its own, else as input_cached.
//   output_reasoning    as output.
//   output              in the mode image_generation as output_image: such a model gives nothing else. Else
//                       unknown.
//   output_audio        in the mode audio_speech as output, for the same reason. Else unknown.
//   output_image        unknown: it is 3 to 20 times as dear as text.
//   web_searches        unknown: providers that search charge for it.
//   web_fetches, requests  free: the only provider that counts fetches charges them as tokens alone, and most
//                       providers have no price of a request.
// A row sells one unit. Units of others (the tokens of a rerank that is sold by query) are not charged when
// the usage has units of the row's own; when it has none, the price is unknown and not 0.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "pricing/money.h"
#include "pricing/price_table.h"
#include "wire/llm/llm_usage.h"

namespace gpulens::pricing {

enum class ChargeState : uint8_t {
  kPriced,
  kModelUnknown,  // no row of that name
  kNotInForce,    // rows, but none at that time
  kTierUnknown,   // the row does not sell the tier
  kClassUnknown,  // a class that was used has no price
  kUnbounded,     // of a reservation: what the request may use has no bound
  kOutOfRange,    // a negative number of units, or an amount above 9.2 million USD
};
// "priced", "model_unknown", …
std::string_view ChargeStateName(ChargeState state) noexcept;
// The states that the policy `unknown_price` decides.
constexpr bool IsPriceUnknown(ChargeState state) noexcept {
  return state >= ChargeState::kModelUnknown && state <= ChargeState::kClassUnknown;
}

struct ChargeRequest {
  LlmUsage usage{};
  PriceTier tier = PriceTier::kStandard;  // that was served, not the one in the request
  int64_t dispatched_ns = 0;              // Unix time
  // Decides whether the request is a long one. None: the sum of the usage's input classes.
  std::optional<int64_t> total_input = std::nullopt;
};

struct LlmCharge {
  ChargeState state = ChargeState::kModelUnknown;
  // For kClassUnknown: the first such class.
  LlmClass unknown = LlmClass::kInput;
  PriceRowId row;  // also where the tier or a class is unknown
  PriceTier tier = PriceTier::kStandard;
  // The input tokens that the prices are for more than; -1: prices of a short request.
  int64_t above = -1;
  // Their sum is `pico`. For kClassUnknown these are the known ones, so `pico` is at least what is due; for
  // all other failures they are 0.
  std::array<int64_t, kLlmClasses> lines{};
  int64_t pico = 0;
  // The prices that were used. 0 for a class that was not charged.
  std::array<int64_t, kLlmClasses> prices{};
};

// Exact, but for audio by the millisecond: one line is rounded half up to a picodollar, at most 0.5 x 10^-12
// USD off, since 1 ms of a price of 833,333,333 for a million seconds is no whole number. Whole seconds are
// exact.
LlmCharge ChargeFor(const ModelPrices& prices, const ChargeRequest& request) noexcept;

// Sets of classes, for reservations.
using ClassSet = uint32_t;
constexpr ClassSet ClassBit(LlmClass of) noexcept { return ClassSet{1} << static_cast<unsigned>(of); }
// Text in and out, with a prompt cache of the provider's short time and its tools.
inline constexpr ClassSet kTextClasses = ClassBit(LlmClass::kInput) | ClassBit(LlmClass::kInputCached) |
                                         ClassBit(LlmClass::kInputWrite5m) | ClassBit(LlmClass::kInputTool) |
                                         ClassBit(LlmClass::kOutput) | ClassBit(LlmClass::kOutputReasoning);

struct ReserveRequest {
  // Most input tokens: the UTF-8 bytes of the text. None: not known, as with images and audio; then the
  // model's max_input counts.
  std::optional<int64_t> input_tokens = std::nullopt;
  // Most output tokens of all answers together: n x max_tokens. None: n x the model's max_output.
  std::optional<int64_t> output_tokens = std::nullopt;
  int64_t answers = 1;  // n
  // What the tokens may be. The dearest counts for all of them.
  ClassSet classes = kTextClasses;
  // Tiers that may be served; bit of PriceTier. The standard one is always among them.
  uint8_t tiers = 1;
  // Most units of classes that are not tokens. Tokens in it are not read.
  LlmUsage others{};
  // The request is dispatched at some time of this interval.
  int64_t from_ns = 0, to_ns = 0;
};
constexpr uint8_t TierBit(PriceTier tier) noexcept {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(tier));
}

struct LlmReserve {
  ChargeState state = ChargeState::kModelUnknown;
  LlmClass unknown = LlmClass::kInput;    // for kClassUnknown
  PriceTier tier = PriceTier::kStandard;  // for kTierUnknown
  int64_t pico = 0;
};

// An upper bound of ChargeFor for every usage, tier and time within the request, whatever step of input
// tokens it reaches, provided that the answer names the same model: the hard reservation. The soft one is
// ChargeFor of an estimated usage.
LlmReserve ReserveFor(const ModelPrices& prices, const ReserveRequest& request) noexcept;

// Whose key pays the provider.
enum class Profile : uint8_t {
  kManaged,       // ours: the list price is charged
  kByok,          // the user's own key: nothing, or a fee
  kSubscription,  // the user's flat rate: nothing
  kByoc,          // the user's own machines: nothing, or the share of the ledger of GPUs
};
// "managed", "byok", "subscription", "byoc".
std::string_view ProfileName(Profile profile) noexcept;

struct ProfileTerms {
  Profile profile = Profile::kManaged;
  // Of kByok: for each request, and as a part of the list price.
  int64_t fee_pico = 0;
  Ratio fee_share{0, 1};
};
// What is charged for a request whose list price is `list_pico` (none: unknown). `ledger_pico` is for kByoc:
// the GPU ledger's share, 0 where machines are not charged. None: unknown, since it depends on an unknown
// list price, or it does not fit.
std::optional<int64_t> ChargedPico(const ProfileTerms& terms, std::optional<int64_t> list_pico,
                                   int64_t ledger_pico = 0) noexcept;

}  // namespace gpulens::pricing
