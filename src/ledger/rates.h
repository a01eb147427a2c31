// Prices and carbon intensities in force, from texts of the configuration and of files. Pure: the caller
// reads the files. All numbers are decimal texts that are read exactly, without binary fractions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "ledger/ledger.h"

namespace gpulens::ledger {

// A decimal text x 10^`decimals` as an integer: ParseDecimal("6.88", 12) is 6,880,000,000,000. Digits and at
// most one point; no sign, exponent or blank. None for another text, for digits beyond `decimals` that are
// not 0, and for a result above 9 x 10^18.
std::optional<int64_t> ParseDecimal(std::string_view text, int decimals) noexcept;
// The reverse, without trailing zeros: DecimalText(6880000000000, 12) is "6.88".
std::string DecimalText(int64_t value, int decimals);

inline constexpr int kPicoDecimals = 12;  // of USD
inline constexpr int kMilliDecimals = 3;  // of PUE, and of grams
inline constexpr size_t kMostFileBytes = size_t{4} << 20;
inline constexpr size_t kMostFileRows = 100'000;

// A file that the caller has read. `name` is for messages.
struct RateFile {
  std::string name, text;
};

struct RateOptions {
  // Prices of a GPU hour in picodollars. The first that is known counts: by model, the single price, the
  // price file, the built-in list.
  std::vector<std::pair<std::string, int64_t>> pico_by_model;
  std::optional<int64_t> pico_per_gpu_hour;
  // Price file: cells separated by tabs or commas; the first line names the columns. usd_per_hour is needed,
  // and instance_type or gpu_product; gpu_count (1), provider, region and date may be there; others are not
  // read. An empty cell, "-" and "unknown" are unknown: a row without a price or a count gives none. A row
  // is in force from the begin of its date in UTC, without a date always. A count below 1 is a part of a
  // GPU, which its machine sees as one GPU. `#` begins a comment line.
  std::optional<RateFile> price_file;
  bool built_in_prices = true;
  // What the machine is; empty: not known. A row with an instance type counts on that type alone, another by
  // its product; rows of another provider or region do not count.
  std::string provider, instance_type, region;

  std::optional<int64_t> pico_per_kwh;
  int64_t pue_milli = 1000;
  // The first that is given counts: the file, the number. An hour that the file lacks is unknown.
  // Columns of the file: time (RFC 3339 with Z or an offset: the begin of an hour) and g_per_kwh.
  std::optional<RateFile> carbon_file;
  std::optional<int64_t> mg_per_kwh;
};

// Immutable; any thread. At() does not allocate.
class RateTable {
 public:
  // kInvalidArgument, with the file's name and line: a file that breaks a rule above or a limit, rows that
  // contradict each other, a PUE below 1.
  static Result<RateTable> Make(RateOptions options);

  // `model` as the driver names it. A product of the file or of `pico_by_model` is that of a GPU when all its
  // words ("H100", "80GB") are words of the model; of several, the one with the most words.
  Rates At(std::string_view model, int64_t unix_ns) const noexcept;

  // Where the price of a GPU comes from: "price_per_gpu_hour", "prices.tsv:12: aws p5.48xlarge, 55.04 USD/h
  // / 8 GPUs", "built-in list: …, us-east-1, read 2026-11-09"; or why there is none, with what to do.
  std::string PriceOrigin(std::string_view model, int64_t unix_ns) const;
  bool has_carbon() const noexcept { return rates_.mg_per_kwh || !hours_.empty(); }

 private:
  struct Price {
    int rank = 0;         // of its list: the lowest with a price counts
    std::string product;  // its words in lower case, one blank between; empty: any GPU
    size_t words = 0;
    int64_t from_unix_s = 0;
    int64_t pico = 0;
    std::string origin;
  };
  struct Hour {
    int64_t unix_s = 0;
    std::optional<int64_t> mg_per_kwh;
  };
  struct Row;

  static Result<std::vector<Row>> ReadPrices(const RateFile& file);
  static std::vector<Row> BuiltInPrices();
  static Result<std::vector<Hour>> ReadHours(const RateFile& file);
  void AddRows(int rank, const std::string& list, std::vector<Row> rows, const RateOptions& options);
  const Price* PriceOf(std::string_view model, int64_t unix_ns) const noexcept;

  std::vector<Price> prices_;  // by rank, then most words, then latest
  std::vector<Hour> hours_;    // by time; each is in force for one hour
  std::string no_price_;       // why a list has none
  Rates rates_;                // what does not depend on model or time
};

}  // namespace gpulens::ledger
