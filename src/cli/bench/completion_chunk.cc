#include "cli/bench/completion_chunk.h"

#include <array>

#include "base/json.h"

namespace gpulens {
namespace {

constexpr size_t kMostErrorBytes = 300;

// Of chat, streamed and whole; of completions; of servers that tell reasoning apart.
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

}  // namespace gpulens
