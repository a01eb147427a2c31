// Reads the body of a request to an LLM API: the members that a proxy acts on, and where they are, so that a
// few bytes can be changed and the others stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "wire/llm/llm_routes.h"

namespace gpulens {

// Bytes [begin, end) of a body.
struct ByteSpan {
  size_t begin = 0, end = 0;
  bool empty() const noexcept { return begin == end; }
  bool operator==(const ByteSpan&) const = default;
};

// A plain value.
struct LlmRequest {
  std::string model;                  // empty: not in the body
  ByteSpan model_value;               // with its quotes
  bool stream = false;                // by the body and the route together
  bool usage_requested = false;       // stream_options.include_usage is true
  std::string service_tier;           // as requested, or empty
  std::string user;                   // a person's: hash it before it goes anywhere
  int64_t choices = 1;                // n, or Gemini's candidateCount, or best_of where it is more
  std::optional<int64_t> max_output;  // of each choice, in tokens
  bool background = false;            // Responses: the answer comes later, by another request

  // Upper bound of the tokens of the input that the body carries as text: bytes of JSON, but those of media.
  // A token of a byte-level vocabulary has at least one byte, and what templates add is shorter than the JSON
  // around each message.
  int64_t text_bytes = 0;
  // Images, sounds and documents: base64 in the body, or by reference. The model's row bounds the tokens of
  // each.
  int64_t media = 0;
  int64_t media_bytes = 0;
  // The body names input that it does not carry (an earlier response, a stored prompt, a file, a cache, tools
  // of the provider): `text_bytes` bounds nothing.
  bool open_input = false;

  // Where members can be added: the brace that closes the body, and whether it has members.
  size_t end_brace = 0;
  bool has_members = false;
  // The value of stream_options, and in it the value of include_usage; empty where there is none. `end_brace`
  // of the object, and whether it has members.
  ByteSpan stream_options, include_usage, continuous_usage;
  size_t stream_options_end = 0;
  bool stream_options_has_members = false;
};

// Limits, above which a body is refused.
inline constexpr size_t kMaxRequestDepth = 64;
inline constexpr size_t kMaxRequestMembers = 256;  // at depth 1
inline constexpr size_t kMaxRequestKey = 256;      // bytes, at depth 1
inline constexpr size_t kMaxRequestText = 512;     // bytes of the model and the like
inline constexpr int64_t kMaxRequestChoices = 1024;
inline constexpr int64_t kMaxRequestOutput = 100'000'000;

// kInvalidArgument, with a sentence for the client that quotes nothing of the body: no JSON, no object, a
// member twice that two programs could read differently (model, stream, …), a member of the wrong type,
// numbers out of range. kExhausted: too deep, too many members.
Result<LlmRequest> ReadLlmRequest(std::string_view body, const LlmRoute& route);

// One change of a body: `erase` bytes at `at` become `insert`.
struct LlmEdit {
  size_t at = 0, erase = 0;
  std::string insert;
  bool operator==(const LlmEdit&) const = default;
};

// Makes the server send usage in the stream, and with `continuous` (vLLM) in each of its events. None where
// the client requested it, where nothing is streamed, and for routes that have no such member. Answers are
// read with strip_usage exactly where there is an edit.
std::vector<LlmEdit> InjectUsage(const LlmRequest& request, const LlmRoute& route, bool continuous = false);
// Names another model. Only where the body names one.
LlmEdit ReplaceModel(const LlmRequest& request, std::string_view model);
// Adds a member at depth 1; `json` is its value as JSON. Only where the body has no member of that name.
LlmEdit AddMember(const LlmRequest& request, std::string_view key, std::string_view json);
// The body with its edits, in any order, which do not overlap; those at one place in their order.
std::string Edited(std::string_view body, std::span<const LlmEdit> edits);
// The size of that.
size_t EditedSize(std::string_view body, std::span<const LlmEdit> edits) noexcept;

// The name of the member that limits the output of this route: "max_tokens", …; empty where it is no member
// at depth 1.
std::string_view MaxOutputMember(const LlmRoute& route) noexcept;

}  // namespace gpulens
