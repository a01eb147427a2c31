// Any bytes as the pages of an engine: the first byte selects the engine, a zero byte ends a page. The
// declared series depend on the last page alone.

#include "base/check.h"
#include "base/parse.h"
#include "scrape/engine/engine_families.h"
#include "scrape/engine/engine_page_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::engine_page;
  if (size < 2) return 0;
  const size_t pick = data[0] % (AllEngines().size() + 1);
  const EnginePageSeries::Options options{.target = "t",
                                          .engine = pick == 0 ? nullptr : &AllEngines()[pick - 1]};
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  EngineFixture fixture(options);
  DriftWatch drift;
  std::string_view last;
  while (!rest.empty()) {
    last = gpulens::TakeUntil(rest, '\0');
    fixture.Read(last);
    if (fixture.complete) drift.Check(fixture.page, fixture.series.families());
  }
  if (!fixture.last.ok() || !fixture.complete) return 0;
  EngineFixture fresh(options);
  fresh.Read(last);
  CHECK(fixture.Names() == fresh.Names());
  CHECK(fixture.table.size() == fixture.Names().size());
  CHECK(fixture.writer.counts().invalid == 0);
  return 0;
}
