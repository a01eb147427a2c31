#include "ledger/request_split.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ledger/apportion.h"

namespace gpulens::ledger {

void IntegerWeights(std::span<const double> values, std::span<int64_t> weights) {
  const auto usable = [](double value) { return value > 0 && std::isfinite(value); };
  double largest = 0;
  for (double value : values) {
    if (usable(value)) largest = std::max(largest, value);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!usable(values[i])) {
      weights[i] = 0;
    } else {
      weights[i] = std::max<int64_t>(1, std::llround(std::min(1.0, values[i] / largest) * 0x1p40));
    }
  }
}

RequestParts DivideRequests(EngineEnergy energy, std::span<const RequestWork> requests,
                            double prefill_seconds, double decode_seconds) {
  const int64_t active = std::max<int64_t>(0, energy.active_uj);
  // Bounded, so that the sum fits.
  const int64_t held =
      std::min(std::max<int64_t>(0, energy.held_uj), std::numeric_limits<int64_t>::max() - active);
  RequestParts out;
  out.uj.assign(requests.size(), 0);
  const auto usable = [](double value) { return value > 0 && std::isfinite(value); };
  const bool known = usable(prefill_seconds) && usable(decode_seconds);
  const double alpha = known ? prefill_seconds : 1, beta = known ? decode_seconds : 1;
  std::vector<double> work(requests.size());
  std::vector<int64_t> weights(requests.size()), open(requests.size()), parts(requests.size());
  bool any_work = false, any_open = false;
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto tokens = [](int64_t count) { return static_cast<double>(std::max<int64_t>(0, count)); };
    work[i] = alpha * tokens(requests[i].prefill_tokens) + beta * tokens(requests[i].generated_tokens);
    open[i] = std::max<int64_t>(0, requests[i].open_ns);
    any_work = any_work || work[i] > 0;
    any_open = any_open || open[i] > 0;
  }
  IntegerWeights(work, weights);
  if (!any_work && !any_open) {
    out.held_uj = active + held;
    return out;
  }
  Apportion(active, any_work ? weights : open, parts);
  for (size_t i = 0; i < parts.size(); ++i) out.uj[i] += parts[i];
  if (!any_open) {
    out.held_uj = held;
    return out;
  }
  Apportion(held, open, parts);
  for (size_t i = 0; i < parts.size(); ++i) out.uj[i] += parts[i];
  return out;
}

}  // namespace gpulens::ledger
