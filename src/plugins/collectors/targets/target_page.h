// The ways to read the page of a target: as an LLM engine's, as a GPU exporter's, or as it is.
#pragma once

#include <memory>

#include "plugins/plugin.h"
#include "scrape/engine/engine_row.h"
#include "scrape/gpu/page_row.h"
#include "scrape/page_target.h"
#include "scrape/series_rules.h"

namespace gpulens::targets {

enum class PageKind : uint8_t { kPlain, kGpu, kEngine };

// Returns what a page is by its metric names: kGpu when a GPU exporter's tables read at least three of its
// families and half of them all (those of the language runtime apart), kEngine when a family has the prefix
// of an LLM engine, router, gateway or cache, else kPlain.
PageKind Recognise(const ScrapedPage& page);

// Turns the pages of one target into values. Used inside its instance's run: not thread-safe.
class TargetPage : public PageUser {
 public:
  // Called on the I/O loop before each request for the page; sends what this kind asks for besides the page.
  virtual void BeforeFetch() {}
};

// What a TargetPage is made of. Everything here outlives it.
struct PageParts {
  const Config& config;  // one element of `targets`, with a name
  PageTarget& target;
  const EntityRef& entity;  // of series that belong to the target itself
  const SeriesRules& rules;
  Env& env;
};

// Exports the families of the page under their own names.
std::unique_ptr<TargetPage> MakePlainPage(const PageParts& parts);
// Exports GPU metrics under native names. `exporter` null: detected from the page.
std::unique_ptr<TargetPage> MakeGpuPage(const PageParts& parts, const gpu_page::Exporter* exporter);
// Exports inference.* under native names. `engine` null: detected from the page.
std::unique_ptr<TargetPage> MakeEnginePage(const PageParts& parts, const engine_page::Engine* engine);

}  // namespace gpulens::targets
