// Cuts the answer stream of an LLM API into frames without changing a byte of it: server-sent events (WHATWG
// HTML, 9.2.6), lines of JSON, the elements of one JSON array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens {

enum class EventFraming : uint8_t {
  kSse,    // ends at an empty line; lines end with LF, CR or CRLF
  kLines,  // ends at LF
  kArray,  // ends after an element that is an object; also one object without an array
};

// One frame. Its views are valid until the next Feed() or Finish(); `data` and `event` until the next Next().
struct EventFrame {
  // All bytes, ends of lines and blanks around them included. The bytes of all frames in order are the bytes
  // that were fed.
  std::string_view bytes;
  // What the frame carries: the data lines of an event joined by LF, the line, the element. Empty for
  // comments, blank lines and the brackets of an array.
  std::string_view data;
  // Name of a server-sent event, or empty.
  std::string_view event;
  // `data` is a part of `bytes`. False for an event of several data lines.
  bool data_is_inside = false;
  // An LF alone that belongs to the end of the frame before, whose lines end with CR.
  bool ends_frame_before = false;
};

// Gets pieces of any size; where they are cut changes no frame. A frame that lies inside one piece is not
// copied; the others are joined in a buffer that keeps its room, so a steady stream allocates nothing. A
// frame of more than `max_bytes` makes the splitter give up: its bytes and all later ones come as frames
// without data, as soon as they are fed. Not thread-safe.
class EventSplitter {
 public:
  static constexpr size_t kMaxBytes = 1u << 20;

  explicit EventSplitter(EventFraming framing, size_t max_bytes = kMaxBytes) noexcept
      : framing_(framing), max_bytes_(max_bytes) {}

  // Takes the next bytes; call Next() until it is false before the next Feed(). `piece` must stay for as long
  // as its frames are used.
  void Feed(std::string_view piece);
  // Advances to the next whole frame.
  bool Next(EventFrame& frame);
  // Nothing more is fed. The next Next() gives the last frame, which has no end.
  void Finish() noexcept { finished_ = true; }
  // Bytes of a frame that has not ended yet.
  size_t pending() const noexcept { return tail_.size(); }
  bool gave_up() const noexcept { return gave_up_; }

 private:
  // Returns the end of the frame in `piece_` from `at_`, or npos when it does not end there.
  size_t FindEnd();
  size_t FindSseEnd();
  size_t FindLineEnd() const noexcept;
  size_t FindElementEnd();
  void BeginFrame() noexcept;
  void ReadSse(EventFrame& frame);
  void ReadElement(EventFrame& frame) const;

  const EventFraming framing_;
  const size_t max_bytes_;
  bool gave_up_ = false, finished_ = false;
  std::string_view piece_;
  size_t at_ = 0;              // of the frame, in `piece_`
  std::string tail_, joined_;  // a frame that has begun; the frame of several pieces that Next() gave
  std::string data_;           // of an event of several data lines

  // State of the frame that has begun, at the end of what was scanned.
  bool first_frame_ = true;
  bool line_is_empty_ = true, after_cr_ = false, line_before_is_crlf_ = false, ended_by_cr_ = false;
  bool in_string_ = false, after_backslash_ = false, in_element_ = false, in_array_ = false, known_ = false;
  size_t depth_ = 0;
};

}  // namespace gpulens
