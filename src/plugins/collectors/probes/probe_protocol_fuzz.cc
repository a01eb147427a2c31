// Replies of a probe host, and requests to it, from any bytes. What is read is written and read again: it
// must be the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "plugins/collectors/probes/probe_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::probes;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto request = DecodeRequest(text)) {
    const auto again = DecodeRequest(EncodeRequest(*request));
    CHECK(again && EncodeRequest(*again) == EncodeRequest(*request));
  }
  if (const auto reply = DecodeReply(text)) {
    CHECK(reply->status.targets.size() <= kMostTargets && reply->status.processes.size() <= kMostProcesses);
    for (const ProcessCounts& process : reply->status.processes) {
      uint64_t count = 0;
      for (const uint64_t bucket : process.data_wait.buckets) count += bucket;
      CHECK(count == process.data_wait.count);
    }
    const std::string line = EncodeReply(*reply);
    const auto again = DecodeReply(line);
    CHECK(again && EncodeReply(*again) == line);
  }
  return 0;
}
