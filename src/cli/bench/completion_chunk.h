// What an OpenAI-compatible server says, read for what a benchmark wants to know. Pure.
#pragma once

#include <cstdint>
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
  std::string error;  // what it says went wrong; empty: nothing
};

// kDataLoss: no JSON.
Result<CompletionChunk> ReadCompletionChunk(std::string_view data);

// The id of the first model that GET /v1/models tells; nothing when there is none.
std::optional<std::string> FirstModel(std::string_view models_answer);

}  // namespace gpulens
