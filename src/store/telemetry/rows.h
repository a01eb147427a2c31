// Rows of the table `telemetry` as values, and its columns by name. The first 42 columns are openjarvis's, in
// its units (percent, GiB, milliseconds), NOT NULL with 0 for unknown values; `measured` has a bit for each
// known one, so a measured 0 differs from an unknown value. Our own columns follow and are NULL when not
// measured. Columns are never read by position.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <gpulens/inference_record.h>

#include "store/sqlite/sqlite.h"

namespace gpulens::telemetry {

inline constexpr int64_t kNoCount = std::numeric_limits<int64_t>::min();  // a whole number that is not known

inline constexpr double kGibibyte = 1024.0 * 1024 * 1024;

struct Numbers {
  double timestamp = kNotMeasured;  // seconds since 1970; NaN: now
  int64_t prompt_tokens = kNoCount, prompt_tokens_evaluated = kNoCount, completion_tokens = kNoCount,
          total_tokens = kNoCount;
  double latency_seconds = kNotMeasured, ttft = kNotMeasured, cost_usd = kNotMeasured,
         energy_joules = kNotMeasured, power_watts = kNotMeasured, gpu_utilization_pct = kNotMeasured,
         gpu_memory_used_gb = kNotMeasured, gpu_temperature_c = kNotMeasured,
         throughput_tok_per_sec = kNotMeasured, prefill_latency_seconds = kNotMeasured,
         decode_latency_seconds = kNotMeasured;
  int64_t is_warmup = 0;
  double cpu_energy_joules = kNotMeasured, gpu_energy_joules = kNotMeasured,
         dram_energy_joules = kNotMeasured, tokens_per_joule = kNotMeasured,
         energy_per_output_token_joules = kNotMeasured, throughput_per_watt = kNotMeasured,
         prefill_energy_joules = kNotMeasured, decode_energy_joules = kNotMeasured,
         mean_itl_ms = kNotMeasured, median_itl_ms = kNotMeasured, p90_itl_ms = kNotMeasured,
         p95_itl_ms = kNotMeasured, p99_itl_ms = kNotMeasured, std_itl_ms = kNotMeasured;
  int64_t is_streaming = 0;
  int64_t token_counting_version = kNoCount;
  // Ours.
  int64_t cached_prompt_tokens = kNoCount, itl_count = kNoCount;
  double consumer_seconds = kNotMeasured, energy_uncertainty_joules = kNotMeasured, min_itl_ms = kNotMeasured,
         max_itl_ms = kNotMeasured;
  int64_t outcome = 0;  // an Outcome
};

// In the order of the columns.
enum class TextColumn : uint8_t {
  kModel,
  kEngine,
  kAgent,
  kEnergyMethod,
  kEnergyVendor,
  kBatch,
  kMiningSession,
  kMetadata,
  kErrorType,
};
inline constexpr size_t kTexts = 9;

// Views: of who made it.
struct Row {
  Numbers numbers;
  std::array<std::string_view, kTexts> texts = {};

  std::string_view& text(TextColumn which) noexcept { return texts[static_cast<size_t>(which)]; }
  std::string_view text(TextColumn which) const noexcept { return texts[static_cast<size_t>(which)]; }
};

struct Column {
  std::string_view name, declaration;  // "latency_seconds", "REAL NOT NULL DEFAULT 0.0"
  std::variant<double Numbers::*, int64_t Numbers::*, TextColumn> at;
  bool masked = false;  // 0 when unknown; bit of `measured`: 1 << its index in kColumns
};
// All but `id`, `outcome` and `measured`, which come last; in the order of a new table.
std::span<const Column> Columns() noexcept;
inline constexpr std::string_view kOutcomeDeclaration = "TEXT", kMeasuredDeclaration = "INTEGER";

// Bits of the known masked columns of `row`.
int64_t MeasuredMask(const Row& row) noexcept;

// Times as the table has them, and back. Of long double, so that each time that a file has is found again by
// itself: a double near 1.7e9 is 238 ns wide. `seconds` within ±9e9, which nanoseconds can hold.
double SecondsOf(std::chrono::system_clock::time_point time) noexcept;
std::chrono::system_clock::time_point TimeOf(double seconds) noexcept;

// From and to what people record. A record of what a row holds has the row's texts. Percent and milliseconds
// become ratios and seconds; total tokens and the seed's ratios (tokens per second and the like) are
// computed.
Row FromRecord(const InferenceRecord& record) noexcept;
InferenceRecord ToRecord(const Row& row) noexcept;

// Computes derived columns of openjarvis's table where they are unknown.
void Derive(Numbers& numbers) noexcept;
// Takes what `row` omits from `other`; flags are combined. The outcome is `row`'s.
void FillFrom(Row& row, const Row& other) noexcept;

// Why a row cannot be kept; empty: it can. Texts have to be UTF-8 of at most kMostTextBytes, the metadata at
// most kMostMetadataBytes, times within years 1970 to 9999, amounts finite and not negative.
std::string_view WhyNot(const Row& row) noexcept;
inline constexpr size_t kMostTextBytes = 1024, kMostMetadataBytes = 64 << 10;

// A JSON object of the columns that are known, for records set aside.
std::string ToJson(const Row& row);

// Anything as a text that a server takes: UTF-8 without NUL, cut at kMostMetadataBytes; what is not becomes
// ?.
std::string Storable(std::string_view text);

// Reads rows of a source whose columns carry the table's names; other columns are passed by, missing ones
// are not known. Of a row without `measured` (another program wrote it) a 0 is not known. Sources are
// Instantiated for sqlite::Statement and for classes with the same functions.
template <class Source>
class BasicRowReader {
 public:
  // `source` outlives it.
  explicit BasicRowReader(const Source& source);
  // The row that the source is on; texts until its next step.
  Row Read() const;

 private:
  const Source* source_;
  std::vector<int> at_;  // of Columns(): the source's column, or -1
  int outcome_ = -1, measured_ = -1;
};
using RowReader = BasicRowReader<sqlite::Statement>;
extern template class BasicRowReader<sqlite::Statement>;

// The code of BasicRowReader, for who brings a source of its own.
inline Outcome OutcomeOf(std::string_view word) noexcept {
  if (word == OutcomeName(Outcome::kError)) return Outcome::kError;
  return word == OutcomeName(Outcome::kCancelled) ? Outcome::kCancelled : Outcome::kOk;
}

template <class Source>
BasicRowReader<Source>::BasicRowReader(const Source& source) : source_(&source), at_(Columns().size(), -1) {
  const std::span<const Column> all = Columns();
  for (int i = 0; i < source.columns(); ++i) {
    const std::string_view name = source.ColumnName(i);
    if (name == "outcome") outcome_ = i;
    if (name == "measured") measured_ = i;
    for (size_t c = 0; c < all.size(); ++c) {
      if (all[c].name == name) at_[c] = i;
    }
  }
}

template <class Source>
Row BasicRowReader<Source>::Read() const {
  const std::span<const Column> all = Columns();
  Row row;
  const std::optional<int64_t> mask = measured_ < 0 ? std::nullopt : source_->MaybeInt(measured_);
  for (size_t i = 0; i < all.size(); ++i) {
    const int at = at_[i];
    if (at < 0) continue;
    const Column& column = all[i];
    if (const auto* text = std::get_if<TextColumn>(&column.at)) {
      row.text(*text) = source_->Text(at);
      continue;
    }
    if (source_->IsNull(at) || (column.masked && mask && !(*mask >> i & 1))) continue;
    if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
      const double value = source_->Real(at);
      if (mask || !column.masked || value != 0) row.numbers.*(*real) = value;
    } else {
      const int64_t value = source_->Int(at);
      if (mask || !column.masked || value != 0)
        row.numbers.*(*std::get_if<int64_t Numbers::*>(&column.at)) = value;
    }
  }
  if (outcome_ >= 0) row.numbers.outcome = static_cast<int64_t>(OutcomeOf(source_->Text(outcome_)));
  return row;
}

}  // namespace gpulens::telemetry
