#include "wire/llm/event_splitter.h"

#include <algorithm>
#include <cstring>

namespace gpulens {
namespace {

constexpr size_t kNowhere = std::string_view::npos;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Removes a line with its end from the front of `rest`. `has_cr`: one may be in `rest`.
std::string_view TakeLine(std::string_view& rest, bool has_cr) noexcept {
  size_t end = 0;
  if (has_cr) {
    while (end < rest.size() && rest[end] != '\n' && rest[end] != '\r') ++end;
  } else {
    end = std::min(rest.find('\n'), rest.size());
  }
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end);
  if (!rest.empty()) rest.remove_prefix(rest.starts_with("\r\n") ? 2 : 1);
  return line;
}

}  // namespace

void EventSplitter::Feed(std::string_view piece) {
  piece_ = piece;
  at_ = 0;
}

void EventSplitter::BeginFrame() noexcept {
  first_frame_ = false;
  line_is_empty_ = true;
  after_cr_ = line_before_is_crlf_ = false;
  in_string_ = after_backslash_ = in_element_ = false;
}

bool EventSplitter::Next(EventFrame& frame) {
  frame = {};
  if (!gave_up_) {
    const std::string_view rest = piece_.substr(at_);
    const bool first = first_frame_;
    size_t end = rest.empty() ? kNowhere : FindEnd();
    const bool last = end == kNowhere && finished_ && !(tail_.empty() && rest.empty());
    if (last) end = piece_.size();
    if (tail_.size() + (end == kNowhere ? rest.size() : end - at_) > max_bytes_) {
      gave_up_ = true;
    } else if (end == kNowhere) {
      tail_ += rest;
      at_ = piece_.size();
      return false;
    } else {
      frame.bytes = rest.substr(0, end - at_);
      if (!tail_.empty()) {
        tail_ += frame.bytes;
        joined_.swap(tail_);
        tail_.clear();
        frame.bytes = joined_;
      }
      frame.ends_frame_before = ended_by_cr_ && frame.bytes == "\n";
      ended_by_cr_ = framing_ == EventFraming::kSse && !last && frame.bytes.back() == '\r';
      at_ = end;
      switch (framing_) {
        case EventFraming::kSse:
          first_frame_ = first;
          ReadSse(frame);
          break;
        case EventFraming::kLines:
          frame.data = frame.bytes;
          while (!frame.data.empty() && static_cast<unsigned char>(frame.data.back()) <= ' ')
            frame.data.remove_suffix(1);
          frame.data_is_inside = true;
          break;
        case EventFraming::kArray: ReadElement(frame); break;
      }
      BeginFrame();
      return true;
    }
  }
  // Given up: what was kept, then the rest of each piece.
  if (!tail_.empty()) {
    joined_.swap(tail_);
    tail_.clear();
    frame.bytes = joined_;
    return true;
  }
  frame.bytes = piece_.substr(std::min(at_, piece_.size()));
  at_ = piece_.size();
  return !frame.bytes.empty();
}

size_t EventSplitter::FindEnd() {
  switch (framing_) {
    case EventFraming::kSse: return FindSseEnd();
    case EventFraming::kLines: return FindLineEnd();
    case EventFraming::kArray: return FindElementEnd();
  }
  return kNowhere;
}

size_t EventSplitter::FindLineEnd() const noexcept {
  const size_t end = piece_.find('\n', at_);
  return end == kNowhere ? end : end + 1;
}

// The frame ends with the end of the first empty line. Where the line before ends with CRLF, so does the
// empty one: the LF is waited for. Else a CR ends the frame at once, and an LF that follows is a frame of its
// own; waiting for it would hold back each event of a server that ends lines with CR.
size_t EventSplitter::FindSseEnd() {
  size_t at = at_;
  // An LF where a frame could begin belongs to the CR before it.
  if (ended_by_cr_ && tail_.empty() && piece_[at] == '\n') return at + 1;
  size_t line_feed = 0;  // the next one from `at`; found again only when it is passed
  bool line_feed_known = false;
  const char* const begin = piece_.data();
  while (at < piece_.size()) {
    if (after_cr_) {
      // The line has ended with CR; it was not empty, or the end of the empty one is CRLF.
      const bool crlf = piece_[at] == '\n';
      if (crlf) ++at;
      after_cr_ = false;
      if (line_is_empty_) return at;
      line_before_is_crlf_ = crlf;
      line_is_empty_ = true;
      continue;
    }
    if (!line_feed_known || line_feed < at) {
      const void* found = std::memchr(begin + at, '\n', piece_.size() - at);
      line_feed = found ? static_cast<size_t>(static_cast<const char*>(found) - begin) : piece_.size();
      line_feed_known = true;
    }
    const void* found = std::memchr(begin + at, '\r', line_feed - at);
    const size_t end = found ? static_cast<size_t>(static_cast<const char*>(found) - begin) : line_feed;
    if (end > at) {
      // The byte order mark of a first line that has nothing else is no content; what a cut leaves of it
      // counts as content, which is right for all but an empty first line.
      line_is_empty_ = false;
      at = end;
    }
    if (end == piece_.size()) break;
    if (found) {
      ++at;
      if (line_is_empty_ && !line_before_is_crlf_) return at;
      after_cr_ = true;
      continue;
    }
    ++at;
    if (line_is_empty_) return at;
    line_is_empty_ = true;
    line_before_is_crlf_ = false;
  }
  return kNowhere;
}

void EventSplitter::ReadSse(EventFrame& frame) {
  std::string_view rest = frame.bytes;
  if (first_frame_ && rest.starts_with(kByteOrderMark)) rest.remove_prefix(kByteOrderMark.size());
  const bool has_cr = rest.find('\r') != kNowhere;
  size_t lines = 0;
  while (!rest.empty()) {
    const std::string_view line = TakeLine(rest, has_cr);
    const size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    if (name != "data" && name != "event") continue;
    std::string_view value = colon == kNowhere ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (name == "event") {
      frame.event = value;
      continue;
    }
    if (++lines == 1) {
      frame.data = value;
      continue;
    }
    if (lines == 2) data_ = frame.data;
    data_ += '\n';
    data_ += value;
  }
  if (lines > 1) frame.data = data_;
  frame.data_is_inside = lines == 1;
}

// A frame ends after the brace that closes an object that is not inside another one. In the array at the top
// objects are elements; an object at the top is a frame of its own.
size_t EventSplitter::FindElementEnd() {
  for (size_t at = at_; at < piece_.size(); ++at) {
    const char c = piece_[at];
    if (in_string_) {
      if (after_backslash_) after_backslash_ = false;
      else if (c == '\\') after_backslash_ = true;
      else if (c == '"') in_string_ = false;
      continue;
    }
    switch (c) {
      case '"': in_string_ = true; break;
      case '{':
      case '[':
        if (!known_ || (!in_element_ && !in_array_)) {
          known_ = true;
          in_array_ = c == '[';
          if (in_array_) break;
        }
        in_element_ = true;
        ++depth_;
        break;
      case '}':
      case ']':
        if (!in_element_) {
          if (c == ']') in_array_ = false;
          break;
        }
        if (--depth_ == 0) return at + 1;
        break;
      default: break;
    }
  }
  return kNowhere;
}

void EventSplitter::ReadElement(EventFrame& frame) const {
  if (!in_element_ || depth_ != 0) return;
  // Not the bracket of the array, nor commas and blanks before the element.
  size_t at = 0;
  if (const size_t brace = frame.bytes.find('{'); brace != kNowhere) at = brace;
  frame.data = frame.bytes.substr(at);
  frame.data_is_inside = true;
}

}  // namespace gpulens
