#include "cli/migrate/litellm.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "base/yaml/yaml.h"
#include "cli/common/output.h"
#include "config/expand.h"
#include "config/value_parse.h"
#include "net/message/address.h"
#include "pricing/money.h"
#include "proxy/admission/budgets.h"

namespace gpulens {
namespace {

// A provider of LiteLLM: the word before the slash of a model.
struct LiteLlmKind {
  std::string_view word, api, url;  // an empty url: the configuration has it
  std::string_view prices;          // its name in the list of prices; empty: none
  bool own = false;                 // usually on machines of one's own
  std::string_view extra = {};      // a further line of the provider
};
constexpr LiteLlmKind kKinds[] = {
    {"openai", "openai", "https://api.openai.com", "openai"},
    {"text-completion-openai", "openai", "https://api.openai.com", "openai"},
    {"azure", "openai", "", "azure"},
    {"azure_text", "openai", "", "azure"},
    {"anthropic", "anthropic", "https://api.anthropic.com", "anthropic"},
    {"gemini", "gemini", "https://generativelanguage.googleapis.com", "gemini"},
    {"mistral", "openai", "https://api.mistral.ai", "mistral"},
    {"groq", "openai", "https://api.groq.com/openai", "groq"},
    {"deepseek", "openai", "https://api.deepseek.com", "deepseek"},
    {"xai", "openai", "https://api.x.ai", "xai", false, "reasoning_besides: true"},
    {"together_ai", "openai", "https://api.together.xyz", "together_ai"},
    {"openrouter", "openai", "https://openrouter.ai/api", ""},
    {"fireworks_ai", "openai", "https://api.fireworks.ai/inference", ""},
    {"cerebras", "openai", "https://api.cerebras.ai", "cerebras"},
    {"sambanova", "openai", "https://api.sambanova.ai", "sambanova"},
    {"moonshot", "openai", "https://api.moonshot.ai", "moonshot"},
    {"dashscope", "openai", "https://dashscope-intl.aliyuncs.com/compatible-mode", "dashscope"},
    {"nvidia_nim", "openai", "https://integrate.api.nvidia.com", ""},
    {"cohere", "cohere", "https://api.cohere.com", "cohere"},
    {"cohere_chat", "cohere", "https://api.cohere.com", "cohere_chat"},
    {"hosted_vllm", "openai", "", "", true, "stream_usage: continuous"},
    {"vllm", "openai", "", "", true, "stream_usage: continuous"},
    {"ollama", "openai", "http://127.0.0.1:11434", "", true},
    {"ollama_chat", "openai", "http://127.0.0.1:11434", "", true},
    {"lm_studio", "openai", "", "", true},
    {"llamafile", "openai", "", "", true},
    {"xinference", "openai", "", "", true},
    {"custom_openai", "openai", "", ""},
    {"openai_like", "openai", "", ""},
    {"litellm_proxy", "openai", "", ""},
};

constexpr std::string_view kEnvironment = "os.environ/";
constexpr size_t kMostModelBytes = 200;

// Whether it can be a model of the configuration: a key of YAML has at most 1,024 characters, and a control
// character takes six.
bool IsModel(std::string_view name) noexcept {
  return name.size() <= kMostModelBytes &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < ' '; });
}

bool IsVariable(std::string_view name) noexcept {
  return !name.empty() && name.size() <= 128 && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

// os.environ/NAME as ${NAME}, other texts as they are.
std::string ValueOf(const std::string& text) {
  if (text.starts_with(kEnvironment) && IsVariable(std::string_view(text).substr(kEnvironment.size())))
    return "${" + text.substr(kEnvironment.size()) + "}";
  return EscapeDollars(text);
}

std::string Quoted(std::string_view text) {
  std::string out;
  AppendJsonString(out, text);
  return out;
}
std::string QuotedList(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? ", " : "") + Quoted(EscapeDollars(text));
  return out + "]";
}

// A name of letters, digits and hyphens.
std::string NameFrom(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 48)) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    else if (plain) out += c;
    else if (!out.empty() && out.back() != '-') out += '-';
  }
  while (out.ends_with('-')) out.pop_back();
  return out.empty() ? "provider" : out;
}

std::string_view HostOf(std::string_view url) {
  const size_t at = url.find("://");
  if (at == std::string_view::npos) return {};
  url.remove_prefix(at + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  url = url.substr(url.rfind('@') + 1);
  return url.substr(0, url.starts_with('[') ? url.find(']') + 1 : url.find(':'));
}

// A machine of one's own: a name without a dot, or an address that is not routed.
bool IsOwnHost(std::string_view host) {
  if (host.find('.') == std::string_view::npos) return true;
  return host.starts_with("127.") || host.starts_with("10.") || host.starts_with("192.168.") ||
         host.ends_with(".local") || host.ends_with(".internal");
}

// "600", "600.0": seconds above 0 and at most a day; none for others.
std::optional<std::string> SecondsOf(const std::string& text) {
  const auto seconds = ParseDouble(text);
  if (!seconds || !(*seconds >= 1 && *seconds <= 86'400)) return std::nullopt;
  return std::to_string(static_cast<int64_t>(*seconds)) + "s";
}

// A price in USD per token as micro-dollars per million, rounded: "2.5e-06" is 2500000.
std::optional<std::string> ListedPrice(const std::string& text) {
  const auto usd = ParseDouble(text);
  if (!usd || !(*usd >= 0 && *usd <= 1)) return std::nullopt;
  char room[64];
  const int size = std::snprintf(room, sizeof room, "%.0f", *usd * 1e12);
  return std::string(room, static_cast<size_t>(size));
}

class LiteLlmReader {
 public:
  explicit LiteLlmReader(const std::string& name) : name_(name) {}

  Result<LiteLlmDraft> Convert(const YamlNode& top) {
    const YamlNode* models = top.Find("model_list");
    if (!models || models->kind != YamlNode::kList)
      return YamlError(name_ + " ", std::max(1, top.mark.line),
                       "no model_list: not a configuration of LiteLLM's proxy");
    for (const YamlNode* model : models->items) ReadModel(*model);
    for (const YamlNode::Member& member : top.members) {
      if (member.key == "model_list") continue;
      if (member.key == "router_settings") Router(*member.value);
      else if (member.key == "litellm_settings") Settings(*member.value);
      else if (member.key == "general_settings") General(*member.value);
      else
        Left(member.key_mark.line, member.key,
             member.key == "environment_variables" ? "set them where the proxy is started; values are secrets"
                                                   : "has no counterpart");
    }
    if (providers_.empty())
      return YamlError(
          name_ + " ", std::max(1, models->mark.line),
          "no model of a provider that the proxy knows" + (left_.empty() ? "" : ": " + left_.begin()->first));
    return Draft();
  }

 private:
  struct Provider {
    std::string name, api, url, key;
    const LiteLlmKind* kind = nullptr;
    bool own = false;
    std::map<std::string, std::string> models;  // by the names that clients use
    std::string head, idle, connections;
  };
  struct Route {
    std::vector<std::string> models;
    std::vector<size_t> providers;
  };

  // A line of the configuration that is not moved, and why.
  void Left(int line, std::string_view key, std::string_view why) {
    left_[Printable(key.substr(0, 64)) + ": " + std::string(why)].insert(line);
  }

  void ReadModel(const YamlNode& model) {
    const int line = std::max(1, model.mark.line);
    const YamlNode* params = model.Find("litellm_params");
    const std::string name = model.TextOf("model_name");
    if (!params || params->kind != YamlNode::kMap || name.empty() || params->TextOf("model").empty())
      return Left(line, "model_list", "an entry without model_name or litellm_params.model");
    if (!IsModel(name) || !IsModel(params->TextOf("model")))
      return Left(line, "model_list", "a name longer than 200 bytes or with control characters");
    std::string word, upstream;
    const LiteLlmKind* kind = KindOf(*params, word, upstream);
    if (!kind)
      return Left(line, name,
                  word.empty() ? std::string("its provider is not in the name of its model")
                               : "the proxy does not know " + Printable(word.substr(0, 64)));
    const std::string base =
        params->TextOf("api_base").empty() ? params->TextOf("base_url") : params->TextOf("api_base");
    const std::string url = UrlOf(*kind, base, line);
    if (url.empty() && !base.empty()) return;  // it has a comment
    if (url.empty()) return Left(line, name, "it has no api_base, and its provider no address of its own");
    const size_t at = ProviderFor(*kind, word, url, *params, name, upstream);
    ReadParams(*params, providers_[at], upstream);
    for (const YamlNode::Member& member : model.members) {
      if (member.key != "model_name" && member.key != "litellm_params" && member.key != "model_info")
        Left(member.key_mark.line, member.key, "has no counterpart");
    }
    if (name.find('*') != std::string::npos) return Wildcard(name, at, line);
    providers_[at].models.emplace(name, upstream);
    RouteOf(name, at);
  }

  const LiteLlmKind* KindOf(const YamlNode& params, std::string& word, std::string& upstream) {
    upstream = params.TextOf("model");
    word = params.TextOf("custom_llm_provider");
    const auto find = [](std::string_view name) -> const LiteLlmKind* {
      const auto* found = std::ranges::find(kKinds, name, &LiteLlmKind::word);
      return found == std::end(kKinds) ? nullptr : found;
    };
    const size_t slash = upstream.find('/');
    if (slash != std::string::npos && (word.empty() || upstream.substr(0, slash) == word)) {
      word = upstream.substr(0, slash);
      if (const LiteLlmKind* kind = find(word)) {
        upstream.erase(0, slash + 1);
        return kind;
      }
      return nullptr;
    }
    if (!word.empty()) return find(word);
    for (const auto& [begin, of] : {std::pair("gpt-", "openai"),
                                    {"chatgpt-", "openai"},
                                    {"o1", "openai"},
                                    {"o3", "openai"},
                                    {"o4", "openai"},
                                    {"text-embedding-", "openai"},
                                    {"claude-", "anthropic"},
                                    {"command-", "cohere_chat"}}) {
      if (!upstream.starts_with(begin)) continue;
      word = of;
      return find(of);
    }
    return nullptr;
  }

  // Of a request's path, which begins with /v1 as a client sends it.
  std::string UrlOf(const LiteLlmKind& kind, const std::string& base, int line) {
    if (base.empty()) return std::string(kind.url);
    std::string url = ValueOf(base);
    if (url.starts_with("${")) {
      Left(line, "api_base",
           "the variable must have the address without /v1 at its end" +
               std::string(kind.prices == "azure" ? ", and with /openai for Azure" : ""));
      return url;
    }
    const size_t query = url.find_first_of("?#");
    url = url.substr(0, query);
    while (url.ends_with('/')) url.pop_back();
    for (const std::string_view end : {"/chat/completions", "/v1"}) {
      if (url.ends_with(end)) url.resize(url.size() - end.size());
    }
    if (kind.prices == "azure" && !url.ends_with("/openai")) {
      url += "/openai";
      Left(line, "azure",
           "the proxy uses Azure's API v1 (/openai/v1), whose models are names of deployments");
    }
    if (url.find('@') == std::string::npos && (CheckUrlValue(url, {}) || !ParseHttpUrl(url))) {
      Left(line, "api_base", "not an address of HTTP");
      return {};
    }
    if (url.find('@') != std::string::npos) {
      Left(line, "api_base", "a user and a password in it are not sent; use api_key");
      return {};
    }
    return url;
  }

  // The provider with this address and key where its names agree with a further model, else a new one.
  size_t ProviderFor(const LiteLlmKind& kind, const std::string& word, const std::string& url,
                     const YamlNode& params, const std::string& model, const std::string& upstream) {
    const std::string key = params.TextOf("api_key");
    for (size_t i = 0; i < providers_.size(); ++i) {
      const Provider& one = providers_[i];
      const auto same = one.models.find(model);
      if (one.kind->api == kind.api && one.url == url && keys_[i] == key &&
          (same == one.models.end() || same->second == upstream))
        return i;
    }
    Provider made;
    made.api = kind.api, made.url = url, made.kind = &kind;
    const bool given = url != kind.url;
    made.own =
        kind.own || (given && kind.prices != "azure" && !url.starts_with("${") && IsOwnHost(HostOf(url)));
    made.name =
        Unique(NameFrom(given && kind.word != "azure" && !url.starts_with("${") ? HostOf(url) : word));
    if (key.starts_with(kEnvironment)) {
      made.key = ValueOf(key);
    } else if (!key.empty() && made.own) {
      Left(std::max(1, params.mark.line), "api_key",
           made.name + " has none here; add one where its server wants it");
    } else if (!key.empty()) {
      std::string variable;
      for (const char c : made.name)
        variable += c == '-' ? '_' : (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
      if (variable[0] >= '0' && variable[0] <= '9') variable.insert(0, "_");
      made.key = "${" + variable + "_API_KEY}";
      Left(std::max(1, params.mark.line), "api_key",
           "the file has a secret in plain text; put it into " + variable +
               "_API_KEY of the proxy's environment");
    } else if (key.empty() && !made.own && kind.word != "azure") {
      made.key = DefaultKey(kind);
    }
    providers_.push_back(std::move(made));
    keys_.push_back(key);
    return providers_.size() - 1;
  }
  // The variable that LiteLLM reads where a deployment has no key.
  static std::string DefaultKey(const LiteLlmKind& kind) {
    std::string name;
    for (const char c : kind.word == "text-completion-openai" ? std::string_view("openai")
                        : kind.word == "cohere_chat"          ? std::string_view("cohere")
                        : kind.word == "together_ai"          ? std::string_view("togetherai")
                                                              : kind.word)
      name += (c >= 'a' && c <= 'z') ? static_cast<char>(c - 'a' + 'A') : c;
    return kind.url.empty() ? std::string() : "${" + name + "_API_KEY}";
  }
  std::string Unique(const std::string& name) {
    std::string out = name;
    for (int i = 2; !names_.insert(out).second; ++i) out = name + "-" + std::to_string(i);
    return out;
  }

  void ReadParams(const YamlNode& params, Provider& provider, const std::string& upstream) {
    std::string input, output;
    for (const YamlNode::Member& member : params.members) {
      const std::string& key = member.key;
      const int line = member.key_mark.line;
      const std::string value = member.value->is_single() ? member.value->text : "";
      if (key == "model" || key == "api_key" || key == "api_base" || key == "base_url" ||
          key == "custom_llm_provider")
        continue;
      if (key == "timeout" || key == "stream_timeout") {
        const auto seconds = SecondsOf(value);
        if (seconds) (key == "timeout" ? provider.head : provider.idle) = *seconds;
        else Left(line, key, "not a number of seconds from 1 to 86400");
      } else if (key == "max_parallel_requests") {
        const auto count = ParseInt<int>(value);
        if (count && *count >= 1 && *count <= 65536) provider.connections = std::to_string(*count);
        else Left(line, key, "not a whole number from 1 to 65536");
      } else if (key == "rpm" || key == "tpm") {
        Left(line, key, "limits are of virtual keys here: gpulens proxy keys new --rpm --tpm");
      } else if (key == "weight" || key == "order") {
        Left(line, key,
             "requests go to the first provider of a route; the others follow when it fails (attempts)");
      } else if (key == "input_cost_per_token") {
        input = value;
      } else if (key == "output_cost_per_token") {
        output = value;
      } else if (key == "api_version" && provider.kind->prices == "azure") {
        Left(line, key, "Azure's API v1 needs none");
      } else {
        Left(line, key, "has no counterpart");
      }
    }
    if (input.empty() && output.empty()) return;
    const auto in = ListedPrice(input.empty() ? "0" : input),
               out = ListedPrice(output.empty() ? "0" : output);
    if (in && out && upstream.find_first_of(" \t\n") == std::string::npos)
      prices_.insert(provider.name + "\t" + Printable(upstream) + "\t" + *in + "\t" + *out);
    else Left(params.mark.line, "input_cost_per_token", "not a price per token");
  }

  void RouteOf(const std::string& model, size_t provider) {
    for (Route& route : routes_) {
      if (route.models.front() != model) continue;
      if (std::ranges::find(route.providers, provider) == route.providers.end())
        route.providers.push_back(provider);
      return;
    }
    routes_.push_back({{model}, {provider}});
  }

  void Wildcard(const std::string& name, size_t provider, int line) {
    if (std::ranges::find(any_.providers, provider) == any_.providers.end())
      any_.providers.push_back(provider);
    if (name != "*")
      Left(line, name, "clients send the provider's own names, without what is before the slash");
  }

  void Router(const YamlNode& settings) {
    for (const YamlNode::Member& member : settings.members) {
      const std::string& key = member.key;
      const int line = member.key_mark.line;
      if (key == "model_group_alias") Aliases(*member.value);
      else if (key == "num_retries") Retries(*member.value);
      else if (key == "timeout" || key == "stream_timeout") Timeout(key, *member.value, line);
      else if (IsFallback(key)) Left(line, key, kNoFallbacks);
      else if (key.starts_with("redis")) Left(line, key, kRedis);
      else if (key == "routing_strategy")
        Left(line, key,
             "requests go to the first provider of a route; the others follow when it fails (attempts)");
      else Left(line, key, "has no counterpart");
    }
  }
  void Settings(const YamlNode& settings) {
    std::string budget, duration;
    int line_of_budget = 1;
    for (const YamlNode::Member& member : settings.members) {
      const std::string& key = member.key;
      const int line = member.key_mark.line;
      if (key == "num_retries") Retries(*member.value);
      else if (key == "request_timeout") Timeout("timeout", *member.value, line);
      else if (key == "max_budget") budget = member.value->text, line_of_budget = line;
      else if (key == "budget_duration") duration = member.value->text;
      else if (IsFallback(key)) Left(line, key, kNoFallbacks);
      else if (key == "callbacks" || key == "success_callback" || key == "failure_callback")
        Left(line, key, "Prometheus reads /metrics, which is on; records: stores, telemetry and otlp");
      else if (key == "cache" || key == "cache_params") Left(line, key, "answers are not cached");
      else if (key == "drop_params")
        Left(line, key, "requests pass as they are: no parameter is dropped or translated");
      else Left(line, key, "has no counterpart");
    }
    if (!budget.empty()) Budget(budget, duration, line_of_budget);
  }
  void General(const YamlNode& settings) {
    for (const YamlNode::Member& member : settings.members) {
      const std::string& key = member.key;
      const int line = member.key_mark.line;
      if (key == "master_key")
        Left(line, key, "there is none: keys are made on the machine, gpulens proxy keys new");
      else if (key == "database_url")
        Left(line, key,
             "keys, teams and spend in it are not moved; charges go to a file, or to PostgreSQL: stores");
      else if (key == "max_parallel_requests" || key == "global_max_parallel_requests")
        Left(line, key, "limits.streams, of each thread, and --streams of a key");
      else if (key.starts_with("alert")) Left(line, key, "alerts are rules of Prometheus here");
      else Left(line, key, "has no counterpart");
    }
  }

  static bool IsFallback(std::string_view key) {
    return key == "fallbacks" || key == "context_window_fallbacks" || key == "content_policy_fallbacks" ||
           key == "default_fallbacks";
  }
  static constexpr std::string_view kNoFallbacks =
      "a request never goes to another model; providers of one model are the list of its route";
  static constexpr std::string_view kRedis = "replicas share budgets: budget_engine.url";

  void Aliases(const YamlNode& aliases) {
    for (const YamlNode::Member& member : aliases.members) {
      const std::string target =
          member.value->kind == YamlNode::kMap ? member.value->TextOf("model") : member.value->text;
      const auto route =
          std::ranges::find_if(routes_, [&](const Route& one) { return one.models.front() == target; });
      if (route == routes_.end() || member.key.empty() || !IsModel(member.key) ||
          member.key.find('*') != std::string::npos) {
        Left(member.key_mark.line, member.key, "an alias of a model that is not in the list");
        continue;
      }
      route->models.push_back(member.key);
      for (const size_t at : route->providers)
        providers_[at].models.emplace(member.key, providers_[at].models.at(target));
    }
  }

  void Retries(const YamlNode& value) {
    if (const auto retries = ParseInt<int>(value.text); retries && *retries >= 0)
      retries_ = std::min(*retries, 7);
  }
  void Timeout(std::string_view key, const YamlNode& value, int line) {
    const auto seconds = SecondsOf(value.text);
    if (!seconds) return Left(line, key, "not a number of seconds from 1 to 86400");
    for (Provider& provider : providers_) {
      std::string& to = key == "timeout" ? provider.head : provider.idle;
      if (to.empty()) to = *seconds;
    }
  }

  void Budget(const std::string& usd, const std::string& duration, int line) {
    const auto limit = pricing::ParseUsd(usd);
    const std::string window = duration.empty()                                              ? "forever"
                               : duration == "1d" || duration == "24h"                       ? "day"
                               : duration == "7d"                                            ? "week"
                               : duration == "30d" || duration == "31d" || duration == "1mo" ? "month"
                                                                                             : duration;
    if (!limit || limit->pico() <= 0 || !proxy::ParseBudgetWindow(window))
      return Left(line, "max_budget", "not an amount, or a budget_duration that no window is");
    budget_ =
        "  - {name: all, usd: " + Quoted(pricing::UsdText(*limit)) + ", window: " + Quoted(window) + "}\n";
  }

  std::string ProviderText(const Provider& provider) const {
    std::string out = "  - name: " + Quoted(provider.name) + "\n    api: " + provider.api +
                      "\n    url: " + Quoted(provider.url) + "\n";
    if (!provider.key.empty()) out += "    api_key: " + Quoted(provider.key) + "\n";
    if (provider.own) out += "    profile: byoc  # machines of one's own: nothing is charged\n";
    else if (!provider.kind->prices.empty() && provider.kind->prices != provider.name)
      out += "    prices: " + std::string(provider.kind->prices) + "\n";
    if (!provider.kind->extra.empty()) out += "    " + std::string(provider.kind->extra) + "\n";
    if (provider.api != "openai")
      out += "    # Clients send requests of this API: the proxy does not translate OpenAI's.\n";
    std::string models;
    for (const auto& [name, upstream] : provider.models) {
      if (name != upstream)
        models += (models.empty() ? "" : ", ") + Quoted(name) + ": " + Quoted(EscapeDollars(upstream));
    }
    if (!models.empty()) out += "    models: {" + models + "}\n";
    if (!provider.head.empty()) out += "    head_timeout: " + provider.head + "\n";
    if (!provider.idle.empty()) out += "    idle_timeout: " + provider.idle + "\n";
    if (!provider.connections.empty())
      out += "    max_connections: " + provider.connections + "  # of each thread\n";
    return out;
  }

  std::string RouteText(const Route& route) const {
    std::vector<std::string> names;
    for (const size_t at : route.providers) names.push_back(providers_[at].name);
    return "  - {models: " + QuotedList(route.models) + ", providers: " + QuotedList(names) + "}\n";
  }

  Result<LiteLlmDraft> Draft() {
    LiteLlmDraft draft;
    draft.providers = providers_.size(), draft.routes = routes_.size();
    std::string& out = draft.yaml;
    out = "# Made from " + Printable(name_) +
          " by gpulens migrate litellm. Check it, then make a key:\n"
          "#   gpulens proxy --config proxy.yaml --check\n"
          "#   gpulens proxy keys new --id NAME --tenant NAME --config proxy.yaml\n"
          "listen: [\"127.0.0.1:4000\"]  # LiteLLM's port; other machines need TLS (web_config)\n"
          "providers:\n";
    for (const Provider& provider : providers_) out += ProviderText(provider);
    out += "routes:\n";
    size_t most = any_.providers.size();
    for (const Route& route : routes_) {
      most = std::max(most, route.providers.size());
      out += RouteText(route);
    }
    if (!any_.providers.empty()) {
      any_.models = {"*"};
      out += RouteText(any_);
      ++draft.routes;
    }
    const size_t attempts = retries_ ? static_cast<size_t>(*retries_) + 1 : 8;
    if (most > 1 && attempts > 1)
      out += "attempts: " + std::to_string(std::min({most, attempts, size_t{8}})) +
             "  # providers of a route, one after another, before a byte was sent\n";
    if (!budget_.empty()) out += "budgets:\n" + budget_;
    if (!prices_.empty()) {
      out +=
          "# Prices of models, for a file that `prices: [builtin, prices.tsv]` names (columns are divided by "
          "tabs):\n"
          "#provider\tmodel\tinput\toutput\n";
      for (const std::string& row : prices_) out += "#" + row + "\n";
    }
    if (left_.empty()) return draft;
    out += "# Not moved, with the lines of " + Printable(name_) + ":\n";
    for (const auto& [why, lines] : left_) {
      std::string numbers;
      for (const int line : lines) {
        numbers += (numbers.empty() ? "" : ", ") + std::to_string(line);
        ++draft.left;
      }
      out += "#   " + why + " (" + numbers + ")\n";
    }
    return draft;
  }

  const std::string& name_;
  std::vector<Provider> providers_;
  std::vector<std::string> keys_;  // of providers_, as the configuration has them
  std::set<std::string> names_;
  std::vector<Route> routes_;
  Route any_;
  std::optional<int> retries_;
  std::string budget_;
  std::set<std::string> prices_;
  std::map<std::string, std::set<int>> left_;
};

}  // namespace

Result<LiteLlmDraft> ProxyFromLiteLlm(std::string_view text, const std::string& name) {
  ASSIGN_OR_RETURN(const YamlTree tree, ReadYaml(text, YamlLimits(), name));
  return LiteLlmReader(name).Convert(tree.top());
}

}  // namespace gpulens
