#include <charconv>
#include <cmath>

#include "base/text.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {
namespace {

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

}  // namespace

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
  n.prompt_tokens = record.prompt_tokens.value_or(kNoCount);
  n.completion_tokens = record.completion_tokens.value_or(kNoCount);
  n.total_tokens = record.total_tokens.value_or(kNoCount);
  n.cached_prompt_tokens = record.cached_prompt_tokens.value_or(kNoCount);
  n.prompt_tokens_evaluated = record.prompt_tokens_evaluated.value_or(kNoCount);
  n.token_counting_version = record.token_counting_version.value_or(kTokensCounted);
  n.latency_seconds = record.latency_seconds, n.ttft = record.ttft_seconds, n.cost_usd = record.cost_usd;
  n.consumer_seconds = record.consumer_seconds;
  n.energy_joules = record.energy_joules, n.power_watts = record.power_watts;
  n.energy_uncertainty_joules = record.energy_uncertainty_joules;
  n.prefill_energy_joules = record.prefill_energy_joules;
  n.decode_energy_joules = record.decode_energy_joules;
  n.cpu_energy_joules = record.cpu_energy_joules, n.gpu_energy_joules = record.gpu_energy_joules;
  n.dram_energy_joules = record.dram_energy_joules;
  n.gpu_utilization_pct = record.gpu_utilization_ratio * 100;
  n.gpu_memory_used_gb = record.gpu_memory_used_bytes / kGibibyte;
  n.gpu_temperature_c = record.gpu_temperature_celsius;
  if (const Distribution& itl = record.itl_seconds; itl.n > 0) {
    n.itl_count = static_cast<int64_t>(itl.n);
    n.mean_itl_ms = itl.mean * 1e3, n.median_itl_ms = itl.p50 * 1e3, n.std_itl_ms = itl.std * 1e3;
    n.p90_itl_ms = itl.p90 * 1e3, n.p95_itl_ms = itl.p95 * 1e3, n.p99_itl_ms = itl.p99 * 1e3;
    n.min_itl_ms = itl.min * 1e3, n.max_itl_ms = itl.max * 1e3;
  }
  n.is_warmup = record.warmup, n.is_streaming = record.streaming;
  n.outcome = static_cast<int64_t>(record.outcome);
  Derive(n);
  row.text(TextColumn::kModel) = record.model, row.text(TextColumn::kEngine) = record.engine;
  row.text(TextColumn::kAgent) = record.agent, row.text(TextColumn::kBatch) = record.batch_id;
  row.text(TextColumn::kEnergyMethod) = record.energy_method;
  row.text(TextColumn::kEnergyVendor) = record.energy_vendor;
  row.text(TextColumn::kMiningSession) = record.mining_session_id;
  row.text(TextColumn::kMetadata) = record.metadata_json;
  row.text(TextColumn::kErrorType) = record.error_type;
  return row;
}

InferenceRecord ToRecord(const Row& row) noexcept {
  const Numbers& n = row.numbers;
  InferenceRecord record;
  record.model = row.text(TextColumn::kModel), record.engine = row.text(TextColumn::kEngine);
  record.agent = row.text(TextColumn::kAgent), record.batch_id = row.text(TextColumn::kBatch);
  record.error_type = row.text(TextColumn::kErrorType);
  record.metadata_json = row.text(TextColumn::kMetadata);
  record.mining_session_id = row.text(TextColumn::kMiningSession);
  record.energy_method = row.text(TextColumn::kEnergyMethod);
  record.energy_vendor = row.text(TextColumn::kEnergyVendor);
  if (std::abs(n.timestamp) < 9e9) record.time = TimeOf(n.timestamp);
  record.outcome = static_cast<Outcome>(n.outcome);
  record.streaming = n.is_streaming != 0, record.warmup = n.is_warmup != 0;
  record.prompt_tokens = Maybe(n.prompt_tokens), record.completion_tokens = Maybe(n.completion_tokens);
  record.prompt_tokens_evaluated = Maybe(n.prompt_tokens_evaluated);
  record.cached_prompt_tokens = Maybe(n.cached_prompt_tokens), record.total_tokens = Maybe(n.total_tokens);
  record.token_counting_version = Maybe(n.token_counting_version);
  record.latency_seconds = n.latency_seconds, record.ttft_seconds = n.ttft, record.cost_usd = n.cost_usd;
  record.consumer_seconds = n.consumer_seconds;
  record.energy_joules = n.energy_joules, record.power_watts = n.power_watts;
  record.energy_uncertainty_joules = n.energy_uncertainty_joules;
  record.prefill_energy_joules = n.prefill_energy_joules;
  record.decode_energy_joules = n.decode_energy_joules;
  record.cpu_energy_joules = n.cpu_energy_joules, record.gpu_energy_joules = n.gpu_energy_joules;
  record.dram_energy_joules = n.dram_energy_joules;
  record.gpu_utilization_ratio = n.gpu_utilization_pct / 100;
  record.gpu_memory_used_bytes = n.gpu_memory_used_gb * kGibibyte;
  record.gpu_temperature_celsius = n.gpu_temperature_c;
  if (!std::isnan(n.mean_itl_ms)) {
    Distribution& itl = record.itl_seconds;
    // Openjarvis does not say of how many; with some there was at least one.
    itl.n = n.itl_count > 0 ? static_cast<uint64_t>(n.itl_count) : 1;
    itl.mean = n.mean_itl_ms / 1e3, itl.p50 = n.median_itl_ms / 1e3, itl.std = n.std_itl_ms / 1e3;
    itl.p90 = n.p90_itl_ms / 1e3, itl.p95 = n.p95_itl_ms / 1e3, itl.p99 = n.p99_itl_ms / 1e3;
    itl.min = n.min_itl_ms / 1e3, itl.max = n.max_itl_ms / 1e3;
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
