#include "store/telemetry/rows.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace gpulens::telemetry {
namespace {

constexpr std::string_view kReal = "REAL NOT NULL DEFAULT 0.0", kWhole = "INTEGER NOT NULL DEFAULT 0",
                           kText = "TEXT NOT NULL DEFAULT ''", kMaybeReal = "REAL", kMaybeWhole = "INTEGER",
                           kMaybeText = "TEXT";

#define GPULENS_MASKED(name, type) {#name, type, &RecordNumbers::name, true}
#define GPULENS_PLAIN(name, type) {#name, type, &RecordNumbers::name, false}
// A place in this table is a bit of `measured`: new columns go to the end.
constexpr RecordColumn kColumns[] = {
    {"timestamp", "REAL NOT NULL", &RecordNumbers::timestamp, false},
    {"model_id", "TEXT NOT NULL", TextColumn::kModel, false},
    {"engine", kText, TextColumn::kEngine, false},
    {"agent", kText, TextColumn::kAgent, false},
    GPULENS_MASKED(prompt_tokens, kWhole),
    GPULENS_MASKED(prompt_tokens_evaluated, kWhole),
    GPULENS_MASKED(completion_tokens, kWhole),
    GPULENS_MASKED(total_tokens, kWhole),
    GPULENS_MASKED(latency_seconds, kReal),
    GPULENS_MASKED(ttft, kReal),
    GPULENS_MASKED(cost_usd, kReal),
    GPULENS_MASKED(energy_joules, kReal),
    GPULENS_MASKED(power_watts, kReal),
    GPULENS_MASKED(gpu_utilization_pct, kReal),
    GPULENS_MASKED(gpu_memory_used_gb, kReal),
    GPULENS_MASKED(gpu_temperature_c, kReal),
    GPULENS_MASKED(throughput_tok_per_sec, kReal),
    GPULENS_MASKED(prefill_latency_seconds, kReal),
    GPULENS_MASKED(decode_latency_seconds, kReal),
    {"energy_method", kText, TextColumn::kEnergyMethod, false},
    {"energy_vendor", kText, TextColumn::kEnergyVendor, false},
    {"batch_id", kText, TextColumn::kBatch, false},
    GPULENS_PLAIN(is_warmup, kWhole),
    GPULENS_MASKED(cpu_energy_joules, kReal),
    GPULENS_MASKED(gpu_energy_joules, kReal),
    GPULENS_MASKED(dram_energy_joules, kReal),
    GPULENS_MASKED(tokens_per_joule, kReal),
    GPULENS_MASKED(energy_per_output_token_joules, kReal),
    GPULENS_MASKED(throughput_per_watt, kReal),
    GPULENS_MASKED(prefill_energy_joules, kReal),
    GPULENS_MASKED(decode_energy_joules, kReal),
    GPULENS_MASKED(mean_itl_ms, kReal),
    GPULENS_MASKED(median_itl_ms, kReal),
    GPULENS_MASKED(p90_itl_ms, kReal),
    GPULENS_MASKED(p95_itl_ms, kReal),
    GPULENS_MASKED(p99_itl_ms, kReal),
    GPULENS_MASKED(std_itl_ms, kReal),
    GPULENS_PLAIN(is_streaming, kWhole),
    GPULENS_PLAIN(token_counting_version, kMaybeWhole),
    {"mining_session_id", kMaybeText, TextColumn::kMiningSession, false},
    {"metadata", "TEXT NOT NULL DEFAULT '{}'", TextColumn::kMetadata, false},
    GPULENS_PLAIN(cached_prompt_tokens, kMaybeWhole),
    GPULENS_PLAIN(itl_count, kMaybeWhole),
    GPULENS_PLAIN(consumer_seconds, kMaybeReal),
    GPULENS_PLAIN(energy_uncertainty_joules, kMaybeReal),
    GPULENS_PLAIN(min_itl_ms, kMaybeReal),
    GPULENS_PLAIN(max_itl_ms, kMaybeReal),
    {"error_type", kMaybeText, TextColumn::kErrorType, false},
};
#undef GPULENS_MASKED
#undef GPULENS_PLAIN
static_assert(std::size(kColumns) < 63, "measured is one number");

constexpr double kLatest = 253'402'300'799.0;  // the end of the year 9999

double Ratio(double above, double below) noexcept { return below > 0 ? above / below : kNotMeasured; }
double Real(int64_t count) noexcept { return count == kNoCount ? kNotMeasured : static_cast<double>(count); }
int64_t Sum(int64_t a, int64_t b) noexcept {
  int64_t sum = 0;
  return a == kNoCount || b == kNoCount || __builtin_add_overflow(a, b, &sum) ? kNoCount : sum;
}
std::optional<int64_t> Maybe(int64_t count) noexcept {
  return count == kNoCount ? std::nullopt : std::optional(count);
}

void Set(double& to, double value) noexcept {
  if (std::isnan(to)) to = value;
}

// Fields of a record, with the columns that have the same meaning. A column is the field times `factor`.
using Record = InferenceRecord;
struct RealField {
  double RecordNumbers::* column;
  double Record::* field;
  double factor = 1;
};
constexpr RealField kReals[] = {
    {&RecordNumbers::latency_seconds, &Record::latency_seconds},
    {&RecordNumbers::ttft, &Record::ttft_seconds},
    {&RecordNumbers::consumer_seconds, &Record::consumer_seconds},
    {&RecordNumbers::cost_usd, &Record::cost_usd},
    {&RecordNumbers::energy_joules, &Record::energy_joules},
    {&RecordNumbers::energy_uncertainty_joules, &Record::energy_uncertainty_joules},
    {&RecordNumbers::prefill_energy_joules, &Record::prefill_energy_joules},
    {&RecordNumbers::decode_energy_joules, &Record::decode_energy_joules},
    {&RecordNumbers::gpu_energy_joules, &Record::gpu_energy_joules},
    {&RecordNumbers::cpu_energy_joules, &Record::cpu_energy_joules},
    {&RecordNumbers::dram_energy_joules, &Record::dram_energy_joules},
    {&RecordNumbers::power_watts, &Record::power_watts},
    {&RecordNumbers::gpu_utilization_pct, &Record::gpu_utilization_ratio, 100},
    {&RecordNumbers::gpu_memory_used_gb, &Record::gpu_memory_used_bytes, 1 / kGibibyte},
    {&RecordNumbers::gpu_temperature_c, &Record::gpu_temperature_celsius},
};
constexpr std::pair<int64_t RecordNumbers::*, std::optional<int64_t> Record::*> kWholes[] = {
    {&RecordNumbers::prompt_tokens, &Record::prompt_tokens},
    {&RecordNumbers::prompt_tokens_evaluated, &Record::prompt_tokens_evaluated},
    {&RecordNumbers::cached_prompt_tokens, &Record::cached_prompt_tokens},
    {&RecordNumbers::completion_tokens, &Record::completion_tokens},
    {&RecordNumbers::total_tokens, &Record::total_tokens},
    {&RecordNumbers::token_counting_version, &Record::token_counting_version},
};
constexpr std::pair<double RecordNumbers::*, double Distribution::*> kItl[] = {
    {&RecordNumbers::mean_itl_ms, &Distribution::mean}, {&RecordNumbers::median_itl_ms, &Distribution::p50},
    {&RecordNumbers::std_itl_ms, &Distribution::std},   {&RecordNumbers::p90_itl_ms, &Distribution::p90},
    {&RecordNumbers::p95_itl_ms, &Distribution::p95},   {&RecordNumbers::p99_itl_ms, &Distribution::p99},
    {&RecordNumbers::min_itl_ms, &Distribution::min},   {&RecordNumbers::max_itl_ms, &Distribution::max},
};
constexpr std::pair<TextColumn, std::string_view Record::*> kRecordTexts[] = {
    {TextColumn::kModel, &Record::model},
    {TextColumn::kEngine, &Record::engine},
    {TextColumn::kAgent, &Record::agent},
    {TextColumn::kBatch, &Record::batch_id},
    {TextColumn::kEnergyMethod, &Record::energy_method},
    {TextColumn::kEnergyVendor, &Record::energy_vendor},
    {TextColumn::kMiningSession, &Record::mining_session_id},
    {TextColumn::kMetadata, &Record::metadata_json},
    {TextColumn::kErrorType, &Record::error_type},
};

}  // namespace

std::span<const RecordColumn> RecordColumns() noexcept { return kColumns; }

int64_t MeasuredMask(const RecordRow& row) noexcept {
  int64_t mask = 0;
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    const auto known = [&row](auto at) { return IsKnown(row.at(at)); };
    if (kColumns[i].masked && std::visit(known, kColumns[i].at)) mask |= int64_t{1} << i;
  }
  return mask;
}

StoredValue StoredOf(const RecordColumn& column, const RecordRow& row) noexcept {
  return std::visit(
      [&](auto at) -> StoredValue {
        const auto value = row.at(at);
        if (IsKnown(value)) return value;
        if (column.nullable()) return {};
        if constexpr (std::is_same_v<decltype(at), TextColumn>)
          return at == TextColumn::kMetadata ? std::string_view("{}") : std::string_view();
        else return decltype(row.at(at)){0};
      },
      column.at);
}

template class BasicRowReader<sqlite::Statement>;

double SecondsOf(std::chrono::system_clock::time_point time) noexcept {
  return static_cast<double>(std::chrono::duration<long double>(time.time_since_epoch()).count());
}

std::chrono::system_clock::time_point TimeOf(double seconds) noexcept {
  using Clock = std::chrono::system_clock;
  return Clock::time_point(std::chrono::round<Clock::duration>(std::chrono::duration<long double>(seconds)));
}

void Derive(RecordNumbers& n) noexcept {
  if (n.total_tokens == kNoCount) n.total_tokens = Sum(n.prompt_tokens, n.completion_tokens);
  if (n.prompt_tokens_evaluated == kNoCount && n.cached_prompt_tokens >= 0)
    n.prompt_tokens_evaluated = Sum(n.prompt_tokens, -n.cached_prompt_tokens);
  const double completion = Real(n.completion_tokens);
  Set(n.throughput_tok_per_sec, Ratio(completion, n.latency_seconds));
  Set(n.tokens_per_joule, Ratio(completion, n.energy_joules));
  Set(n.energy_per_output_token_joules, Ratio(n.energy_joules, completion));
  Set(n.throughput_per_watt, Ratio(n.throughput_tok_per_sec, n.power_watts));
  Set(n.prefill_latency_seconds, n.ttft);
  // A first token after the end is none.
  if (n.latency_seconds >= n.ttft) Set(n.decode_latency_seconds, n.latency_seconds - n.ttft);
}

void FillFrom(RecordRow& row, const RecordRow& other) noexcept {
  for (const RecordColumn& column : RecordColumns()) {
    std::visit(
        [&](auto at) {
          if (!IsKnown(row.at(at))) row.at(at) = other.at(at);
        },
        column.at);
  }
  row.numbers.is_warmup |= other.numbers.is_warmup;
  row.numbers.is_streaming |= other.numbers.is_streaming;
}

RecordRow FromRecord(const InferenceRecord& record) noexcept {
  RecordRow row;
  RecordNumbers& n = row.numbers;
  if (record.time.time_since_epoch().count() != 0) n.timestamp = SecondsOf(record.time);
  for (const auto& [to, from] : kWholes) n.*to = (record.*from).value_or(kNoCount);
  if (!record.token_counting_version) n.token_counting_version = kTokensCounted;
  for (const auto& [to, from, factor] : kReals) n.*to = record.*from * factor;
  if (const Distribution& itl = record.itl_seconds; itl.n > 0) {
    n.itl_count = static_cast<int64_t>(itl.n);
    for (const auto& [to, from] : kItl) n.*to = itl.*from * 1e3;
  }
  n.is_warmup = record.warmup, n.is_streaming = record.streaming;
  n.outcome = static_cast<int64_t>(record.outcome);
  Derive(n);
  for (const auto& [to, from] : kRecordTexts) row.text(to) = record.*from;
  return row;
}

InferenceRecord ToRecord(const RecordRow& row) noexcept {
  const RecordNumbers& n = row.numbers;
  InferenceRecord record;
  for (const auto& [from, to] : kRecordTexts) record.*to = row.text(from);
  if (std::abs(n.timestamp) < 9e9) record.time = TimeOf(n.timestamp);
  record.outcome = static_cast<Outcome>(n.outcome);
  record.streaming = n.is_streaming != 0, record.warmup = n.is_warmup != 0;
  for (const auto& [from, to] : kWholes) record.*to = Maybe(n.*from);
  for (const auto& [from, to, factor] : kReals) record.*to = n.*from / factor;
  if (!std::isnan(n.mean_itl_ms)) {
    Distribution& itl = record.itl_seconds;
    // Openjarvis does not record the number of gaps; with some there was at least one.
    itl.n = n.itl_count > 0 ? static_cast<uint64_t>(n.itl_count) : 1;
    for (const auto& [from, to] : kItl) itl.*to = n.*from / 1e3;
    itl.sum = itl.mean * static_cast<double>(itl.n);
  }
  return record;
}

std::string_view WhyNot(const RecordRow& row) noexcept {
  const RecordNumbers& n = row.numbers;
  if (!(n.timestamp >= 0 && n.timestamp <= kLatest)) return "a time outside the years 1970 to 9999";
  for (const RecordColumn& column : RecordColumns()) {
    if (const auto* real = std::get_if<double RecordNumbers::*>(&column.at)) {
      const double value = n.*(*real);
      if (std::isinf(value)) return "an infinite number";
      // A temperature and what a program computed itself may be below 0.
      if (value < 0 && (*real == &RecordNumbers::latency_seconds || *real == &RecordNumbers::ttft ||
                        *real == &RecordNumbers::energy_joules || *real == &RecordNumbers::consumer_seconds))
        return "a negative duration or energy";
    } else if (const auto* whole = std::get_if<int64_t RecordNumbers::*>(&column.at)) {
      if (n.*(*whole) < 0 && n.*(*whole) != kNoCount) return "a negative count";
    } else {
      const TextColumn which = *std::get_if<TextColumn>(&column.at);
      const size_t most = which == TextColumn::kMetadata ? kMostMetadataBytes : kMostTextBytes;
      if (row.text(which).size() > most) return "a text that is too long";
      if (!IsUtf8(row.text(which))) return "a text that is not UTF-8";
    }
  }
  return {};
}

std::string Storable(std::string_view text) {
  std::string out(text.substr(0, kMostMetadataBytes));
  const bool utf8 = IsUtf8(out);
  for (char& c : out) {
    if (c == '\0' || (!utf8 && static_cast<unsigned char>(c) >= 0x80)) c = '?';
  }
  return out;
}

std::string ToJson(const RecordRow& row) {
  std::string out = "{";
  const auto key = [&out](std::string_view name) {
    if (out.size() > 1) out += ',';
    AppendJsonString(out, name);
    out += ':';
  };
  char digits[32];
  const auto add = [&](std::string_view name, const auto& value) {
    if (!IsKnown(value)) return;
    key(name);
    if constexpr (std::is_same_v<decltype(value), const std::string_view&>)
      AppendJsonString(out, value.substr(0, kMostMetadataBytes));
    else if (std::isinf(static_cast<double>(value))) AppendJsonString(out, value > 0 ? "inf" : "-inf");
    else out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  };
  for (const RecordColumn& column : RecordColumns())
    std::visit([&](auto at) { add(column.name, row.at(at)); }, column.at);
  key("outcome");
  AppendJsonString(out, OutcomeName(static_cast<Outcome>(row.numbers.outcome)));
  return out + "}";
}

}  // namespace gpulens::telemetry
