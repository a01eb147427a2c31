// Pages that the proxy itself answers: health, metrics, and the list of models.
#pragma once

#include <optional>
#include <string_view>

#include "net/message/http_message.h"
#include "net/relay/relay_message.h"
#include "proxy/admission/keys.h"
#include "proxy/llm_policy.h"
#include "wire/llm/llm_routes.h"

namespace gpulens::proxy {

// The page of a path that operators read: /metrics, /-/healthy, /health. Nothing: it is no such path.
std::optional<HttpResponse> AnswerOperatorPage(const RelayHead& head, std::string_view path,
                                               const ProxyConfig& config, ProxyShared& shared);

// The models that the key may use, of those that have a price and a route, as the API lists them. A pattern
// lists nothing.
HttpResponse ListModels(const ProxyRules& rules, const VirtualKey& key, LlmApi api, const RelayHead& head);

}  // namespace gpulens::proxy
