#include "cli/collect/page_target_name.h"

#include <algorithm>
#include <utility>

#include "scrape/engine/engine_row.h"

namespace gpulens {
namespace {

// One reading does not wait for the target's own interval; two seconds suffice for rates.
constexpr std::string_view kOnceInterval = "2s";

// Pages that are no LLM engine's.
struct Page {
  std::string_view name, kind, url;
};
constexpr Page kPages[] = {{"dcgm", "dcgm", "http://localhost:9400/metrics"},
                           {"engines", "engine", {}},
                           {"scrape", "prometheus", {}},
                           {"gpu_page", "gpu", {}}};

const Page* FindPage(std::string_view name) noexcept {
  const auto* found = std::ranges::find(kPages, name, &Page::name);
  return found == std::end(kPages) ? nullptr : found;
}

bool Sets(const CollectOptions& options, std::string_view key) {
  return std::ranges::find(options.options, key, &std::pair<std::string, std::string>::first) !=
         options.options.end();
}

}  // namespace

bool IsEngine(std::string_view name) noexcept { return engine_page::FindEngine(name) != nullptr; }

bool IsPage(std::string_view name) noexcept { return IsEngine(name) || FindPage(name); }

std::vector<std::string_view> EngineNames() {
  std::vector<std::string_view> names;
  for (const engine_page::Engine& engine : engine_page::AllEngines()) names.push_back(engine.name);
  return names;
}

std::string PageUrl(std::string_view name) {
  if (const Page* page = FindPage(name)) return std::string(page->url);
  const engine_page::Engine* engine = engine_page::FindEngine(name);
  if (!engine) return {};
  return "http://localhost:" + std::to_string(engine->port) + std::string(engine->path);
}

void ResolvePage(CollectOptions& options) {
  if (!IsPage(options.target)) return;
  const std::string name = std::exchange(options.target, std::string(kTargetsCollector));
  if (options.once && options.interval.empty()) options.interval = kOnceInterval;
  const bool has_url = !options.endpoint.empty() || Sets(options, "url");
  if (!has_url && !options.config_file.empty()) return;
  auto otherwise = [&](std::string_view key, std::string value) {
    if (!Sets(options, key) && !value.empty()) options.options.emplace_back(key, std::move(value));
  };
  const Page* page = FindPage(name);
  otherwise("name", name);
  otherwise("kind", page ? std::string(page->kind) : name);
  if (options.endpoint.empty()) otherwise("url", PageUrl(name));
}

}  // namespace gpulens
