// A steady Write of a page must not allocate.
#include <gtest/gtest.h>

#include "base/testing/allocations.h"
#include "scrape/scrape_testing.h"

namespace gpulens {
namespace {

TEST(SteadyCollect, DoesNotAllocate) {
  std::string pages[2];
  for (int p = 0; p < 2; ++p) {
    for (int i = 0; i < 500; ++i)
      pages[p] += "g{i=\"" + std::to_string(i) + "\"} " + std::to_string(i + p) + "\n";
    pages[p] += "# TYPE c counter\nc_total 5\nc_created 1600000000\n# TYPE h histogram\n";
    for (int i = 0; i < 20; ++i) pages[p] += "h_bucket{le=\"" + std::to_string(i) + "\"} 7\n";
    pages[p] += "h_sum 1\nh_count 7\n# EOF\n";
  }
  scrape_testing::PageFixture fixture;
  for (int i = 0; i < 10; ++i) fixture.Scrape(pages[i % 2], ExpositionFormat::kOpenMetrics100);
  uint64_t before = ThreadAllocations();
  for (int i = 0; i < 100; ++i) fixture.Scrape(pages[i % 2], ExpositionFormat::kOpenMetrics100);
  EXPECT_EQ(ThreadAllocations() - before, 0u);
  EXPECT_EQ(before > 0u, AllocationsAreCounted()) << "the counter counts";
  EXPECT_EQ(fixture.table.size(), 502u);
}

}  // namespace
}  // namespace gpulens
