// Parses the answers of OpenAI-compatible servers: server-sent events and chunks of completions. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// The data of one event of a stream, or a whole answer.
struct CompletionChunk {
  bool done = false;  // the end mark of a stream
  bool text = false;  // brings text, reasoning or a call of a tool: at least one token
  std::optional<uint64_t> prompt_tokens, cached_tokens, completion_tokens;  // as the server counts them
  std::string error;  // reported by the server; empty: none
};

// kDataLoss: no JSON.
Result<CompletionChunk> ReadCompletionChunk(std::string_view data);

// The id of the first model in an answer to GET /v1/models.
std::optional<std::string> FirstModel(std::string_view models_answer);

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
