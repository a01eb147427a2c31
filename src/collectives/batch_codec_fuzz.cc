// Whatever comes: no crash, bounded memory; what is read is written and read again as the same, and the
// diagnosis takes it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "collectives/batch_codec.h"
#include "collectives/diagnosis.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::collectives;
  Batch batch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CHECK(DecodeWantedLinks(text).size() <= kWantedLinks);
  if (!DecodeBatch(text, batch).ok()) return 0;
  CHECK(batch.members.size() <= size && batch.processes.size() <= size);
  std::string bytes;
  EncodeBatch(batch, bytes);
  Batch again;
  const gpulens::Status status = DecodeBatch(bytes, again);
  CHECK(status.ok());
  CHECK(again == batch);
  Diagnosis::Options options;
  options.members = 64;
  options.communicators = 16;
  Diagnosis diagnosis(options);
  gpulens::Instant now{1'000'000'000'000, 0};
  for (int round = 0; round < 4; ++round) {
    diagnosis.Add(batch, now);
    now = now + std::chrono::seconds(20);
    diagnosis.Advance(now);
  }
  CHECK(diagnosis.faults().size() <= 64);
  const uint64_t urls[] = {1, 2, 3};
  size_t members = 0;
  for (const Batch& part : DivideBatch(batch, urls)) members += part.members.size();
  CHECK(members == batch.members.size());
  return 0;
}
