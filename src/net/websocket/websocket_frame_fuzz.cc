#include "net/websocket/websocket_frame.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

// The same bytes in one piece and cut small must give the same events, and reading always ends.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::FrameReader;
  if (size == 0) return 0;
  size_t step = data[0] % 7 + 1u;
  std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> whole, parts;
  auto note = [](std::vector<std::string>& into, const FrameReader::Event& event) {
    if (event.kind == FrameReader::Event::Kind::kNone) return;
    into.push_back(std::to_string(static_cast<int>(event.kind)) + " " + std::to_string(event.code) + " " +
                   std::string(event.payload));
  };
  FrameReader once(5000), pieces(5000);
  for (std::string_view rest = all; !rest.empty();) note(whole, once.Next(rest));
  for (size_t at = 0; at < all.size(); at += step) {
    for (std::string_view rest = all.substr(at, step); !rest.empty();) note(parts, pieces.Next(rest));
  }
  CHECK(whole == parts);
  return 0;
}
