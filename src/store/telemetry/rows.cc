#include "store/telemetry/rows.h"

#include <cmath>

#include "store/telemetry/row_reader.h"

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

}  // namespace gpulens::telemetry
