// Server-sent events: the lines of a streamed answer, joined to the data of each event (WHATWG HTML, 9.2).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace gpulens {

// Bytes in any pieces to events. Not thread-safe; used again for the next answer after Reset.
class SseReader {
 public:
  static constexpr size_t kMostBytes = 1u << 20;  // of an event, and of a line

  using OnData = std::function<void(std::string_view data)>;

  // Calls `on_data` for each event that is whole: its data lines, joined by line feeds. Other fields and
  // comments are passed over. False when something is above the limit; then only Reset helps.
  bool Feed(std::string_view bytes, const OnData& on_data);
  void Reset();

 private:
  bool OnLine(std::string_view line, const OnData& on_data);

  std::string line_, data_;
  bool has_data_ = false, after_cr_ = false, too_large_ = false;
};

}  // namespace gpulens
