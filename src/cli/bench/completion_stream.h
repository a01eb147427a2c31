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
  bool text = false;  // has text, reasoning or a tool call, so at least one token
  std::optional<uint64_t> prompt_tokens, cached_tokens, completion_tokens;  // as the server counts them
  std::string error;  // reported by the server; empty: none
};

// kDataLoss: `data` is not JSON.
Result<CompletionChunk> ReadCompletionChunk(std::string_view data);

// Returns the id of the first model in an answer to GET /v1/models.
std::optional<std::string> FirstModel(std::string_view models_answer);

// Splits bytes, in pieces of any size, into events. Not thread-safe; can be reused after Reset.
class SseReader {
 public:
  static constexpr size_t kMostBytes = 1u << 20;  // of an event, and of a line

  using OnData = std::function<void(std::string_view data)>;

  // Calls `on_data` for each complete event with its data lines, joined by line feeds. Skips other fields and
  // comments. Returns false once an event or a line exceeds the limit, until Reset.
  bool Feed(std::string_view bytes, const OnData& on_data);
  void Reset();

 private:
  bool OnLine(std::string_view line, const OnData& on_data);

  std::string line_, data_;
  bool has_data_ = false, after_cr_ = false, too_large_ = false;
};

}  // namespace gpulens
