// For tests of this folder: a page through the tables of engines, and what came out, as text.
#pragma once

#include <string>
#include <utility>

#include "scraping/engine/engine_page_series.h"
#include "scraping/table_rig.h"

namespace gpulens::engine_page {

class EngineRig : public scrape_testing::TableRig<EnginePageSeries> {
 public:
  explicit EngineRig(EnginePageSeries::Options options = {.target = "t"}, uint32_t limit = UINT32_MAX)
      : TableRig(limit, std::move(options)) {}
  explicit EngineRig(std::string_view engine)
      : EngineRig(EnginePageSeries::Options{.target = "t", .engine = FindEngine(engine)}) {}
};

}  // namespace gpulens::engine_page
