#include "wire/llm/llm_routes.h"

#include <algorithm>
#include <array>

#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr LlmRoute kRoutes[] = {
#define LLM_ROUTE(method, path, api, operation, access, shape, stream)                                       \
  LlmRoute{method,           path, LlmApi::api, LlmOperation::operation, LlmAccess::access, LlmShape::shape, \
           LlmStream::stream},
#include "wire/llm/llm_apis.def"
};

constexpr std::string_view kModel = "{model}", kRest = "{*}";

// Whether `path` has the form of `pattern`; `model` is the part in place of {model}.
bool Fits(std::string_view pattern, std::string_view path, std::string_view& model) noexcept {
  while (!pattern.empty()) {
    const size_t brace = pattern.find('{');
    if (brace == pattern.npos) return pattern == path;
    if (!path.starts_with(pattern.substr(0, brace))) return false;
    path.remove_prefix(brace);
    pattern.remove_prefix(brace);
    if (pattern == kRest) return !path.empty();
    pattern.remove_prefix(kModel.size());
    // Up to the end of the segment, or to the last colon in it where the pattern goes on with one: models
    // have colons.
    std::string_view segment = path.substr(0, path.find('/'));
    if (pattern.starts_with(':')) {
      const size_t colon = segment.rfind(':');
      if (colon == segment.npos) return false;
      segment = segment.substr(0, colon);
    }
    if (segment.empty()) return false;
    model = segment;
    path.remove_prefix(segment.size());
  }
  return path.empty();
}

constexpr bool IsUnreserved(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

std::string_view LlmApiName(LlmApi of) noexcept {
  static constexpr std::array<std::string_view, kLlmApis> kNames = {"openai", "anthropic", "gemini", "ollama",
                                                                    "tgi",    "cohere",    "bedrock"};
  return kNames[static_cast<size_t>(of)];
}

std::string_view LlmOperationName(LlmOperation of) noexcept {
  switch (of) {
    case LlmOperation::kChat: return "chat";
    case LlmOperation::kCompletions: return "text_completion";
    case LlmOperation::kResponses: return "chat";
    case LlmOperation::kGenerateContent: return "generate_content";
    case LlmOperation::kEmbeddings: return "embeddings";
    case LlmOperation::kRerank: return "rerank";
    case LlmOperation::kModerations: return "moderation";
    case LlmOperation::kCountTokens: return "count_tokens";
    case LlmOperation::kModels: return "models";
    case LlmOperation::kOther: return "other";
  }
  return "other";
}

Result<LlmPath> NormalLlmPath(std::string_view target) {
  const auto refused = [](const char* why) { return Status{Code::kInvalidArgument, why}; };
  LlmPath out;
  if (target.find('#') != target.npos) return refused("the path has a fragment");
  if (const size_t mark = target.find('?'); mark != target.npos) {
    out.query = target.substr(mark + 1);
    target = target.substr(0, mark);
  }
  if (!target.starts_with('/')) return refused("the path does not begin with a slash");
  out.path.reserve(target.size());
  std::string segment;
  const auto end_segment = [&](bool last) {
    if (segment == "..") {
      if (out.path.empty()) return false;
      out.path.resize(out.path.rfind('/'));
      if (last) out.path += '/';
    } else if (segment == "." || segment.empty()) {
      if (last) out.path += '/';
    } else {
      out.path += '/';
      out.path += segment;
    }
    segment.clear();
    return true;
  };
  for (size_t at = 1; at < target.size(); ++at) {
    const char c = target[at];
    if (c == '/') {
      if (!end_segment(false)) return refused("the path leaves its root");
    } else if (c == '\\' || static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) == 0x7F) {
      return refused("the path has a backslash or a control byte");
    } else if (c != '%') {
      segment += c;
    } else {
      const int high = at + 2 < target.size() ? HexDigit(target[at + 1]) : -1;
      const int low = at + 2 < target.size() ? HexDigit(target[at + 2]) : -1;
      if (high < 0 || low < 0) return refused("the path has a broken escape");
      const char decoded = static_cast<char>(high << 4 | low);
      if (decoded == '/' || decoded == '\\' || static_cast<unsigned char>(decoded) < ' ' || decoded == 0x7F)
        return refused("the path has an escaped slash or control byte");
      if (IsUnreserved(decoded)) segment += decoded;
      else segment += target.substr(at, 3);
      at += 2;
    }
  }
  if (!end_segment(true)) return refused("the path leaves its root");
  return out;
}

std::span<const LlmRoute> LlmRoutes() noexcept { return kRoutes; }

LlmRouteMatch FindLlmRoute(std::string_view method, std::string_view path) noexcept {
  for (const LlmRoute& route : kRoutes) {
    if (route.method != "*" && route.method != method) continue;
    std::string_view model;
    if (Fits(route.path, path, model))
      return {&route, route.access == LlmAccess::kUnknown ? std::string_view() : model};
  }
  // Not a path at all, as "*": an unknown one of the last row.
  return {&kRoutes[std::size(kRoutes) - 1], {}};
}

bool RequestsSse(std::string_view query) noexcept {
  while (!query.empty()) {
    if (TakeUntil(query, '&') == "alt=sse") return true;
  }
  return false;
}

}  // namespace gpulens
