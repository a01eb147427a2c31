#include "cli/bench/sse_reader.h"

namespace gpulens {

void SseReader::Reset() {
  line_.clear();
  data_.clear();
  has_data_ = after_cr_ = too_large_ = false;
}

bool SseReader::Feed(std::string_view bytes, const OnData& on_data) {
  while (!bytes.empty() && !too_large_) {
    // A line ends with CR, LF or both; of both, the second may come with the next bytes.
    if (after_cr_ && bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > kMostBytes) {
      too_large_ = true;
      break;
    }
    if (end == std::string_view::npos) {
      line_ += piece;
      break;
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (line_.empty()) {
      too_large_ = !OnLine(piece, on_data);
    } else {
      line_ += piece;
      too_large_ = !OnLine(line_, on_data);
      line_.clear();
    }
  }
  return !too_large_;
}

bool SseReader::OnLine(std::string_view line, const OnData& on_data) {
  if (line.empty()) {
    if (has_data_) on_data(data_);
    data_.clear();
    has_data_ = false;
    return true;
  }
  constexpr std::string_view kData = "data";
  if (!line.starts_with(kData)) return true;
  line.remove_prefix(kData.size());
  if (!line.empty() && line.front() != ':') return true;  // another field whose name begins so
  if (!line.empty()) line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (data_.size() + line.size() + 1 > kMostBytes) return false;
  if (has_data_) data_ += '\n';
  data_ += line;
  has_data_ = true;
  return true;
}

}  // namespace gpulens
