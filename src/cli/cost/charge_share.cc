#include "cli/cost/charge_share.h"

#include <algorithm>
#include <limits>

namespace gpulens {
namespace {

using ledger::RequestWork;

constexpr __int128 kMostPart = std::numeric_limits<int64_t>::max();

// Divides one class among the requests and, with the last of `works`, others.
void DivideClass(const EngineHour::Class& of, int64_t RequestWork::* tokens, std::vector<RequestWork>& works,
                 EngineParts& out) {
  __int128 own = 0;
  for (size_t i = 0; i + 1 < works.size(); ++i) own += works[i].*tokens;
  works.back().*tokens = static_cast<int64_t>(std::clamp<__int128>(of.tokens - own, 0, kMostPart));
  for (const auto amount : {&EngineAmount::pico, &EngineAmount::energy_uj}) {
    const __int128 whole = of.amount.*amount;
    // A correction of an earlier hour can be negative.
    if (whole < 0 || whole > kMostPart) {
      out.undivided.*amount += whole;
      continue;
    }
    const ledger::RequestParts parts =
        ledger::DivideRequests({.active_uj = static_cast<int64_t>(whole)}, works, 1, 1);
    for (size_t i = 0; i < out.requests.size(); ++i) out.requests[i].*amount += parts.uj[i];
    out.others.*amount += __int128{parts.uj.back()} + parts.held_uj;
  }
}

}  // namespace

EngineParts DivideHour(const EngineHour& hour, std::span<const RequestWork> requests) {
  EngineParts out;
  out.requests.resize(requests.size());
  out.held = hour.held;
  out.undivided = hour.unknown;
  const auto only = [&](int64_t RequestWork::* tokens) {
    std::vector<RequestWork> works(requests.size() + 1);
    for (size_t i = 0; i < requests.size(); ++i) {
      works[i].*tokens = std::max<int64_t>(0, requests[i].*tokens);
      works[i].open_ns = requests[i].open_ns;
    }
    return works;
  };
  std::vector<RequestWork> prefill = only(&RequestWork::prefill_tokens);
  DivideClass(hour.prefill, &RequestWork::prefill_tokens, prefill, out);
  std::vector<RequestWork> decode = only(&RequestWork::generated_tokens);
  DivideClass(hour.decode, &RequestWork::generated_tokens, decode, out);
  return out;
}

}  // namespace gpulens
