#include "phases/engine_evidence.h"

#include <algorithm>

namespace gpulens::phases {
namespace {

std::optional<double> GrowthOf(std::optional<double> before, std::optional<double> after) noexcept {
  if (!before || !after || *after < *before) return std::nullopt;
  return *after - *before;
}

}  // namespace

std::optional<EngineShares> SharesOf(const EngineCounters& before, const EngineCounters& after) noexcept {
  const std::optional<double> prompt = GrowthOf(before.prompt_tokens, after.prompt_tokens);
  const std::optional<double> generated = GrowthOf(before.generated_tokens, after.generated_tokens);
  const double running = (before.running.value_or(0) + after.running.value_or(0)) / 2;
  EngineShares shares;
  if (prompt.value_or(0) <= 0 && generated.value_or(0) <= 0) {
    if (!after.running || (!prompt && !generated)) return std::nullopt;
    // Requests that run and move no token are in a step that takes long: a prompt that is taken in.
    if (*after.running > 0) shares.prefill = 1;
    else if (after.waiting.value_or(0) > 0) shares.queued = 1;
    else shares.idle = 1;
    return shares;
  }
  const std::optional<double> prefill = GrowthOf(before.prefill_seconds, after.prefill_seconds);
  const std::optional<double> decode = GrowthOf(before.decode_seconds, after.decode_seconds);
  if (prefill && decode && *prefill + *decode > 0) {
    const double alone = *decode / std::max(1.0, running);
    shares.prefill = *prefill / (*prefill + alone);
    shares.decode = 1 - shares.prefill;
  } else if (generated.value_or(0) > 0) {
    shares.decode = 1;
  } else {
    shares.prefill = 1;
  }
  return shares;
}

}  // namespace gpulens::phases
