// Converts a page by the tables of engines to text, for tests of this folder.
#pragma once

#include <string>
#include <utility>

#include "scrape/engine/engine_page_series.h"
#include "scrape/table_testing.h"

namespace gpulens::engine_page {

class EngineFixture : public scrape_testing::TableFixture<EnginePageSeries> {
 public:
  explicit EngineFixture(EnginePageSeries::Options options = {.target = "t"}, uint32_t limit = UINT32_MAX)
      : TableFixture(limit, std::move(options)) {}
  explicit EngineFixture(std::string_view engine)
      : EngineFixture(EnginePageSeries::Options{.target = "t", .engine = FindEngine(engine)}) {}
};

}  // namespace gpulens::engine_page
