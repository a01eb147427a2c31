#include "proxy/proxy_config.h"

#include <algorithm>

#include "base/text.h"

namespace gpulens::proxy {

std::string_view ProviderConfig::Prefix() const noexcept {
  std::string_view path = upstream.url.has_path ? std::string_view(upstream.url.target) : std::string_view();
  path = path.substr(0, path.find('?'));
  while (path.ends_with('/')) path.remove_suffix(1);
  return path;
}

std::vector<const ProviderConfig*> ProvidersFor(const ProxyConfig& config, LlmApi api,
                                                std::string_view model) {
  std::vector<const ProviderConfig*> out;
  for (const RouteConfig& route : config.routes) {
    const bool fits = std::ranges::any_of(
        route.models, [&](const std::string& pattern) { return MatchesStars(pattern, model); });
    if (!fits) continue;
    for (size_t index : route.providers) {
      const ProviderConfig& provider = config.providers[index];
      if (provider.api == api) out.push_back(&provider);
    }
    if (!out.empty()) return out;
  }
  return out;
}

}  // namespace gpulens::proxy
