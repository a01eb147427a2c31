#include "store/telemetry/summary/sums.h"

#include <algorithm>
#include <cmath>

namespace gpulens::telemetry {

void Moments::Add(double value) noexcept {
  min = n == 0 ? value : std::min(min, value);
  max = n == 0 ? value : std::max(max, value);
  sum += value;
  const double before = value - mean;
  mean += before / static_cast<double>(++n);
  squares += before * (value - mean);
}

void Moments::Merge(const Moments& other) noexcept {
  if (other.n == 0) return;
  if (n == 0) {
    *this = other;
    return;
  }
  const auto mine = static_cast<double>(n), theirs = static_cast<double>(other.n);
  const double apart = other.mean - mean;
  squares += other.squares + apart * apart * mine * theirs / (mine + theirs);
  mean += apart * theirs / (mine + theirs);
  n += other.n;
  sum += other.sum;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
}

void Sums::Ratio::Add(double more_above, double more_below) noexcept {
  if (!std::isfinite(more_above) || !std::isfinite(more_below)) return;
  above += more_above;
  below += more_below;
}

void Sums::AddMeasure(Measure which, double value) {
  Measured& measured = measured_[static_cast<size_t>(which)];
  if (measured.sketch.Add(value)) measured.moments.Add(value);
}

void Sums::AddMean(Mean which, double value) noexcept {
  if (!std::isfinite(value)) return;
  Sum& sum = means_[static_cast<size_t>(which)];
  ++sum.n;
  sum.sum += value;
}

// Other programs write what they like.
void Sums::AddCount(Count which, int64_t value) noexcept {
  if (value > 0) counts_[static_cast<size_t>(which)] += static_cast<uint64_t>(value);
}

void Sums::Add(const Row& row) {
  Numbers in = row.numbers;
  // What our store would have set aside: openjarvis writes joules below 0 when a counter could not be read.
  for (double* value : {&in.latency_seconds, &in.ttft, &in.energy_joules, &in.prefill_energy_joules,
                        &in.decode_energy_joules, &in.power_watts})
    if (*value < 0) *value = kNotMeasured;
  Derive(in);  // other programs leave a call's ratios out
  const auto outcome = static_cast<Outcome>(in.outcome);
  AddCount(Count::kCalls, 1);
  if (outcome == Outcome::kError) AddCount(Count::kErrors, 1);
  if (outcome == Outcome::kCancelled) AddCount(Count::kCancelled, 1);
  AddCount(Count::kPrompt, in.prompt_tokens);
  AddCount(Count::kEvaluated, in.prompt_tokens_evaluated);
  AddCount(Count::kCached, in.cached_prompt_tokens);
  AddCount(Count::kCompletion, in.completion_tokens);
  // Streamed calls of openjarvis have no total.
  AddCount(Count::kTotal, in.total_tokens > 0 ? in.total_tokens
                                              : std::max<int64_t>(in.prompt_tokens, 0) +
                                                    std::max<int64_t>(in.completion_tokens, 0));
  AddMeasure(Measure::kLatency, in.latency_seconds);
  AddMeasure(Measure::kTtft, in.ttft);
  AddMeasure(Measure::kItl, in.mean_itl_ms / 1e3);
  AddMeasure(Measure::kEnergy, in.energy_joules);
  AddMeasure(Measure::kCost, in.cost_usd);
  AddMeasure(Measure::kGpuUtilization, in.gpu_utilization_pct / 100);
  AddMean(Mean::kPrefillEnergy, in.prefill_energy_joules);
  AddMean(Mean::kDecodeEnergy, in.decode_energy_joules);
  AddMean(Mean::kItlMedian, in.median_itl_ms / 1e3);
  AddMean(Mean::kItlP95, in.p95_itl_ms / 1e3);
  AddMean(Mean::kTokensPerSecond, in.throughput_tok_per_sec);
  AddMean(Mean::kTokensPerJoule, in.tokens_per_joule);
  AddMean(Mean::kJoulesPerToken, in.energy_per_output_token_joules);
  AddMean(Mean::kTokensPerSecondPerWatt, in.throughput_per_watt);
  const auto tokens = static_cast<double>(std::max<int64_t>(in.completion_tokens, 0));
  // Nobody's tokens cost joules, too: of a call that failed.
  all_per_joule_.Add(static_cast<double>(std::max<int64_t>(in.prompt_tokens, 0)) + tokens, in.energy_joules);
  if (tokens == 0) return;
  per_second_.Add(tokens, in.latency_seconds);
  per_joule_.Add(tokens, in.energy_joules);
  per_watt_second_.Add(tokens,
                       std::isnan(in.energy_joules) ? in.power_watts * in.latency_seconds : in.energy_joules);
}

void Sums::Merge(const Sums& other) {
  for (size_t i = 0; i < kCounts; ++i) counts_[i] += other.counts_[i];
  for (size_t i = 0; i < kMeasures; ++i) {
    measured_[i].moments.Merge(other.measured_[i].moments);
    measured_[i].sketch.Merge(other.measured_[i].sketch);
  }
  for (size_t i = 0; i < kMeans; ++i) {
    means_[i].n += other.means_[i].n;
    means_[i].sum += other.means_[i].sum;
  }
  per_second_.Merge(other.per_second_);
  per_joule_.Merge(other.per_joule_);
  per_watt_second_.Merge(other.per_watt_second_);
  all_per_joule_.Merge(other.all_per_joule_);
}

Distribution Sums::Of(Measure which) const {
  const auto& [moments, sketch] = measured_[static_cast<size_t>(which)];
  Distribution out;
  if (moments.n == 0) return out;
  // The ends are known exactly; what lies between them is not told beyond them.
  const auto quantile = [&](double fraction) {
    return std::clamp(sketch.Quantile(fraction), moments.min, moments.max);
  };
  out.n = moments.n;
  out.sum = moments.sum;
  out.mean = moments.sum / static_cast<double>(moments.n);
  if (moments.n > 1) out.std = std::sqrt(moments.squares / static_cast<double>(moments.n - 1));
  out.min = moments.min;
  out.p50 = quantile(0.5);
  out.p90 = quantile(0.9);
  out.p95 = quantile(0.95);
  out.p99 = quantile(0.99);
  out.max = moments.max;
  return out;
}

double Sums::MeanOf(Mean which) const noexcept {
  const Sum& sum = means_[static_cast<size_t>(which)];
  return sum.n == 0 ? kNotMeasured : sum.sum / static_cast<double>(sum.n);
}

InferenceSummary Sums::Summary(std::string key) const {
  const auto ratio = [](double above, double below) { return below > 0 ? above / below : kNotMeasured; };
  const auto sum = [this](Mean which) {
    const Sum& each = means_[static_cast<size_t>(which)];
    return each.n == 0 ? kNotMeasured : each.sum;
  };
  InferenceSummary out;
  out.key = std::move(key);
  out.calls = count(Count::kCalls);
  out.errors = count(Count::kErrors);
  out.cancelled = count(Count::kCancelled);
  out.prompt_tokens = count(Count::kPrompt);
  out.prompt_tokens_evaluated = count(Count::kEvaluated);
  out.cached_prompt_tokens = count(Count::kCached);
  out.completion_tokens = count(Count::kCompletion);
  out.total_tokens = count(Count::kTotal);
  out.latency_seconds = Of(Measure::kLatency);
  out.ttft_seconds = Of(Measure::kTtft);
  out.energy_joules = Of(Measure::kEnergy);
  out.cost_usd = Of(Measure::kCost);
  out.itl_seconds = Of(Measure::kItl);
  out.gpu_utilization_ratio = Of(Measure::kGpuUtilization);
  out.prefill_energy_joules = sum(Mean::kPrefillEnergy);
  out.decode_energy_joules = sum(Mean::kDecodeEnergy);
  out.joules_per_output_token = ratio(per_joule_.below, per_joule_.above);
  out.output_tokens_per_second = ratio(per_second_.above, per_second_.below);
  // (tokens / s) / (J / s)
  out.output_tokens_per_second_per_watt = ratio(per_watt_second_.above, per_watt_second_.below);
  out.joules_per_token = ratio(all_per_joule_.below, all_per_joule_.above);
  out.call_means = {.itl_median_seconds = MeanOf(Mean::kItlMedian),
                    .itl_p95_seconds = MeanOf(Mean::kItlP95),
                    .tokens_per_second = MeanOf(Mean::kTokensPerSecond),
                    .tokens_per_joule = MeanOf(Mean::kTokensPerJoule),
                    .joules_per_output_token = MeanOf(Mean::kJoulesPerToken),
                    .tokens_per_second_per_watt = MeanOf(Mean::kTokensPerSecondPerWatt)};
  return out;
}

}  // namespace gpulens::telemetry
