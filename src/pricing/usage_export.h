// What a provider has counted and billed: the files that OpenAI and Anthropic export, and tables of
// others, read into rows. Pure.
//
// FORMATS, known by what is in them:
//   JSON of OpenAI's /v1/organization/usage/completions and …/embeddings, and of /v1/organization/costs;
//   JSON of Anthropic's /v1/organizations/usage_report/messages, and of /v1/organizations/cost_report;
//   each as one page, or as an array of pages.
//   Tables (CSV with commas or semicolons, or tabs) with the columns of OpenAI's dashboard, of Anthropic's
//   console, or with plain names (`Date,Model,Input tokens,Cost USD`). Names of columns are
//   compared without case; blanks, points and hyphens are as underscores. `columns` names others.
// All input tokens are in kInput, those of the cache too, whatever the file includes.
// Amounts are in USD, Anthropic's reports in cents. They may have more than 12 decimals, since some programs
// that write them add doubles: such an amount is rounded half to even to a picodollar, and counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "pricing/money.h"

namespace gpulens::pricing {

enum class UsageMeasure : uint8_t {
  kRequests,
  kInput,           // tokens, of the cache too
  kCached,          // of these: read from the cache
  kCacheWrite,      // of these: written to it for the provider's short time
  kCacheWriteLong,  // of these: written for an hour or more
  kOutput,          // tokens, reasoning too
  kWebSearches,
  kPico,  // picodollars
};
inline constexpr size_t kUsageMeasures = 8;
// "requests", "input", "cached", "cache_write", "cache_write_long", "output", "web_searches", "usd".
std::string_view UsageMeasureName(UsageMeasure measure) noexcept;

struct UsageAmounts {
  std::array<Int128, kUsageMeasures> amounts{};
  uint8_t known = 0;  // bit of UsageMeasure; others are 0

  bool Knows(UsageMeasure measure) const noexcept {
    return (known >> static_cast<unsigned>(measure) & 1) != 0;
  }
  void Add(UsageMeasure measure, Int128 amount) noexcept {
    amounts[static_cast<size_t>(measure)] += amount;
    known = static_cast<uint8_t>(known | 1u << static_cast<unsigned>(measure));
  }
  Int128 operator[](UsageMeasure measure) const noexcept { return amounts[static_cast<size_t>(measure)]; }
  bool operator==(const UsageAmounts&) const = default;
};

struct UsageRow {
  int64_t begin_s = 0, end_s = 0;  // Unix time; equal: one request, or a moment
  std::string provider;            // of a table with such a column
  std::string model, tier;         // empty: the file has none
  UsageAmounts amounts;

  bool operator==(const UsageRow&) const = default;
};

struct UsageExport {
  std::string_view format;    // "OpenAI usage", "table", …; static storage
  std::string_view provider;  // "openai", "anthropic"; empty for a table
  std::vector<UsageRow> rows;
  int64_t begin_s = 0, end_s = 0;  // what its buckets cover, empty ones too
  uint8_t known = 0;               // measures that some row has
  bool whole = true;               // false: the last of its pages names a further one
  size_t rounded = 0;              // amounts with more than 12 decimals
};

struct UsageExportOptions {
  std::string name = "the file";  // for messages
  // "date=usage_start_time,usd=cost,model=-": what the columns of a table are named; "-": not to be read.
  // Left sides: date, end, provider, model, tier, requests, input, uncached, cached, cache_write,
  // cache_write_long, output, web_searches, usd, cents, currency.
  std::string columns = {};
  int64_t zone_s = 0;  // of dates and times without one: seconds east of UTC
};

inline constexpr size_t kMostUsageBytes = size_t{64} << 20, kMostUsageRows = 500'000;

// kInvalidArgument: not such a file, or a value that cannot be; "usage.csv:12: …" or "usage.json: byte 99:
// …". kExhausted: larger than the limits.
Result<UsageExport> ReadUsageExport(std::string_view text, const UsageExportOptions& options);

// The name of a tier as prices have it: "default", "auto" and "" are "standard"; unknown ones stay.
std::string UsageTier(std::string_view name);
// A name of a model as far as files agree on it: in lower case, hyphens for blanks, points and underscores,
// without a date at its end ("Claude Haiku 4.5" and "claude-haiku-4-5-20251001" are "claude-haiku-4-5").
std::string UsageModelStem(std::string_view name);
// Seconds east of UTC of "Z", "UTC" or "+02:00", at most 14 hours. False for another text.
bool ParseZone(std::string_view text, int64_t& zone_s) noexcept;

}  // namespace gpulens::pricing
