#include "proxy/genai_names.h"

#include <algorithm>

namespace gpulens::proxy {
namespace {

// Ends of hosts, and the well-known names of the conventions.
constexpr std::pair<std::string_view, std::string_view> kHosts[] = {
    {"openai.azure.com", "azure.ai.openai"},
    {"cognitiveservices.azure.com", "azure.ai.openai"},
    {"services.ai.azure.com", "azure.ai.inference"},
    {"models.ai.azure.com", "azure.ai.inference"},
    {"openai.com", "openai"},
    {"anthropic.com", "anthropic"},
    {"generativelanguage.googleapis.com", "gcp.gemini"},
    {"aiplatform.googleapis.com", "gcp.vertex_ai"},
    {"amazonaws.com", "aws.bedrock"},
    {"cohere.com", "cohere"},
    {"cohere.ai", "cohere"},
    {"deepseek.com", "deepseek"},
    {"groq.com", "groq"},
    {"mistral.ai", "mistral_ai"},
    {"moonshot.ai", "moonshot_ai"},
    {"moonshot.cn", "moonshot_ai"},
    {"perplexity.ai", "perplexity"},
    {"x.ai", "x_ai"},
    {"cloud.ibm.com", "ibm.watsonx.ai"},
};

bool IsIn(std::string_view host, std::string_view domain) noexcept {
  if (!host.ends_with(domain)) return false;
  // Vertex's hosts have the region before a hyphen.
  return host.size() == domain.size() || host[host.size() - domain.size() - 1] == '.' ||
         host[host.size() - domain.size() - 1] == '-';
}

}  // namespace

std::string_view GenaiProviderName(const ProviderConfig& provider) noexcept {
  if (!provider.genai_name.empty()) return provider.genai_name;
  for (const auto& [domain, name] : kHosts) {
    if (IsIn(provider.upstream.url.host, domain)) return name;
  }
  switch (provider.api) {
    case LlmApi::kAnthropic: return "anthropic";
    case LlmApi::kGemini: return "gcp.gemini";
    case LlmApi::kOllama: return "ollama";
    case LlmApi::kTgi: return "huggingface_tgi";
    case LlmApi::kCohere: return "cohere";
    case LlmApi::kBedrock: return "aws.bedrock";
    case LlmApi::kOpenAi: break;
  }
  return provider.name;
}

std::string_view BoundedModel(const ProxyConfig& config, const pricing::PriceTable& prices,
                              const ProviderConfig& provider, std::string_view model) noexcept {
  if (model.empty()) return {};
  if (const auto at = provider.models.find(model); at != provider.models.end()) return at->first;
  if (const pricing::ModelPrices found = prices.FindEstimate(provider.prices, model)) return found.model();
  for (const auto& [name, sent] : provider.models) {
    if (sent == model) return sent;
  }
  for (const RouteConfig& route : config.routes) {
    for (const std::string& name : route.models) {
      if (name == model && name.find('*') == std::string::npos) return name;
    }
  }
  return "other";
}

std::string GenaiErrorType(const RelayOutcome& outcome, const LlmAnswer* answer) {
  switch (outcome.end) {
    case RelayEnd::kComplete:
    case RelayEnd::kAnswered: break;
    case RelayEnd::kUpstreamFailed: return std::string(RelayFailureName(outcome.failure));
    default: return std::string(RelayEndName(outcome.end));
  }
  if (outcome.status >= 400) return std::to_string(outcome.status <= 599 ? outcome.status : 599);
  return answer && answer->error ? "answer_error" : "";
}

}  // namespace gpulens::proxy
