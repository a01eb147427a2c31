// List prices of LLM APIs that are compiled in: list_prices.tsv.
#pragma once

#include <string>
#include <string_view>

namespace gpulens::pricing {

// The day of the prices.
inline constexpr std::string_view kListPricesDay = "2026-11-23";

// The file, in the format of price_table.h. Unpacked at each call.
std::string ListPrices();

}  // namespace gpulens::pricing
