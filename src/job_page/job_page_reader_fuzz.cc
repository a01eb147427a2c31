// Edits of a good page between two reads: no crash, and what is returned can be true.
//
// The input is a list of edits: three bytes of place, one of length, the bytes. A length of 0 reads the page.
// Fuzz inputs: 30'000
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "base/text.h"
#include "job_page/job_page_reader.h"
#include "job_page/job_page_testing.h"

namespace {

using namespace gpulens::job_page;
constexpr uint64_t kBootNs = 100'000'000'000;

void CheckHistogram(const HistogramCopy& histogram) {
  uint64_t count = 0;
  for (const uint64_t bucket : histogram.buckets) count += bucket;
  CHECK(count == histogram.count);
}

void CheckCopy(const PageCopy& copy) {
  CHECK(copy.communicators.size() <= kCommunicators && copy.records.size() <= kRecords);
  for (const CommunicatorCopy& communicator : copy.communicators) {
    const CommunicatorIdentity& who = *communicator.identity;
    CHECK(who.rank >= 0 && who.rank < who.ranks && who.slot < kCommunicators);
    CHECK(gpulens::IsUtf8(who.name) && gpulens::IsUtf8(who.device_id));
    for (const ProgressCopy& progress : communicator.functions)
      CHECK(progress.done <= progress.started && progress.started <= progress.enqueued);
  }
  for (const RecordCopy& record : copy.records) {
    CHECK(record.function < Function::kCount && record.datatype < Datatype::kCount);
    CHECK(record.algorithm < Algorithm::kCount && record.protocol < Protocol::kCount);
    CHECK(record.timing < Timing::kCount && record.start_ns <= record.end_ns);
    CHECK(record.duration_ns() <= 2 * kBootNs);
  }
  CHECK(copy.links.size() < kLinks);
  for (const LinkCopy& link : copy.links) {
    CHECK(link.peer >= 0 && link.peer < link.communicator->ranks && link.peer != link.communicator->rank);
    CHECK(link.send_ns / 4096 <= 2 * kBootNs);
  }
  for (const HistogramCopy& histogram : copy.collective_duration) CheckHistogram(histogram);
  CHECK(copy.devices.size() <= kDevices);
  for (const CudaDeviceCopy& device : copy.devices) {
    CheckHistogram(device.kernel);
    CHECK(gpulens::IsUtf8(device.device_id));
  }
  if (copy.phases) CHECK(copy.phases->current < Phase::kCount && copy.phases->edges.size() <= kPhaseEdges);
  CHECK(gpulens::IsUtf8(copy.job) && gpulens::IsUtf8(copy.trouble) && gpulens::IsUtf8(copy.library_version));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TestPage page;
  page.AddCommunicator(0, 1, 0, 2, "a");
  page.AddRecord(0, Function::kAllReduce, 0, 8, 1000, kBootNs / 2);
  page.page().phases.marked = 1;
  page.page().header.actual_level = static_cast<uint32_t>(Level::kLink);
  page.page().links[1].key = LinkKey(0, page.page().communicators[0].generation, 1);
  auto reader = JobPageReader::FromDescriptor(page.Descriptor());
  CHECK(reader.ok());
  PageCopy copy;
  gpulens::Instant now{kBootNs, 0};
  auto* bytes = reinterpret_cast<char*>(&page.page());
  const auto read = [&] {
    now = now + std::chrono::milliseconds(100);
    if (!reader->Read(now, copy).ok()) return;
    CheckCopy(copy);
    KernelsCopy kernels;
    CHECK(reader->ReadKernels(kernels).ok());
    for (const KernelCopy& kernel : kernels.kernels) CHECK(gpulens::IsUtf8(kernel.name));
  };
  read();
  int reads = 0;
  while (size >= 4) {
    const size_t at = (size_t{data[0]} << 16 | size_t{data[1]} << 8 | data[2]) % sizeof(Page);
    const size_t length = std::min({size_t{data[3]}, size - 4, sizeof(Page) - at});
    std::memcpy(bytes + at, data + 4, length);
    if (length == 0 && ++reads <= 8) read();
    data += 4 + length;
    size -= 4 + length;
  }
  read();
  return 0;
}
