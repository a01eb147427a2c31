#include "cli/bench/completion_stream.h"

#include <array>

#include "base/json.h"

namespace gpulens {

namespace {

constexpr size_t kMostErrorBytes = 300;

// Keys of chat (streamed and whole), of completions, and of servers with separate reasoning.
constexpr std::array<std::string_view, 7> kTexts{
    "/choices/0/delta/content", "/choices/0/delta/reasoning_content", "/choices/0/delta/reasoning",
    "/choices/0/text",          "/choices/0/message/content",         "/choices/0/message/reasoning_content",
    "/choices/0/delta/refusal",
};

bool BringsText(const JsonDocument& json) {
  for (std::string_view pointer : kTexts) {
    if (const auto text = json.Text(pointer); text && !text->empty()) return true;
  }
  return json.Size("/choices/0/delta/tool_calls") > 0 || json.Size("/choices/0/message/tool_calls") > 0;
}

std::string ErrorOf(const JsonDocument& json) {
  for (std::string_view pointer : {"/error/message", "/error", "/message", "/detail"}) {
    if (auto text = json.Text(pointer)) return text->substr(0, kMostErrorBytes);
  }
  return {};
}

}  // namespace

Result<CompletionChunk> ReadCompletionChunk(std::string_view data) {
  CompletionChunk chunk;
  if (data == "[DONE]") {
    chunk.done = true;
    return chunk;
  }
  const auto json = JsonDocument::Parse(data);
  if (!json) return json.error();
  chunk.text = BringsText(*json);
  chunk.prompt_tokens = json->Whole("/usage/prompt_tokens");
  chunk.completion_tokens = json->Whole("/usage/completion_tokens");
  chunk.cached_tokens = json->Whole("/usage/prompt_tokens_details/cached_tokens");
  if (json->Size("/choices") == 0) chunk.error = ErrorOf(*json);
  return chunk;
}

std::optional<std::string> FirstModel(std::string_view models_answer) {
  const auto json = JsonDocument::Parse(models_answer);
  if (!json) return {};
  return json->Text("/data/0/id");
}

void SseReader::Reset() {
  line_.clear();
  data_.clear();
  has_data_ = after_cr_ = too_large_ = false;
}

bool SseReader::Feed(std::string_view bytes, const OnData& on_data) {
  while (!bytes.empty() && !too_large_) {
    // A line ends with CR, LF or CR LF, whose LF may arrive with the next bytes.
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
