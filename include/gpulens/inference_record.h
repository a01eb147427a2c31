// Record of one call of an inference engine: its model, tokens, times and energy.
//
// Plain values in base units. Values that were not measured are empty, nullopt or NaN, never 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

#include <gpulens/stats.h>
#include <gpulens/status.h>

namespace gpulens {

enum class Outcome : uint8_t { kOk, kError, kCancelled };
// "ok", "error", "cancelled". Static storage.
constexpr std::string_view OutcomeName(Outcome outcome) noexcept {
  switch (outcome) {
    case Outcome::kOk: return "ok";
    case Outcome::kError: return "error";
    case Outcome::kCancelled: return "cancelled";
  }
  return "ok";
}

// InferenceStore::Record copies the texts. The texts of a record passed to a callback are valid during the
// callback.
struct InferenceRecord {
  std::string_view model = {}, engine = {}, agent = {};
  std::string_view batch_id = {};       // shared by the calls of one batch
  std::string_view error_type = {};     // of Outcome::kError
  std::string_view metadata_json = {};  // an object; empty: {}
  std::string_view mining_session_id = {};
  std::chrono::system_clock::time_point time = {};  // when the call began; zero: now
  Outcome outcome = Outcome::kOk;
  bool streaming = false, warmup = false;

  std::optional<int64_t> prompt_tokens = {};
  std::optional<int64_t> prompt_tokens_evaluated = {};  // those not in a prefix cache
  std::optional<int64_t> cached_prompt_tokens = {};
  std::optional<int64_t> completion_tokens = {};
  std::optional<int64_t> total_tokens = {};            // nullopt: prompt and completion, if both are known
  std::optional<int64_t> token_counting_version = {};  // how tokens were counted; nullopt: kTokensCounted

  double latency_seconds = kNotMeasured;   // of the engine, without the consumer's time
  double ttft_seconds = kNotMeasured;      // time to the first token
  double consumer_seconds = kNotMeasured;  // time that the consumer took between tokens
  double cost_usd = kNotMeasured;
  Distribution itl_seconds = {};  // from token to token

  double energy_joules = kNotMeasured, energy_uncertainty_joules = kNotMeasured;
  double prefill_energy_joules = kNotMeasured, decode_energy_joules = kNotMeasured;
  double gpu_energy_joules = kNotMeasured, cpu_energy_joules = kNotMeasured,
         dram_energy_joules = kNotMeasured;
  std::string_view energy_method = {};  // "counter", "power_integral"
  std::string_view energy_vendor = {};  // "nvidia", "amd", "cpu_rapl"
  double power_watts = kNotMeasured;    // mean
  double gpu_utilization_ratio = kNotMeasured;
  double gpu_memory_used_bytes = kNotMeasured;
  double gpu_temperature_celsius = kNotMeasured;
};

// token_counting_version of records made by this library: prompt tokens include cached ones, and completion
// tokens are tokens, not chunks.
inline constexpr int64_t kTokensCounted = 2;

}  // namespace gpulens
