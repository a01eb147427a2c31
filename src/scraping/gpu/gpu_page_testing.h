// For tests of this folder: a page through the tables of its exporter, and what came out, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scraping/gpu/gpu_page_series.h"
#include "scraping/table_rig.h"

namespace gpulens::gpu_page {

class PageRig : public scrape_testing::TableRig<GpuPageSeries> {
 public:
  explicit PageRig(const Exporter* exporter = nullptr, uint32_t limit = UINT32_MAX,
                   std::vector<std::pair<std::string, std::string>> more = {})
      : TableRig(limit, exporter, std::move(more)) {}
};

}  // namespace gpulens::gpu_page
