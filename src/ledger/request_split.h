// Divides the energy of an engine among the requests that it served.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpulens::ledger {

// One request inside a window.
struct RequestWork {
  int64_t prefill_tokens = 0;    // of its prompt, that were computed: not those from a cache
  int64_t generated_tokens = 0;  // in the window
  int64_t open_ns = 0;           // time in the window between its begin and its end
};

struct EngineEnergy {
  int64_t active_uj = 0;  // above the base power
  int64_t held_uj = 0;    // the base power of its GPUs
};

struct RequestParts {
  std::vector<int64_t> uj;  // one for each request, in order
  int64_t held_uj = 0;      // of no request: none was open
};

// The parts and `held_uj` add up to active + held exactly, and none is negative. The active energy is divided
// by seconds of work, `prefill_seconds` x prefill tokens + `decode_seconds` x generated tokens (both seconds
// per token; where one of them is not a positive number, all tokens count as equal), and where no token was
// computed by open time. The base power is divided by open time. While no request was open all of it is held.
// Negative tokens, times and energies count as 0.
RequestParts DivideRequests(EngineEnergy energy, std::span<const RequestWork> requests,
                            double prefill_seconds, double decode_seconds);

// `values` as integer weights: the largest becomes 2^40, a positive one at least 1. What is not a positive
// number becomes 0.
void IntegerWeights(std::span<const double> values, std::span<int64_t> weights);

}  // namespace gpulens::ledger
