// Whatever comes, and wherever it is cut: no byte is lost, the frames are the same, a whole answer's digest,
// too.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "wire/llm/event_splitter.h"
#include "wire/llm/json_digest.h"

namespace {

using gpulens::EventFrame;
using gpulens::EventFraming;
using gpulens::EventSplitter;

struct Frames {
  std::string bytes;
  std::vector<std::string> data;  // of frames that carry something
  bool gave_up = false;
  bool operator==(const Frames&) const = default;
};

Frames Split(EventFraming framing, std::string_view text, size_t piece, size_t limit) {
  EventSplitter splitter(framing, limit);
  Frames frames;
  EventFrame frame;
  const auto take = [&] {
    while (splitter.Next(frame)) {
      CHECK(!frame.bytes.empty());
      frames.bytes += frame.bytes;
      if (!frame.data.empty())
        frames.data.push_back(std::string(frame.event) + ":" + std::string(frame.data));
      CHECK(frame.data.size() <= frame.bytes.size());
    }
    CHECK(splitter.pending() <= limit);
  };
  for (size_t at = 0; at < text.size(); at += piece) {
    const std::string copy(text.substr(at, piece));  // its end is seen by the address sanitizer
    splitter.Feed(copy);
    take();
  }
  splitter.Feed({});
  splitter.Finish();
  take();
  frames.gave_up = splitter.gave_up();
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto framing = static_cast<EventFraming>(data[0] % 3);
  const size_t piece = data[1] % 16 + 1, limit = data[1] < 128 ? 64 : 1 << 20;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Frames whole = Split(framing, text, text.size() + 1, limit);
  CHECK(whole.bytes == text);
  CHECK(Split(framing, text, piece, limit) == whole);
  CHECK(Split(framing, text, 1, limit) == whole);

  gpulens::JsonDigest all(limit), cut(limit);
  all.Feed(text);
  for (size_t at = 0; at < text.size(); at += piece) cut.Feed(text.substr(at, piece));
  CHECK(all.ended() == cut.ended() && all.gave_up() == cut.gave_up());
  CHECK(all.text() == cut.text() && all.text().size() <= limit);
  CHECK(all.gave_up() || all.bytes_left_out() == cut.bytes_left_out());
  return 0;
}
