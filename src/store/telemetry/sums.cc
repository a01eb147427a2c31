#include "store/telemetry/sums.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpulens::telemetry {
namespace {

constexpr char kSumsVersion = 2;  // version 1 had two ratios: its file is rolled up again (schema.cc)
// Maximum count of one roll-up.
constexpr uint64_t kMostCount = uint64_t{1} << 56;

void Append(std::string& out, uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) out += static_cast<char>(value >> (8 * byte));
}
void Append(std::string& out, double value) { Append(out, std::bit_cast<uint64_t>(value)); }

class SumsReader {
 public:
  explicit SumsReader(std::string_view bytes) noexcept : rest_(bytes) {}
  bool done() const noexcept { return good_ && rest_.empty(); }

  uint8_t Byte() noexcept {
    const std::string_view bytes = Bytes(1);
    return bytes.empty() ? 0 : static_cast<uint8_t>(bytes.front());
  }
  uint64_t Number() noexcept {
    uint64_t value = 0;
    int shift = 0;
    for (char byte : Bytes(8)) {
      value |= uint64_t{static_cast<unsigned char>(byte)} << shift;
      shift += 8;
    }
    return value;
  }
  uint64_t Count() noexcept {
    const uint64_t count = Number();
    good_ = good_ && count <= kMostCount;
    return count;
  }
  double Real() noexcept {
    const auto value = std::bit_cast<double>(Number());
    good_ = good_ && std::isfinite(value);
    return value;
  }
  // Whether something follows.
  bool Some() noexcept {
    const uint8_t some = Byte();
    good_ = good_ && some <= 1;
    return good_ && some == 1;
  }
  std::string_view Bytes(uint64_t n) noexcept {
    good_ = good_ && n <= rest_.size();
    if (!good_) return {};
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  void Refuse() noexcept { good_ = false; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

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

void CallSums::Ratio::Add(double more_above, double more_below) noexcept {
  if (!std::isfinite(more_above) || !std::isfinite(more_below)) return;
  above += more_above;
  below += more_below;
}

void CallSums::AddMeasure(CallMeasure which, double value) {
  Measured& measured = measured_[static_cast<size_t>(which)];
  if (measured.sketch.Add(value)) measured.moments.Add(value);
}

void CallSums::AddMean(CallMean which, double value) noexcept {
  if (!std::isfinite(value)) return;
  Sum& sum = means_[static_cast<size_t>(which)];
  ++sum.n;
  sum.sum += value;
}

// Ignores negative counts, which other programs may write.
void CallSums::AddCount(CallCount which, int64_t value) noexcept {
  if (value > 0) counts_[static_cast<size_t>(which)] += static_cast<uint64_t>(value);
}

void CallSums::Add(const RecordRow& row) {
  RecordNumbers in = row.numbers;
  // Values that our store rejects: openjarvis writes joules below 0 when a counter could not be read.
  for (double* value : {&in.latency_seconds, &in.ttft, &in.energy_joules, &in.prefill_energy_joules,
                        &in.decode_energy_joules, &in.power_watts})
    if (*value < 0) *value = kNotMeasured;
  Derive(in);  // other programs omit the ratios of a call
  const auto outcome = static_cast<Outcome>(in.outcome);
  AddCount(CallCount::kCalls, 1);
  if (outcome == Outcome::kError) AddCount(CallCount::kErrors, 1);
  if (outcome == Outcome::kCancelled) AddCount(CallCount::kCancelled, 1);
  AddCount(CallCount::kPrompt, in.prompt_tokens);
  AddCount(CallCount::kEvaluated, in.prompt_tokens_evaluated);
  AddCount(CallCount::kCached, in.cached_prompt_tokens);
  AddCount(CallCount::kCompletion, in.completion_tokens);
  // Streamed calls of openjarvis have no total.
  AddCount(CallCount::kTotal, in.total_tokens > 0 ? in.total_tokens
                                                  : std::max<int64_t>(in.prompt_tokens, 0) +
                                                        std::max<int64_t>(in.completion_tokens, 0));
  AddMeasure(CallMeasure::kLatency, in.latency_seconds);
  AddMeasure(CallMeasure::kTtft, in.ttft);
  AddMeasure(CallMeasure::kItl, in.mean_itl_ms / 1e3);
  AddMeasure(CallMeasure::kEnergy, in.energy_joules);
  AddMeasure(CallMeasure::kCost, in.cost_usd);
  AddMeasure(CallMeasure::kGpuUtilization, in.gpu_utilization_pct / 100);
  AddMean(CallMean::kPrefillEnergy, in.prefill_energy_joules);
  AddMean(CallMean::kDecodeEnergy, in.decode_energy_joules);
  AddMean(CallMean::kItlMedian, in.median_itl_ms / 1e3);
  AddMean(CallMean::kItlP95, in.p95_itl_ms / 1e3);
  AddMean(CallMean::kTokensPerSecond, in.throughput_tok_per_sec);
  AddMean(CallMean::kTokensPerJoule, in.tokens_per_joule);
  AddMean(CallMean::kJoulesPerToken, in.energy_per_output_token_joules);
  AddMean(CallMean::kTokensPerSecondPerWatt, in.throughput_per_watt);
  const auto tokens = static_cast<double>(std::max<int64_t>(in.completion_tokens, 0));
  // Energy of calls without tokens, which failed, is included.
  all_per_joule_.Add(static_cast<double>(std::max<int64_t>(in.prompt_tokens, 0)) + tokens, in.energy_joules);
  if (tokens == 0) return;
  per_second_.Add(tokens, in.latency_seconds);
  per_joule_.Add(tokens, in.energy_joules);
  per_watt_second_.Add(tokens,
                       std::isnan(in.energy_joules) ? in.power_watts * in.latency_seconds : in.energy_joules);
}

void CallSums::Merge(const CallSums& other) {
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

Distribution CallSums::Of(CallMeasure which) const {
  const auto& [moments, sketch] = measured_[static_cast<size_t>(which)];
  Distribution out;
  if (moments.n == 0) return out;
  // The extremes are exact and bound the quantiles; those of a damaged file may be in the wrong order.
  const auto quantile = [&](double fraction) {
    return std::max(moments.min, std::min(sketch.Quantile(fraction), moments.max));
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

double CallSums::MeanOf(CallMean which) const noexcept {
  const Sum& sum = means_[static_cast<size_t>(which)];
  return sum.n == 0 ? kNotMeasured : sum.sum / static_cast<double>(sum.n);
}

InferenceSummary CallSums::Summary(std::string key) const {
  const auto ratio = [](double above, double below) { return below > 0 ? above / below : kNotMeasured; };
  const auto sum = [this](CallMean which) {
    const Sum& each = means_[static_cast<size_t>(which)];
    return each.n == 0 ? kNotMeasured : each.sum;
  };
  InferenceSummary out;
  out.key = std::move(key);
  out.calls = count(CallCount::kCalls);
  out.errors = count(CallCount::kErrors);
  out.cancelled = count(CallCount::kCancelled);
  out.prompt_tokens = count(CallCount::kPrompt);
  out.prompt_tokens_evaluated = count(CallCount::kEvaluated);
  out.cached_prompt_tokens = count(CallCount::kCached);
  out.completion_tokens = count(CallCount::kCompletion);
  out.total_tokens = count(CallCount::kTotal);
  out.latency_seconds = Of(CallMeasure::kLatency);
  out.ttft_seconds = Of(CallMeasure::kTtft);
  out.energy_joules = Of(CallMeasure::kEnergy);
  out.cost_usd = Of(CallMeasure::kCost);
  out.itl_seconds = Of(CallMeasure::kItl);
  out.gpu_utilization_ratio = Of(CallMeasure::kGpuUtilization);
  out.prefill_energy_joules = sum(CallMean::kPrefillEnergy);
  out.decode_energy_joules = sum(CallMean::kDecodeEnergy);
  out.joules_per_output_token = ratio(per_joule_.below, per_joule_.above);
  out.output_tokens_per_second = ratio(per_second_.above, per_second_.below);
  // (tokens / s) / (J / s)
  out.output_tokens_per_second_per_watt = ratio(per_watt_second_.above, per_watt_second_.below);
  out.joules_per_token = ratio(all_per_joule_.below, all_per_joule_.above);
  out.call_means = {.itl_median_seconds = MeanOf(CallMean::kItlMedian),
                    .itl_p95_seconds = MeanOf(CallMean::kItlP95),
                    .tokens_per_second = MeanOf(CallMean::kTokensPerSecond),
                    .tokens_per_joule = MeanOf(CallMean::kTokensPerJoule),
                    .joules_per_output_token = MeanOf(CallMean::kJoulesPerToken),
                    .tokens_per_second_per_watt = MeanOf(CallMean::kTokensPerSecondPerWatt)};
  return out;
}

void CallSums::AppendBytes(std::string& out) const {
  out += kSumsVersion;
  for (uint64_t count : counts_) Append(out, count);
  std::string sketch;
  for (const Measured& measured : measured_) {
    const Moments& moments = measured.moments;
    out += moments.n == 0 ? '\0' : '\1';
    if (moments.n == 0) continue;
    for (double value : {moments.sum, moments.mean, moments.squares, moments.min, moments.max})
      Append(out, value);
    sketch.clear();
    measured.sketch.AppendBytes(sketch);
    Append(out, uint64_t{sketch.size()});
    out += sketch;
  }
  for (const Sum& mean : means_) {
    out += mean.n == 0 ? '\0' : '\1';
    if (mean.n == 0) continue;
    Append(out, mean.n);
    Append(out, mean.sum);
  }
  for (const Ratio& ratio : {per_second_, per_joule_, per_watt_second_, all_per_joule_}) {
    Append(out, ratio.above);
    Append(out, ratio.below);
  }
}

Status CallSums::MergeBytes(std::string_view bytes) {
  Status bad{Code::kDataLoss, "not a roll-up, or one of another version"};
  SumsReader reader(bytes);
  if (reader.Byte() != kSumsVersion) return bad;
  CallSums read;
  for (uint64_t& count : read.counts_) count = reader.Count();
  for (Measured& measured : read.measured_) {
    if (!reader.Some()) continue;
    Moments& moments = measured.moments;
    for (double* value : {&moments.sum, &moments.mean, &moments.squares, &moments.min, &moments.max})
      *value = reader.Real();
    const std::string_view sketch = reader.Bytes(reader.Number());
    if (!measured.sketch.MergeBytes(sketch)) return bad;
    moments.n = measured.sketch.count();
    if (moments.n == 0 || moments.min > moments.max) reader.Refuse();
  }
  for (Sum& mean : read.means_) {
    if (!reader.Some()) continue;
    mean.n = reader.Count();
    mean.sum = reader.Real();
    if (mean.n == 0) reader.Refuse();
  }
  for (Ratio* ratio : {&read.per_second_, &read.per_joule_, &read.per_watt_second_, &read.all_per_joule_}) {
    ratio->above = reader.Real();
    ratio->below = reader.Real();
  }
  if (!reader.done()) return bad;
  Merge(read);
  return Ok();
}

}  // namespace gpulens::telemetry
