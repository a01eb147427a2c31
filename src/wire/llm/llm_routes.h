// Which API of an LLM provider a path belongs to, and what is known of it. Rows: llm_apis.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

// Decides the shape of errors.
enum class LlmApi : uint8_t { kOpenAi, kAnthropic, kGemini, kOllama, kTgi, kCohere, kBedrock };
inline constexpr size_t kLlmApis = 7;
enum class LlmOperation : uint8_t {
  kChat,
  kCompletions,
  kResponses,
  kGenerateContent,
  kEmbeddings,
  kRerank,
  kModerations,
  kCountTokens,
  kModels,
  kOther
};
enum class LlmAccess : uint8_t {
  kMetered,    // charged by the usage in the answer
  kFree,       // limited in rate, not charged
  kUnmetered,  // known to cost money, which is not counted yet: not for keys with a budget
  kUnknown     // no route: not for keys with a budget
};
// Where the members of an answer are.
enum class LlmShape : uint8_t {
  kChat,       // OpenAI's chat and text completions
  kResponses,  // OpenAI's Responses
  kMessages,   // Anthropic's Messages
  kGemini,
  kOllama,
  kTgi,
  kCohere,  // Cohere's chat, version 2
  kPlain    // usage alone: embeddings, rerank
};
enum class LlmStream : uint8_t {
  kNever,
  kWhenRequested,  // "stream": true in the body
  kUnlessRefused,  // but for "stream": false
  kAlways
};

std::string_view LlmApiName(LlmApi of) noexcept;  // "openai", "anthropic", …
std::string_view LlmOperationName(
    LlmOperation of) noexcept;  // "chat", "text_completion", …: gen_ai.operation.name

struct LlmRoute {
  std::string_view method;  // "*": any
  std::string_view path;    // a pattern: llm_apis.def
  LlmApi api;
  LlmOperation operation;
  LlmAccess access;
  LlmShape shape;
  LlmStream stream;
};

// A path as it is matched and sent on: escapes of unreserved characters are decoded, "." and ".." and empty
// segments are removed. Refused, because programs read them differently: escaped or real slashes that some
// decode
// ("%2f", "%5c", "\"), NUL and control bytes, broken escapes, "..", that leave the root, a fragment, a path
// that does not begin with a slash. kInvalidArgument. `query` is what follows "?", without it and as it came;
// a view of `target`.
struct LlmPath {
  std::string path;
  std::string_view query;
  bool operator==(const LlmPath&) const = default;
};
Result<LlmPath> NormalLlmPath(std::string_view target);

// All rows, in their order.
std::span<const LlmRoute> LlmRoutes() noexcept;

struct LlmRouteMatch {
  const LlmRoute* route;   // never null; static storage
  std::string_view model;  // the segment in the path, a view of it, escapes and all; empty: the body names it
};
// `path` is normal, without its query. Finds a row for everything; one with access kUnknown where there is
// none.
LlmRouteMatch FindLlmRoute(std::string_view method, std::string_view path) noexcept;

// Whether a query requests of Gemini for server-sent events ("alt=sse").
bool RequestsSse(std::string_view query) noexcept;

}  // namespace gpulens
