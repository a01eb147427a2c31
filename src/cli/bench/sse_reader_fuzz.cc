// The events do not depend on the pieces in which the bytes arrive, and none exceeds the limit.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "cli/bench/completion_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto read = [&](size_t step) {
    gpulens::SseReader reader;
    std::vector<std::string> events;
    for (size_t at = 0; at < bytes.size(); at += step) {
      const bool more = reader.Feed(bytes.substr(at, step), [&](std::string_view event) {
        CHECK(event.size() <= gpulens::SseReader::kMostBytes);
        events.emplace_back(event);
      });
      if (!more) break;
    }
    return events;
  };
  CHECK(read(size + 1) == read(1));
  CHECK(read(size + 1) == read(7));
  return 0;
}
