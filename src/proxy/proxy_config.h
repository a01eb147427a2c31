// What a proxy is configured to do: providers, routes and rules. Plain values, made by the command from its
// file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "net/message/address.h"
#include "net/relay/upstream.h"
#include "pricing/charge.h"
#include "wire/llm/llm_routes.h"

namespace gpulens::proxy {

// Whether the proxy makes servers send usage in streams of clients that did not request it.
enum class StreamUsage : uint8_t {
  kAtEnd,       // include_usage
  kContinuous,  // and continuous_usage_stats: vLLM, whose cut streams then have exact counts
  kNever,       // the server refuses the member
};

struct ProviderConfig {
  std::string name;  // of labels and records
  LlmApi api = LlmApi::kOpenAi;
  UpstreamOptions upstream;  // its URL, whose path is put before that of requests
  std::string credential;    // secret; replaces the client's. Empty: the client's own passes on
  pricing::ProfileTerms terms;
  std::string prices;  // its name in the price files
  std::string region;
  StreamUsage stream_usage = StreamUsage::kAtEnd;
  bool reasoning_besides = false;  // LlmAnswerOptions
  // Names of models here, by the names that clients use: a deployment, a checkpoint.
  std::map<std::string, std::string, std::less<>> models;
  std::string cluster;        // of one's own machines
  std::string genai_name;     // gen_ai.provider.name; empty: GenaiProviderName finds one
  double target_ttft_ms = 0;  // 0: none

  // The path of its URL without a slash at the end: "/openai".
  std::string_view Prefix() const noexcept;
};

// Which providers a model has. A request goes to the first that has its API; the others follow when
// that fails.
struct RouteConfig {
  std::vector<std::string> models;  // patterns with `*`
  std::vector<size_t> providers;    // indices, in order
};

// What happens to a request whose price is not in the files.
enum class UnknownPrice : uint8_t {
  kRefuse,   // refused where it is known before; charged nothing where the answer names another model
  kZero,     // charged nothing
  kDefault,  // the price of the model "*"
};

struct ProxyConfig {
  std::vector<ProviderConfig> providers;
  std::vector<RouteConfig> routes;
  UnknownPrice unknown_price = UnknownPrice::kRefuse;
  bool charge_cancelled = true;  // what a client that left has used is charged
  // After a client has left the answer is still read, for its usage; 0: never.
  uint64_t drain_bytes = 0;
  Duration drain_time = std::chrono::seconds(30);
  int attempts = 1;                   // of one request, at all its providers
  std::string metrics_token;          // secret; empty: /metrics needs none
  bool serve_metrics = true;          // at the address of the requests
  int64_t soft_output_tokens = 1024;  // expected of an answer before anything is learnt
};

// The providers that a request may go to, in order. Empty: no route.
std::vector<const ProviderConfig*> ProvidersFor(const ProxyConfig& config, LlmApi api,
                                                std::string_view model);

}  // namespace gpulens::proxy
