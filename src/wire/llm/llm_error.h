// Errors that a proxy of LLM APIs makes itself, as the API of the route has them, so that clients of each
// provider understand them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/llm/llm_answer.h"
#include "wire/llm/llm_routes.h"

namespace gpulens {

enum class LlmError : uint8_t {
  kBadRequest,
  kBadKey,
  kModelNotAllowed,
  kUnknownRoute,
  kUnknownModel,
  kConflict,  // the idempotency key of a request that is not settled
  kTooLarge,
  kLimitReached,  // of requests, tokens or streams: later there is room again
  kBudgetUsedUp,
  kUpstreamAway,
  kOverloaded,  // the proxy itself, or its ledger
  kUpstreamTimeout,
};
inline constexpr size_t kLlmErrors = 12;
// "limit_reached", … as in labels.
std::string_view LlmErrorName(LlmError of) noexcept;
int LlmErrorStatus(LlmError of) noexcept;

struct LlmErrorAnswer {
  int status = 500;
  std::vector<std::pair<std::string, std::string>> headers;  // with Content-Type, without Content-Length
  std::string body;
};
// `message` is for people and quotes nothing secret. `retry_after_s`: when it makes sense again; 0: not
// known. A client must not repeat what cannot succeed: "x-should-retry: false" goes along with a budget that
// is used up.
LlmErrorAnswer MakeLlmError(LlmApi api, LlmError error, std::string_view message, std::string_view request_id,
                            int64_t retry_after_s = 0);

// The error as the last event of a stream, whose head has been sent; the connection is closed after it,
// without the mark of the end. `events`: frames that were passed on, which decides the comma of an array and
// the number of an event. Empty for an answer that is no stream: only closing the connection shows that it is
// not whole.
std::string LlmStreamError(const LlmRoute& route, LlmFraming framing, LlmError error,
                           std::string_view message, std::string_view request_id, int64_t events);

}  // namespace gpulens
