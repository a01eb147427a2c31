// What tests, benchmarks and fuzzers of prices share.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/files.h"
#include "pricing/charge.h"
#include "pricing/price_table.h"

namespace gpulens::pricing {

// 2026-11-23 12:00:00 UTC, a Monday.
inline constexpr int64_t kNoon = 1'795'435'200'000'000'000;
inline constexpr int64_t kHourNs = 3'600'000'000'000;

inline PriceTable TableOf(std::initializer_list<PriceFile> files) {
  auto table = PriceTable::Load({files.begin(), files.size()});
  EXPECT_TRUE(table.ok()) << (table.ok() ? "" : table.error().detail);
  return table ? *table : PriceTable();
}

// The file that the golden charges need.
inline PriceTable GoldenTable() {
  auto text = ReadFile(GPULENS_SOURCE_DIR "/src/pricing/testdata/golden_prices.tsv");
  EXPECT_TRUE(text.ok());
  return text ? TableOf({{.name = "golden_prices.tsv", .text = *text}}) : PriceTable();
}

// Cells divided by blanks, rows by newlines.
inline std::string Tsv(std::string text) {
  std::string out;
  bool blank = false;
  for (char c : text) {
    if (c == ' ') {
      blank = true;
      continue;
    }
    if (blank && !out.empty() && out.back() != '\n') out += '\t';
    blank = false;
    out += c;
  }
  return out;
}

inline LlmUsage UsageOf(std::initializer_list<std::pair<LlmClass, int64_t>> units) {
  LlmUsage usage;
  for (const auto& [of, count] : units) usage[of] = count;
  return usage;
}

}  // namespace gpulens::pricing
