#include <algorithm>
#include <iterator>
#include <string>

#include "catalog/inference.h"
#include "scrape/engine/engine_row.h"

namespace gpulens::engine_page {
namespace {

#include "scrape/engine/engine_tables.inc"

bool Matches(std::string_view pattern, std::string_view family) noexcept {
  if (pattern.ends_with('*')) return family.starts_with(pattern.substr(0, pattern.size() - 1));
  if (pattern.starts_with('*')) return family.ends_with(pattern.substr(1));
  return pattern == family;
}

// The name as it is goes first: there are families that differ in nothing but `_total`.
std::span<const EngineRow> Find(std::span<const EngineRow> rows, std::string_view family) noexcept {
  auto run = [&](auto&& same) {
    auto first = std::find_if(rows.begin(), rows.end(), same);
    auto last = std::find_if_not(first, rows.end(), same);
    return std::span<const EngineRow>(first, last);
  };
  auto exact = run([&](const EngineRow& row) { return Matches(row.family, family); });
  if (!exact.empty()) return exact;
  std::string_view bare = WithoutTotal(family);
  return run([&](const EngineRow& row) {
    return row.Takes(ExpositionType::kCounter) && WithoutTotal(row.family) == bare;
  });
}

}  // namespace

std::span<const Engine> AllEngines() noexcept { return kEngines; }
std::span<const EngineRow> CommonRows() noexcept { return kCommonRows; }
std::span<const Prefix> AllPrefixes() noexcept { return kPrefixes; }

const Engine* FindEngine(std::string_view name) noexcept {
  const auto* at = std::find_if(std::begin(kEngines), std::end(kEngines),
                                [&](const Engine& engine) { return engine.name == name; });
  return at == std::end(kEngines) ? nullptr : at;
}

std::string CanonicalFamily(std::string_view family) {
  for (const Prefix& prefix : kPrefixes) {
    if (!family.starts_with(prefix.prefix)) continue;
    return std::string(prefix.canonical) + std::string(family.substr(prefix.prefix.size()));
  }
  return std::string(family);
}

std::span<const EngineRow> RowsOf(const Engine& engine, std::string_view family) noexcept {
  std::span<const EngineRow> rows = Find(engine.rows, family);
  if (!rows.empty() || engine.reads.empty()) return rows;
  return Find(FindEngine(engine.reads)->rows, family);
}

std::span<const EngineRow> CommonRowsOf(std::string_view family) noexcept {
  return Find(kCommonRows, family);
}

}  // namespace gpulens::engine_page
