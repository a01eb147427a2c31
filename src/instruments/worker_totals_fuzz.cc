// Any bytes in the place of a worker's file, or of the totals of ended workers, add nothing or counts that
// can be read.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "instruments/worker_file.h"
#include "instruments/worker_totals.h"

namespace {

using gpulens::Sample;
using gpulens::instruments::PageBytes;
using gpulens::instruments::RecordReader;
using gpulens::instruments::RecordWriter;
using gpulens::instruments::WorkerTotals;

// What is read of a page of a file; the rest of it is 0.
constexpr size_t kOfPage = 512;

bool IsSame(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void CheckSamples(const WorkerTotals& totals) {
  for (const Sample& sample : totals.Samples()) {
    if (sample.counts.empty()) continue;
    uint64_t count = sample.exponential ? sample.zeros : 0;
    for (uint64_t n : sample.counts) count += n;
    CHECK(count == sample.count);
  }
  // What is kept of ended workers is read again as it was.
  RecordWriter kept;
  totals.Encode(kept);
  WorkerTotals again;
  RecordReader in(kept.bytes());
  CHECK(again.AddEncoded(in) && in.at_end());
  const std::vector<Sample> before = totals.Samples(), after = again.Samples();
  CHECK(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].name == after[i].name && before[i].attributes == after[i].attributes);
    CHECK(IsSame(before[i].value, after[i].value) && IsSame(before[i].sum, after[i].sum));
    CHECK(before[i].counts == after[i].counts && before[i].zeros == after[i].zeros);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  {
    WorkerTotals totals;
    RecordReader in(bytes);
    if (totals.AddEncoded(in)) CheckSamples(totals);
  }
  const size_t pages = std::max<size_t>(1, (size + kOfPage - 1) / kOfPage), page = PageBytes();
  auto* file = static_cast<std::byte*>(::operator new(pages * page, std::align_val_t{page}));
  std::memset(file, 0, pages * page);
  for (size_t i = 0; i * kOfPage < size; ++i)
    std::memcpy(file + i * page, data + i * kOfPage, std::min(kOfPage, size - i * kOfPage));
  const uint64_t magic = gpulens::instruments::kWorkerMagic;
  std::memcpy(file, &magic, sizeof magic);
  for (const bool ended : {false, true}) {
    WorkerTotals totals;
    totals.AddWorker(file, pages * page, ended);
    if (ended) CheckSamples(totals);
    else totals.Samples();
  }
  ::operator delete(file, std::align_val_t{page});
  return 0;
}
