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

// The API whose form an answer of the proxy itself has. Several have their models at /v1/models: there the
// client's fields decide.
LlmApi ApiOfAnswer(const LlmRoute& route, const RelayHead& head) noexcept;

// The models that the key may use, of those that have a price and a provider of the API. A pattern lists
// nothing.
HttpResponse ListModels(const ProxyRules& rules, const VirtualKey& key, LlmApi api);
// One of them. Nothing: it is none.
std::optional<HttpResponse> DescribeModel(const ProxyRules& rules, const VirtualKey& key, LlmApi api,
                                          std::string_view model);

}  // namespace gpulens::proxy
