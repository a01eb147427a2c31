#include "proxy/llm_pages.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text.h"

namespace gpulens::proxy {
namespace {

constexpr size_t kMostListedModels = 2000;

HttpResponse MetricsPage(const RelayHead& head, const ProxyConfig& config, ProxyShared& shared) {
  const std::string& token = config.metrics_token;
  if (!token.empty()) {
    const SecretDigest presented = DigestOf(BearerToken(head.Header("authorization")));
    if (!EqualInConstantTime(presented, DigestOf(token))) {
      HttpResponse response = HttpResponse::Text(401, "This page needs the token of METRICS_TOKEN.");
      response.AddHeader("WWW-Authenticate", "Bearer");
      return response;
    }
  }
  ProxyState state;
  state.config = &config;
  shared.read_state(state);
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = shared.metrics.Page(state);
  return response;
}

// The models of the key, by name.
std::vector<std::string> ModelsOf(const ProxyRules& rules, const VirtualKey& key, LlmApi api) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (names.size() < kMostListedModels && key.AllowsModel(name) &&
        !ProvidersFor(rules.config, api, name).empty())
      names.emplace_back(name);
  };
  for (size_t i = 0; i < rules.prices.models(); ++i) {
    const pricing::ModelPrices prices = rules.prices.ModelAt(i);
    const bool configured = std::ranges::any_of(
        rules.config.providers, [&](const ProviderConfig& one) { return one.prices == prices.provider(); });
    if (configured) add(prices.model());
  }
  for (const RouteConfig& route : rules.config.routes) {
    for (const std::string& model : route.models) {
      if (model.find('*') == std::string::npos) add(model);
    }
  }
  for (const ProviderConfig& one : rules.config.providers) {
    for (const auto& [model, sent] : one.models) add(model);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

std::optional<HttpResponse> AnswerOperatorPage(const RelayHead& head, std::string_view path,
                                               const ProxyConfig& config, ProxyShared& shared) {
  if (head.method() != "GET" && head.method() != "HEAD") return std::nullopt;
  if (path == "/-/healthy" || path == "/health") return HttpResponse::Text(200, "OK");
  if (path != "/metrics" || !config.serve_metrics) return std::nullopt;
  return MetricsPage(head, config, shared);
}

HttpResponse ListModels(const ProxyRules& rules, const VirtualKey& key, LlmApi api, const RelayHead& head) {
  const bool anthropic = !head.Header("anthropic-version").empty();
  std::string body = api == LlmApi::kGemini || api == LlmApi::kOllama ? "{\"models\":["
                     : anthropic                                      ? "{\"data\":["
                                                                      : "{\"object\":\"list\",\"data\":[";
  bool first = true;
  for (const std::string& name : ModelsOf(rules, key, api)) {
    if (!first) body += ',';
    first = false;
    if (api == LlmApi::kGemini) {
      body += "{\"name\":";
      AppendJsonString(body, "models/" + name);
    } else if (api == LlmApi::kOllama) {
      body += "{\"name\":";
      AppendJsonString(body, name);
      body += ",\"model\":";
      AppendJsonString(body, name);
    } else if (anthropic) {
      body += "{\"type\":\"model\",\"id\":";
      AppendJsonString(body, name);
      body += ",\"display_name\":";
      AppendJsonString(body, name);
      body += ",\"created_at\":\"1970-01-01T00:00:00Z\"";
    } else {
      body += "{\"id\":";
      AppendJsonString(body, name);
      body += ",\"object\":\"model\",\"created\":0,\"owned_by\":\"gpulens\"";
    }
    body += '}';
  }
  body += anthropic && api == LlmApi::kOpenAi ? "],\"has_more\":false}" : "]}";
  HttpResponse response;
  response.content_type = "application/json";
  response.body = std::move(body);
  return response;
}

}  // namespace gpulens::proxy
