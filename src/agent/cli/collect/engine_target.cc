#include "agent/cli/collect/engine_target.h"

#include <algorithm>

#include "scraping/engine/engine_row.h"

namespace gpulens {
namespace {

// Nobody waits for the target's own interval to see one reading; rates over two seconds say enough.
constexpr std::string_view kOnceInterval = "2s";

bool Says(const CollectOptions& options, std::string_view key) {
  return std::ranges::find(options.options, key, &std::pair<std::string, std::string>::first) !=
         options.options.end();
}

}  // namespace

bool IsEngine(std::string_view name) noexcept { return engine_page::FindEngine(name) != nullptr; }

std::vector<std::string_view> EngineNames() {
  std::vector<std::string_view> names;
  for (const engine_page::Engine& engine : engine_page::AllEngines()) names.push_back(engine.name);
  return names;
}

std::string EngineUrl(std::string_view name) {
  const engine_page::Engine* engine = engine_page::FindEngine(name);
  if (!engine) return {};
  return "http://localhost:" + std::to_string(engine->port) + std::string(engine->path);
}

void ResolveEngine(CollectOptions& options) {
  if (!IsEngine(options.target)) return;
  const std::string engine = std::exchange(options.target, std::string(kEnginesCollector));
  if (options.once && options.interval.empty()) options.interval = kOnceInterval;
  bool has_url = !options.endpoint.empty() || Says(options, "url");
  if (!has_url && !options.config_file.empty()) return;
  auto otherwise = [&](std::string_view key, std::string value) {
    if (!Says(options, key)) options.options.emplace_back(key, std::move(value));
  };
  otherwise("name", engine);
  otherwise("engine", engine);
  if (options.endpoint.empty()) otherwise("url", EngineUrl(engine));
}

}  // namespace gpulens
