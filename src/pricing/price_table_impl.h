// Inside of the price table: its memory, and how the prices of a row follow from what its file lists. For the
// sources of this folder alone.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "pricing/money.h"
#include "pricing/price_table.h"

namespace gpulens::pricing::price_table_internal {

struct Model {
  std::string provider, name;
  uint32_t first = 0, count = 0;  // of `rows`
};

struct Tables {
  std::vector<Model> models;  // sorted by provider and name
  std::vector<PriceRow> rows;
  std::vector<PriceRow::Step> steps;
  std::vector<ClassPrices> prices;  // each once
  std::vector<uint32_t> slots;      // a hash table with a size of a power of two: 1 + index of a model, or 0
  std::vector<PriceTable::Source> sources;
};

inline constexpr size_t kMostNameBytes = 200;
inline constexpr int64_t kMostPrice = 1'000'000'000'000'000;
inline constexpr int64_t kMinutesPerDay = 1440;
inline constexpr uint8_t kEveryDay = 0x7f;
inline constexpr std::string_view kAnyName = "*";

inline uint64_t NameHash(std::string_view provider, std::string_view model) noexcept {
  const HashKey& key = ProcessHashKey();
  return HashBytes(model, HashBytes(provider, 0, key), key);
}

// Sets of listed prices: those of each tier, then those of long requests.
inline constexpr size_t kLongSet = kPriceTiers;
inline constexpr size_t kPriceSets = kPriceTiers + 1;

// The prices of a row as its file lists them.
struct ListedPrices {
  std::string mode;
  PriceUnit unit = PriceUnit::kToken;
  std::array<ClassPrices, kPriceSets> sets{};
  std::array<std::optional<Ratio>, kPriceSets> multipliers;
  std::optional<int64_t> long_above;
  struct Step {
    int64_t from = 0;
    int64_t input = kUnpriced, output = kUnpriced, cached_input = kUnpriced;
  };
  std::vector<Step> tiers;  // of the column of this name; ascending, the first from 0
};

struct PriceStep {
  int64_t above = -1;
  ClassPrices prices{};
};

// The prices of a tier, ascending by `above`; empty: the row does not sell it. None: a price, or what leads
// to it, is too large.
std::optional<std::vector<PriceStep>> StepsOf(const ListedPrices& listed, PriceTier tier);

}  // namespace gpulens::pricing::price_table_internal
