// Prints the tables of engines for `gpulens engines list`. Pure; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "catalog/inference.h"
#include "scrape/engine/engine_row.h"

namespace gpulens {

// Why an engine does not offer a role.
struct NotOffered {
  std::string_view engine, role, reason;
};
std::span<const NotOffered> KnownNotOffered() noexcept;

// Whether a family of the engine, or of the one that it reads as its own, has the role.
bool Offers(const engine_page::Engine& engine, const EngineMetric& role) noexcept;

// A line for each engine; with `one`, the families of that engine by role.
std::string EnginesTable(const engine_page::Engine* one);
std::string EnginesJson(const engine_page::Engine* one);
// The page docs/engines.md.
std::string EnginesMarkdown();

}  // namespace gpulens
