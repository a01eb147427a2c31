// What requests are called in OpenTelemetry's semantic conventions for generative AI (gen_ai.*).
#pragma once

#include <string>
#include <string_view>

#include "net/relay/relay_server.h"
#include "pricing/price_table.h"
#include "proxy/proxy_config.h"
#include "wire/llm/llm_answer.h"

namespace gpulens::proxy {

// gen_ai.provider.name: of the configuration; else by the host of its URL and by its API; else, for a server
// that has OpenAI's API, the provider's own name. Lives as long as the provider.
std::string_view GenaiProviderName(const ProviderConfig& provider) noexcept;

// The name of a model as an attribute of metrics. Clients and servers may write any name, so the closed set
// is: names of the configuration, and names of price rows; a name with a date that has no row is that of the
// row without the date. Any other is "other". Empty: not known. Lives as long as the arguments.
std::string_view BoundedModel(const ProxyConfig& config, const pricing::PriceTable& prices,
                              const ProviderConfig& provider, std::string_view model) noexcept;

// error.type of a request that was sent to a provider; empty: it succeeded. One of a closed set: a status of
// HTTP
// ("429"), how the relay's request failed ("connect", "idle_timeout"), "client_gone" and "client_slow", which
// are no fault of the provider, or "answer_error": an error in an answer with status 200. `answer`: null if
// it was not read.
std::string GenaiErrorType(const RelayOutcome& outcome, const LlmAnswer* answer);

}  // namespace gpulens::proxy
