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
  // `has`: whether a provider that requests of the name go to has this model.
  const auto add = [&](std::string_view name, const auto& has) {
    if (names.size() >= kMostListedModels || !key.AllowsModel(name)) return;
    if (std::ranges::any_of(ProvidersFor(rules.config, api, name), has)) names.emplace_back(name);
  };
  for (size_t i = 0; i < rules.prices.models(); ++i) {
    const pricing::ModelPrices prices = rules.prices.ModelAt(i);
    add(prices.model(), [&](const ProviderConfig* one) { return one->prices == prices.provider(); });
  }
  for (const RouteConfig& route : rules.config.routes) {
    const auto of_route = [&](const ProviderConfig* one) {
      return std::ranges::any_of(route.providers,
                                 [&](size_t at) { return one == &rules.config.providers[at]; });
    };
    for (const std::string& model : route.models) {
      if (model.find('*') == std::string::npos) add(model, of_route);
    }
  }
  for (const ProviderConfig& provider : rules.config.providers) {
    for (const auto& [model, sent] : provider.models)
      add(model, [&](const ProviderConfig* one) { return one == &provider; });
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void AppendModel(std::string& out, LlmApi api, const std::string& name) {
  switch (api) {
    case LlmApi::kGemini:
      out += "{\"name\":";
      AppendJsonString(out, "models/" + name);
      break;
    case LlmApi::kOllama:
      out += "{\"name\":";
      AppendJsonString(out, name);
      out += ",\"model\":";
      AppendJsonString(out, name);
      break;
    case LlmApi::kAnthropic:
      out += "{\"type\":\"model\",\"id\":";
      AppendJsonString(out, name);
      out += ",\"display_name\":";
      AppendJsonString(out, name);
      out += ",\"created_at\":\"1970-01-01T00:00:00Z\"";
      break;
    default:
      out += "{\"id\":";
      AppendJsonString(out, name);
      out += ",\"object\":\"model\",\"created\":0,\"owned_by\":\"gpulens\"";
      break;
  }
  out += '}';
}

HttpResponse JsonPage(std::string body) {
  HttpResponse response;
  response.content_type = "application/json";
  response.body = std::move(body);
  return response;
}

}  // namespace

std::optional<HttpResponse> AnswerOperatorPage(const RelayHead& head, std::string_view path,
                                               const ProxyConfig& config, ProxyShared& shared) {
  if (head.method() != "GET" && head.method() != "HEAD") return std::nullopt;
  if (path == "/-/healthy" || path == "/-/ready" || path == "/health") return HttpResponse::Text(200, "OK");
  if (path != "/metrics" || !config.serve_metrics) return std::nullopt;
  return MetricsPage(head, config, shared);
}

LlmApi ApiOfAnswer(const LlmRoute& route, const RelayHead& head) noexcept {
  if (route.operation != LlmOperation::kModels || route.api != LlmApi::kOpenAi) return route.api;
  if (!head.Header("anthropic-version").empty()) return LlmApi::kAnthropic;
  return head.Header("x-goog-api-key").empty() ? route.api : LlmApi::kGemini;
}

HttpResponse ListModels(const ProxyRules& rules, const VirtualKey& key, LlmApi api) {
  std::string body = api == LlmApi::kGemini || api == LlmApi::kOllama ? "{\"models\":["
                     : api == LlmApi::kAnthropic                      ? "{\"data\":["
                                                                      : "{\"object\":\"list\",\"data\":[";
  for (const std::string& name : ModelsOf(rules, key, api)) {
    if (body.back() != '[') body += ',';
    AppendModel(body, api, name);
  }
  body += api == LlmApi::kAnthropic ? "],\"has_more\":false}" : "]}";
  return JsonPage(std::move(body));
}

std::optional<HttpResponse> DescribeModel(const ProxyRules& rules, const VirtualKey& key, LlmApi api,
                                          std::string_view model) {
  const std::vector<std::string> names = ModelsOf(rules, key, api);
  const auto found = std::ranges::find(names, model);
  if (found == names.end()) return std::nullopt;
  std::string body;
  AppendModel(body, api, *found);
  return JsonPage(std::move(body));
}

}  // namespace gpulens::proxy
