// Any bytes as the file of `gpulens proxy`, as far as options of the proxy. What is accepted keeps the
// promises that the proxy relies on, prints to a text that loads to the same, and is wrong where a route
// names no provider. Files are not read: a text could name a pipe.
// Fuzz inputs: 20'000 (each reads a whole configuration; an address with TLS makes a context)
#include <cstdlib>
#include <set>

#include "base/check.h"
#include "cli/proxy/proxy_options.h"
#include "config/loader.h"
#include "config/print.h"

namespace {

using namespace gpulens;

LoadOutcome LoadProxyText(std::string text) {
  ConfigSources sources;
  sources.file_name = "proxy.yaml", sources.file_text = std::move(text);
  sources.inspect_file = nullptr, sources.inspect_folder = nullptr, sources.read = nullptr;
  sources.expand = true;  // as the proxy does: what is printed has a $ as $$
  return Load(ProxySchema(), sources);
}

void CheckOptions(const proxy::ProxyOptions& options) {
  std::set<std::string> names;
  for (const proxy::ProviderConfig& provider : options.config.providers) {
    CHECK(names.insert(provider.name).second);
    CHECK(provider.upstream.url.user.empty() && provider.upstream.url.password.empty());
    CHECK(provider.upstream.max_connections > 0 && provider.upstream.head.count() > 0);
    CHECK(provider.terms.fee_share.numerator >= 0 && provider.terms.fee_share.denominator > 0);
    for (const char c : provider.credential) CHECK(static_cast<unsigned char>(c) > 0x20 && c != 0x7f);
  }
  CHECK(!options.config.routes.empty());
  for (const proxy::RouteConfig& route : options.config.routes) {
    for (const size_t at : route.providers) CHECK(at < options.config.providers.size());
  }
  for (const proxy::BudgetSpec& budget : options.budgets) {
    CHECK(proxy::CheckBudgetSpec(budget).ok() && budget.limit_pico >= 0);
    CHECK(!budget.shared || !options.budget_engine.empty());
    // Its window is written as it is read.
    const auto window = proxy::ParseBudgetWindow(proxy::BudgetWindowText(budget.window));
    CHECK(window.ok() && *window == budget.window);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const LoadOutcome loaded = LoadProxyText({reinterpret_cast<const char*>(data), size});
  CHECK(loaded.errors.size() <= 20 && loaded.Report().size() < 200'000);
  if (!loaded.ok()) return 0;
  std::string printed = PrintConfig(ProxySchema(), loaded.config, {.origins = true, .show_secrets = true});
  if (printed.size() <= (1 << 20)) {
    const LoadOutcome again = LoadProxyText(std::move(printed));
    CHECK(again.ok() && again.config == loaded.config);
  }
  const auto names_file = [](const Config& config, const char* key) { return !config.Text(key).empty(); };
  bool files = names_file(loaded.config, "web_config");
  for (const Config& provider : loaded.config.Groups("providers")) files |= names_file(provider, "ca_file");
  if (files) return 0;
  std::vector<std::string> errors;
  const proxy::ProxyOptions options = MakeProxyOptions(loaded.config, errors);
  for (const std::string& error : errors) CHECK(!error.empty() && error.size() < 10'000);
  if (errors.empty()) CheckOptions(options);
  return 0;
}
