// Any bytes as the pages of a GPU exporter: the first byte picks the exporter, a zero byte ends a page.
// Whatever comes, what is declared depends on the last page alone.
// Fuzz inputs: 20'000 (each reads every page twice)
#include "base/check.h"
#include "base/parse.h"
#include "scrape/gpu/gpu_page_testing.h"

namespace {

using gpulens::gpu_page::AllExporters;
using gpulens::gpu_page::PageFixture;

// Values may differ: a jump and a counter that fell are validated by earlier values.
void Compare(const PageFixture& fixture, const PageFixture& fresh) {
  CHECK(fixture.Names() == fresh.Names());
  CHECK(fixture.table.size() == fixture.Names().size());
  CHECK(fixture.writer.counts().invalid == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  size_t pick = data[0] % (AllExporters().size() + 1);
  const auto* exporter = pick == 0 ? nullptr : AllExporters()[pick - 1];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  PageFixture fixture(exporter);
  std::string_view last;
  bool ok = false;
  while (!rest.empty()) {
    last = gpulens::TakeUntil(rest, '\0');
    fixture.Read(last);
    ok = fixture.last.ok() && fixture.complete;
  }
  if (!ok) return 0;
  PageFixture fresh(fixture.series.exporter());
  fresh.Read(last);
  Compare(fixture, fresh);
  return 0;
}
