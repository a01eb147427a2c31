// Whatever comes: no crash, ranks of their communicators, bounded lists.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "sources/nccl_ras/ras_answer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::nccl_ras;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto report = ParseRasReport(text); report.ok()) {
    CHECK(report->communicators.size() <= kMostCommunicators);
    for (const RasCommunicator& communicator : report->communicators) {
      CHECK(communicator.size > 0 && communicator.ranks.size() <= kMostRanks);
      for (const RasRank& rank : communicator.ranks) {
        CHECK(rank.rank >= 0 && rank.rank < communicator.size);
        CHECK(gpulens::IsUtf8(rank.host));
      }
    }
  }
  if (const auto event = ParseRasEvent(text); event.ok()) CHECK(gpulens::IsUtf8(event->details));
  std::string stream(text);
  for (size_t left = stream.size() + 1; left > stream.size();) {
    left = stream.size();
    const std::string object = TakeJsonObject(stream);
    CHECK(object.empty() || (object.front() == '{' && object.back() == '}'));
    if (object.empty()) break;
  }
  return 0;
}
