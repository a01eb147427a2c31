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
#include <gpulens/status.h>

#include "store/sqlite/sqlite.h"

namespace gpulens::telemetry {

inline constexpr int64_t kNoCount = std::numeric_limits<int64_t>::min();  // a whole number that is not known

inline constexpr double kGibibyte = 1024.0 * 1024 * 1024;

struct RecordNumbers {
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

// One record. Texts are views of memory that the maker of the row owns.
struct RecordRow {
  RecordNumbers numbers;
  std::array<std::string_view, kTexts> texts = {};

  std::string_view& text(TextColumn which) noexcept { return texts[static_cast<size_t>(which)]; }
  std::string_view text(TextColumn which) const noexcept { return texts[static_cast<size_t>(which)]; }
  // The value of a column, for std::visit over RecordColumn::at.
  template <class Number>
  Number& at(Number RecordNumbers::* which) noexcept {
    return numbers.*which;
  }
  template <class Number>
  Number at(Number RecordNumbers::* which) const noexcept {
    return numbers.*which;
  }
  std::string_view& at(TextColumn which) noexcept { return text(which); }
  std::string_view at(TextColumn which) const noexcept { return text(which); }
};

struct RecordColumn {
  std::string_view name, declaration;  // "latency_seconds", "REAL NOT NULL DEFAULT 0.0"
  std::variant<double RecordNumbers::*, int64_t RecordNumbers::*, TextColumn> at;
  bool masked = false;  // 0 when unknown; bit of `measured`: 1 << its index in kColumns

  bool nullable() const noexcept { return declaration.find(' ') == std::string_view::npos; }  // "REAL"
};
// All columns but `id`, `outcome` and `measured`, which come last; in the order of a new table.
std::span<const RecordColumn> RecordColumns() noexcept;
inline constexpr std::string_view kOutcomeDeclaration = "TEXT", kMeasuredDeclaration = "INTEGER";

inline bool IsKnown(double value) noexcept { return value == value; }
inline bool IsKnown(int64_t count) noexcept { return count != kNoCount; }
inline bool IsKnown(std::string_view text) noexcept { return !text.empty(); }

// Bits of the known masked columns of `row`.
int64_t MeasuredMask(const RecordRow& row) noexcept;

// Value of a column as tables store it; monostate is NULL. An unknown value of a column that takes no NULL is
// 0, an empty text or, of the metadata, "{}".
using StoredValue = std::variant<std::monostate, double, int64_t, std::string_view>;
StoredValue StoredOf(const RecordColumn& column, const RecordRow& row) noexcept;

// Times of the table, and back. Computed as long double, so that each time of a file is found by itself: a
// double near 1.7e9 is 238 ns wide. `seconds` within ±9e9, which nanoseconds can hold.
double SecondsOf(std::chrono::system_clock::time_point time) noexcept;
std::chrono::system_clock::time_point TimeOf(double seconds) noexcept;

// Conversions from and to the public record, whose texts are those of the row. Percent and milliseconds
// become ratios and seconds; total tokens and the seed's ratios (tokens per second and the like) are
// computed.
RecordRow FromRecord(const InferenceRecord& record) noexcept;
InferenceRecord ToRecord(const RecordRow& row) noexcept;

// Computes derived columns of openjarvis's table where they are unknown.
void Derive(RecordNumbers& numbers) noexcept;
// Fills unknown values of `row` from `other`; flags are combined. The outcome is `row`'s.
void FillFrom(RecordRow& row, const RecordRow& other) noexcept;

// Why a row is rejected; empty: it is not. Texts must be UTF-8 of at most kMostTextBytes, the metadata of at
// most kMostMetadataBytes, times within the years 1970 to 9999, amounts finite and not negative.
std::string_view WhyNot(const RecordRow& row) noexcept;
inline constexpr size_t kMostTextBytes = 1024, kMostMetadataBytes = 64 << 10;

// A JSON object of the known columns, for rejected records.
std::string ToJson(const RecordRow& row);

// Makes any bytes a text that a server accepts: UTF-8 without NUL, at most kMostMetadataBytes; other bytes
// become ?.
std::string Storable(std::string_view text);

// Reads rows of a source by the names of its columns; other columns are ignored, missing ones are unknown. In
// a row without `measured`, which another program wrote, a 0 is unknown. `Source` is sqlite::Statement or a
// class with the same accessors.
template <class Source>
class BasicRowReader {
 public:
  // `source` outlives the reader.
  explicit BasicRowReader(const Source& source);
  // The current row of the source; its texts are valid until the next step.
  RecordRow Read() const;

 private:
  const Source* source_;
  std::vector<int> at_;  // of RecordColumns(): the source's column, or -1
  int outcome_ = -1, measured_ = -1;
};
using RowReader = BasicRowReader<sqlite::Statement>;
extern template class BasicRowReader<sqlite::Statement>;

inline Outcome OutcomeOf(std::string_view word) noexcept {
  if (word == OutcomeName(Outcome::kError)) return Outcome::kError;
  return word == OutcomeName(Outcome::kCancelled) ? Outcome::kCancelled : Outcome::kOk;
}

template <class Source>
BasicRowReader<Source>::BasicRowReader(const Source& source)
    : source_(&source), at_(RecordColumns().size(), -1) {
  const std::span<const RecordColumn> all = RecordColumns();
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
RecordRow BasicRowReader<Source>::Read() const {
  const std::span<const RecordColumn> all = RecordColumns();
  RecordRow row;
  const std::optional<int64_t> mask = measured_ < 0 ? std::nullopt : source_->MaybeInt(measured_);
  for (size_t i = 0; i < all.size(); ++i) {
    const int at = at_[i];
    if (at < 0) continue;
    const RecordColumn& column = all[i];
    if (const auto* text = std::get_if<TextColumn>(&column.at)) {
      row.text(*text) = source_->Text(at);
      continue;
    }
    if (source_->IsNull(at) || (column.masked && mask && !(*mask >> i & 1))) continue;
    if (const auto* real = std::get_if<double RecordNumbers::*>(&column.at)) {
      const double value = source_->Real(at);
      if (mask || !column.masked || value != 0) row.numbers.*(*real) = value;
    } else {
      const int64_t value = source_->Int(at);
      if (mask || !column.masked || value != 0)
        row.numbers.*(*std::get_if<int64_t RecordNumbers::*>(&column.at)) = value;
    }
  }
  if (outcome_ >= 0) row.numbers.outcome = static_cast<int64_t>(OutcomeOf(source_->Text(outcome_)));
  return row;
}

// Rows of one or more writes.
struct WriteCounts {
  uint64_t stored = 0, rejected = 0;
};

// Used by one thread at a time; may wait for disks and peers.
class RecordDestination {
 public:
  virtual ~RecordDestination() = default;
  // Stores or sets aside each of `rows`, or none after an error: then the caller tries again with the same
  // rows, or more. `dropped`: records that the recorder has lost so far.
  virtual Result<WriteCounts> Write(std::span<const RecordRow> rows, uint64_t dropped) = 0;
  // Sets aside a record that is no row.
  virtual Status SetAside(std::string_view record, std::string_view reason) = 0;
  // Called while no rows wait. Does some 20 ms of upkeep, if there is any, and returns whether there is more.
  virtual Result<bool> Tidy() { return false; }
  // Deletes all rows. Returns their number.
  virtual Result<uint64_t> Clear() = 0;
  // Frees the space of deleted rows.
  virtual Status Vacuum() = 0;
  // Called once, after the last Write.
  virtual Status Close(uint64_t dropped) = 0;
};

}  // namespace gpulens::telemetry
