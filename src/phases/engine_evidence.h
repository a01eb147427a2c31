// Which phases an LLM engine was in between two readings of its page. A pure function.
#pragma once

#include <optional>

namespace gpulens::phases {

// Of one engine, summed over its models. Counters since its start; absent: its page does not have them.
struct EngineCounters {
  std::optional<double> running, waiting;  // requests now
  std::optional<double> prompt_tokens, generated_tokens;
  std::optional<double> prefill_seconds, decode_seconds;  // sums over requests
};

// Shares of the time, which add up to at most 1.
struct EngineShares {
  double prefill = 0, decode = 0, queued = 0, idle = 0;
};

// Nothing where the page does not show what the engine did, or a counter fell. Work is divided by the times
// of requests, those of decoding by the requests that decode at once; without such times tokens that were
// generated are decode, else prompt tokens prefill. Without work: queued while requests wait, idle while
// there are none.
std::optional<EngineShares> SharesOf(const EngineCounters& before, const EngineCounters& after) noexcept;

}  // namespace gpulens::phases
