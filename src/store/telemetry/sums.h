// Aggregate of a group of calls: counts, sums, moments and quantile sketches. Aggregates can be merged,
// exactly except for floating-point rounding. Values that were not measured are not counted: an average is
// over the calls that measured it, a ratio is of the sums over the calls that have both sides.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <gpulens/inference.h>

#include "store/sketch/quantile_sketch.h"
#include "store/telemetry/rows.h"

namespace gpulens::telemetry {

// Moments of a number per call. Merging: Chan, Golub, LeVeque, 1979.
struct Moments {
  uint64_t n = 0;
  double sum = 0, mean = 0, squares = 0, min = 0, max = 0;

  void Add(double value) noexcept;
  void Merge(const Moments& other) noexcept;
};

// Numbers with quantiles.
enum class CallMeasure : uint8_t { kLatency, kTtft, kItl, kEnergy, kCost, kGpuUtilization };
inline constexpr size_t kMeasures = 6;
// Sum and mean of a number.
enum class CallMean : uint8_t {
  kPrefillEnergy,
  kDecodeEnergy,
  kItlMedian,
  kItlP95,
  kTokensPerSecond,
  kTokensPerJoule,
  kJoulesPerToken,
  kTokensPerSecondPerWatt,
};
inline constexpr size_t kMeans = 8;
enum class CallCount : uint8_t {
  kCalls,
  kErrors,
  kCancelled,
  kPrompt,
  kEvaluated,
  kCached,
  kCompletion,
  kTotal
};
inline constexpr size_t kCounts = 8;

// A value type; used by one thread at a time.
class CallSums {
 public:
  void Add(const RecordRow& row);
  void Merge(const CallSums& other);

  // A version, then numbers; the same bytes on any machine.
  void AppendBytes(std::string& out) const;
  // Adds the sums of AppendBytes. kDataLoss for other bytes, which change nothing.
  Status MergeBytes(std::string_view bytes);

  uint64_t count(CallCount which) const noexcept { return counts_[static_cast<size_t>(which)]; }
  InferenceSummary Summary(std::string key) const;

 private:
  struct Measured {
    Moments moments;
    QuantileSketch sketch;
  };
  struct Sum {
    uint64_t n = 0;
    double sum = 0;
  };
  // Sums over the calls that have both.
  struct Ratio {
    double above = 0, below = 0;

    void Add(double more_above, double more_below) noexcept;
    void Merge(const Ratio& other) noexcept { Add(other.above, other.below); }
  };

  void AddMeasure(CallMeasure which, double value);
  void AddMean(CallMean which, double value) noexcept;
  void AddCount(CallCount which, int64_t value) noexcept;
  Distribution Of(CallMeasure which) const;
  double MeanOf(CallMean which) const noexcept;

  std::array<uint64_t, kCounts> counts_{};
  std::array<Measured, kMeasures> measured_;
  std::array<Sum, kMeans> means_{};
  Ratio per_second_, per_joule_;  // output tokens, of the calls that have some
  Ratio per_watt_second_;         // the same; joules are energy, else mean watts times seconds
  Ratio all_per_joule_;           // prompt and completion tokens, of all calls whose energy is known
};

// The columns that CallSums, their keys and their groups are made of.
inline constexpr std::string_view kSummedColumns[] = {"timestamp",
                                                      "model_id",
                                                      "engine",
                                                      "agent",
                                                      "batch_id",
                                                      "is_warmup",
                                                      "prompt_tokens",
                                                      "prompt_tokens_evaluated",
                                                      "completion_tokens",
                                                      "total_tokens",
                                                      "cached_prompt_tokens",
                                                      "latency_seconds",
                                                      "ttft",
                                                      "cost_usd",
                                                      "energy_joules",
                                                      "power_watts",
                                                      "gpu_utilization_pct",
                                                      "throughput_tok_per_sec",
                                                      "tokens_per_joule",
                                                      "energy_per_output_token_joules",
                                                      "throughput_per_watt",
                                                      "prefill_energy_joules",
                                                      "decode_energy_joules",
                                                      "mean_itl_ms",
                                                      "median_itl_ms",
                                                      "p95_itl_ms",
                                                      "outcome",
                                                      "measured"};

}  // namespace gpulens::telemetry
