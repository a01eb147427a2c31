// Configurations of LiteLLM are written by hand. What is converted is YAML that the proxy's schema accepts,
// whatever the names and texts in it are.
// Fuzz inputs: 20'000 (each loads a configuration)
#include <cstdlib>

#include "base/check.h"
#include "cli/migrate/litellm.h"
#include "cli/proxy/proxy_options.h"
#include "config/loader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto draft = ProxyFromLiteLlm(text, "config.yaml");
  if (!draft) return 0;
  CHECK(draft->providers > 0);
  ConfigSources sources;
  sources.file_name = "proxy.yaml", sources.file_text = draft->yaml;
  sources.inspect_file = nullptr, sources.inspect_folder = nullptr, sources.read = nullptr;
  // Not expanded: a variable of an address may be anything.
  if (draft->yaml.find("url: \"${") != std::string::npos) return 0;
  const LoadOutcome loaded = Load(ProxySchema(), sources);
  // Of a text with thousands of models more than a file may have.
  if (!loaded.ok() && (draft->yaml.size() > (1 << 20) || draft->providers + draft->routes > 200)) return 0;
  CHECK(loaded.ok());
  return 0;
}
