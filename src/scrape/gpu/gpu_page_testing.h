// For tests of this folder: a page through the tables of its exporter, and what came out, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scrape/gpu/gpu_page_series.h"
#include "scrape/table_testing.h"

namespace gpulens::gpu_page {

class PageFixture : public scrape_testing::TableFixture<GpuPageSeries> {
 public:
  explicit PageFixture(const Exporter* exporter = nullptr, uint32_t limit = UINT32_MAX,
                       std::vector<std::pair<std::string, std::string>> more = {})
      : TableFixture(limit, exporter, std::move(more)) {}
};

}  // namespace gpulens::gpu_page
