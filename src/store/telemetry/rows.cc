#include "store/telemetry/rows.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace gpulens::telemetry {
namespace {

constexpr std::string_view kReal = "REAL NOT NULL DEFAULT 0.0", kWhole = "INTEGER NOT NULL DEFAULT 0",
                           kText = "TEXT NOT NULL DEFAULT ''", kMaybeReal = "REAL", kMaybeWhole = "INTEGER",
                           kMaybeText = "TEXT";

#define GPULENS_MASKED(name, type) {#name, type, &Numbers::name, true}
#define GPULENS_PLAIN(name, type) {#name, type, &Numbers::name, false}
// A place in this table is a bit of `measured`: new columns go to the end.
constexpr Column kColumns[] = {
    {"timestamp", "REAL NOT NULL", &Numbers::timestamp, false},
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
  double Numbers::* column;
  double Record::* field;
  double factor = 1;
};
constexpr RealField kReals[] = {
    {&Numbers::latency_seconds, &Record::latency_seconds},
    {&Numbers::ttft, &Record::ttft_seconds},
    {&Numbers::consumer_seconds, &Record::consumer_seconds},
    {&Numbers::cost_usd, &Record::cost_usd},
    {&Numbers::energy_joules, &Record::energy_joules},
    {&Numbers::energy_uncertainty_joules, &Record::energy_uncertainty_joules},
    {&Numbers::prefill_energy_joules, &Record::prefill_energy_joules},
    {&Numbers::decode_energy_joules, &Record::decode_energy_joules},
    {&Numbers::gpu_energy_joules, &Record::gpu_energy_joules},
    {&Numbers::cpu_energy_joules, &Record::cpu_energy_joules},
    {&Numbers::dram_energy_joules, &Record::dram_energy_joules},
    {&Numbers::power_watts, &Record::power_watts},
    {&Numbers::gpu_utilization_pct, &Record::gpu_utilization_ratio, 100},
    {&Numbers::gpu_memory_used_gb, &Record::gpu_memory_used_bytes, 1 / kGibibyte},
    {&Numbers::gpu_temperature_c, &Record::gpu_temperature_celsius},
};
constexpr std::pair<int64_t Numbers::*, std::optional<int64_t> Record::*> kWholes[] = {
    {&Numbers::prompt_tokens, &Record::prompt_tokens},
    {&Numbers::prompt_tokens_evaluated, &Record::prompt_tokens_evaluated},
    {&Numbers::cached_prompt_tokens, &Record::cached_prompt_tokens},
    {&Numbers::completion_tokens, &Record::completion_tokens},
    {&Numbers::total_tokens, &Record::total_tokens},
    {&Numbers::token_counting_version, &Record::token_counting_version},
};
constexpr std::pair<double Numbers::*, double Distribution::*> kItl[] = {
    {&Numbers::mean_itl_ms, &Distribution::mean}, {&Numbers::median_itl_ms, &Distribution::p50},
    {&Numbers::std_itl_ms, &Distribution::std},   {&Numbers::p90_itl_ms, &Distribution::p90},
    {&Numbers::p95_itl_ms, &Distribution::p95},   {&Numbers::p99_itl_ms, &Distribution::p99},
    {&Numbers::min_itl_ms, &Distribution::min},   {&Numbers::max_itl_ms, &Distribution::max},
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

std::span<const Column> Columns() noexcept { return kColumns; }

int64_t MeasuredMask(const Row& row) noexcept {
  int64_t mask = 0;
  for (size_t i = 0; i < std::size(kColumns); ++i) {
    if (!kColumns[i].masked) continue;
    bool known = false;
    if (const auto* real = std::get_if<double Numbers::*>(&kColumns[i].at))
      known = !std::isnan(row.numbers.*(*real));
    else if (const auto* whole = std::get_if<int64_t Numbers::*>(&kColumns[i].at))
      known = row.numbers.*(*whole) != kNoCount;
    if (known) mask |= int64_t{1} << i;
  }
  return mask;
}

template class BasicRowReader<sqlite::Statement>;

double SecondsOf(std::chrono::system_clock::time_point time) noexcept {
  return static_cast<double>(std::chrono::duration<long double>(time.time_since_epoch()).count());
}

std::chrono::system_clock::time_point TimeOf(double seconds) noexcept {
  using Clock = std::chrono::system_clock;
  return Clock::time_point(std::chrono::round<Clock::duration>(std::chrono::duration<long double>(seconds)));
}

void Derive(Numbers& n) noexcept {
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

void FillFrom(Row& row, const Row& other) noexcept {
  for (const Column& column : Columns()) {
    if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
      Set(row.numbers.*(*real), other.numbers.*(*real));
    } else if (const auto* whole = std::get_if<int64_t Numbers::*>(&column.at)) {
      int64_t& to = row.numbers.*(*whole);
      if (to == kNoCount) to = other.numbers.*(*whole);
    } else {
      const TextColumn which = *std::get_if<TextColumn>(&column.at);
      if (row.text(which).empty()) row.text(which) = other.text(which);
    }
  }
  row.numbers.is_warmup |= other.numbers.is_warmup;
  row.numbers.is_streaming |= other.numbers.is_streaming;
}

Row FromRecord(const InferenceRecord& record) noexcept {
  Row row;
  Numbers& n = row.numbers;
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

InferenceRecord ToRecord(const Row& row) noexcept {
  const Numbers& n = row.numbers;
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

std::string_view WhyNot(const Row& row) noexcept {
  const Numbers& n = row.numbers;
  if (!(n.timestamp >= 0 && n.timestamp <= kLatest)) return "a time outside the years 1970 to 9999";
  for (const Column& column : Columns()) {
    if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
      const double value = n.*(*real);
      if (std::isinf(value)) return "an infinite number";
      // A temperature and what a program computed itself may be below 0.
      if (value < 0 && (*real == &Numbers::latency_seconds || *real == &Numbers::ttft ||
                        *real == &Numbers::energy_joules || *real == &Numbers::consumer_seconds))
        return "a negative duration or energy";
    } else if (const auto* whole = std::get_if<int64_t Numbers::*>(&column.at)) {
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

std::string ToJson(const Row& row) {
  std::string out = "{";
  const auto key = [&out](std::string_view name) {
    if (out.size() > 1) out += ',';
    AppendJsonString(out, name);
    out += ':';
  };
  char digits[32];
  for (const Column& column : Columns()) {
    if (const auto* text = std::get_if<TextColumn>(&column.at)) {
      if (row.text(*text).empty()) continue;
      key(column.name);
      AppendJsonString(out, row.text(*text).substr(0, kMostMetadataBytes));
    } else if (const auto* real = std::get_if<double Numbers::*>(&column.at)) {
      const double value = row.numbers.*(*real);
      if (std::isnan(value)) continue;
      key(column.name);
      const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
      if (std::isinf(value)) AppendJsonString(out, value > 0 ? "inf" : "-inf");
      else out.append(digits, end);
    } else {
      const int64_t value = row.numbers.*(*std::get_if<int64_t Numbers::*>(&column.at));
      if (value == kNoCount) continue;
      key(column.name);
      out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    }
  }
  key("outcome");
  AppendJsonString(out, OutcomeName(static_cast<Outcome>(row.numbers.outcome)));
  return out + "}";
}

}  // namespace gpulens::telemetry
