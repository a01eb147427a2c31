#include "wire/llm/llm_request.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens {
namespace {

// Members that may come once: programs differ in which of two they take.
enum Once : unsigned {
  kModelOnce,
  kStreamOnce,
  kStreamOptionsOnce,
  kTierOnce,
  kChoicesOnce,
  kBestOfOnce,
  kMaxTokensOnce,
  kMaxCompletionTokensOnce,
  kMaxOutputTokensOnce,
  kConfigOnce,
  kBackgroundOnce,
};

class RequestReader {
 public:
  RequestReader(std::string_view body, const LlmRoute& route) noexcept
      : body_(body), route_(route), json_(body, kMaxRequestDepth) {}

  Result<LlmRequest> Read() {
    if (json_.Peek() != JsonScanner::kObject)
      return Status{Code::kInvalidArgument, "the body is no JSON object"};
    json_.Enter();
    std::string_view key;
    size_t members = 0;
    for (bool begun = false; json_.NextMember(begun, key);) {
      if (++members > kMaxRequestMembers) return Status{Code::kExhausted, "the body has too many members"};
      if (key.size() > kMaxRequestKey)
        return Status{Code::kExhausted, "a member of the body has too long a name"};
      key_.assign(key);
      json_.Peek();
      const size_t value = json_.at();
      TakeMember(key_);
      if (json_.at() == value && !json_.failed()) AddInput(key_, 1, false);
      if (refused_) return Status{Code::kInvalidArgument, refused_};
      if (json_.failed()) break;
    }
    if (!json_.failed()) {
      request_.end_brace = json_.at() - 1;
      json_.AtEnd();
      if (json_.at() != body_.size()) json_.Fail("unexpected data after the end");
    }
    if (json_.code() == Code::kExhausted) return Status{Code::kExhausted, "the body is nested too deep"};
    if (json_.failed())
      return Status{Code::kInvalidArgument, "the body is no JSON: " + std::string(json_.what()) +
                                                " at byte " + std::to_string(json_.at())};
    request_.has_members = members > 0;
    // All of the body but media: keys and punctuation are more than what templates add.
    request_.text_bytes = static_cast<int64_t>(body_.size()) - request_.media_bytes;
    switch (route_.stream) {
      case LlmStream::kNever: request_.stream = false; break;
      case LlmStream::kWhenRequested: break;
      case LlmStream::kUnlessRefused: request_.stream = !stream_given_ || request_.stream; break;
      case LlmStream::kAlways: request_.stream = true; break;
    }
    return std::move(request_);
  }

 private:
  bool Refuse(const char* why) noexcept {
    if (!refused_) refused_ = why;
    return false;
  }
  bool TakeOnce(Once which, const char* why) noexcept {
    if (seen_ >> which & 1) return Refuse(why);
    seen_ |= 1u << which;
    return true;
  }

  void TakeMember(std::string_view key) {
    if (key == "model") {
      if (!TakeOnce(kModelOnce, "\"model\" comes twice")) return;
      if (json_.Peek() != JsonScanner::kString) return static_cast<void>(Refuse("\"model\" is no text"));
      const size_t begin = json_.at();
      request_.model = json_.Text();
      request_.model_value = {begin, json_.at()};
      if (request_.model.size() > kMaxRequestText) Refuse("\"model\" is too long");
    } else if (key == "stream") {
      if (!TakeOnce(kStreamOnce, "\"stream\" comes twice")) return;
      if (json_.Peek() == JsonScanner::kNull) return;
      const auto stream = json_.Bool();
      if (!stream) return static_cast<void>(Refuse("\"stream\" is neither true nor false"));
      request_.stream = *stream;
      stream_given_ = true;
    } else if (key == "stream_options") {
      if (TakeOnce(kStreamOptionsOnce, "\"stream_options\" comes twice")) TakeStreamOptions();
    } else if (key == "service_tier") {
      if (TakeOnce(kTierOnce, "\"service_tier\" comes twice"))
        TakeText(request_.service_tier, "\"service_tier\" is no short text");
    } else if (key == "user") {
      if (json_.Peek() == JsonScanner::kString) TakeText(request_.user, "\"user\" is no short text");
    } else if (key == "n") {
      if (TakeOnce(kChoicesOnce, "\"n\" comes twice")) TakeChoices("\"n\" is out of range");
    } else if (key == "best_of") {
      if (TakeOnce(kBestOfOnce, "\"best_of\" comes twice")) TakeChoices("\"best_of\" is out of range");
    } else if (key == "max_tokens") {
      if (TakeOnce(kMaxTokensOnce, "\"max_tokens\" comes twice")) TakeMaxOutput();
    } else if (key == "max_completion_tokens") {
      if (TakeOnce(kMaxCompletionTokensOnce, "\"max_completion_tokens\" comes twice")) TakeMaxOutput();
    } else if (key == "max_output_tokens") {
      if (TakeOnce(kMaxOutputTokensOnce, "\"max_output_tokens\" comes twice")) TakeMaxOutput();
    } else if (key == "generationConfig" || key == "generation_config" || key == "options" ||
               key == "parameters") {
      if (TakesConfig(key) && TakeOnce(kConfigOnce, "the configuration of the output comes twice"))
        TakeConfig();
    } else if (key == "background") {
      if (!TakeOnce(kBackgroundOnce, "\"background\" comes twice")) return;
      if (json_.Peek() == JsonScanner::kTrue) request_.background = true;
    } else if (IsOpen(key) && json_.Peek() != JsonScanner::kNull) {
      request_.open_input = true;
    }
  }

  // Members that name input which is elsewhere. Completions' "prompt" is the input itself.
  bool IsOpen(std::string_view key) const noexcept {
    static constexpr std::string_view kKeys[] = {"previous_response_id", "conversation",      "cachedContent",
                                                 "cached_content",       "container",         "mcp_servers",
                                                 "web_search_options",   "search_parameters", "data_sources"};
    if (key == "prompt") return route_.shape == LlmShape::kResponses;
    return std::ranges::find(kKeys, key) != std::end(kKeys);
  }

  bool TakesConfig(std::string_view key) const noexcept {
    switch (route_.shape) {
      case LlmShape::kGemini: return key == "generationConfig" || key == "generation_config";
      case LlmShape::kOllama: return key == "options";
      case LlmShape::kTgi: return key == "parameters";
      default: return false;
    }
  }

  void TakeConfig() {
    if (json_.Peek() == JsonScanner::kNull) return;
    if (json_.Peek() != JsonScanner::kObject)
      return static_cast<void>(Refuse("the configuration of the output is no object"));
    bool output = false, choices = false;
    json_.Object([&](std::string_view key) {
      if (key == "maxOutputTokens" || key == "max_output_tokens" || key == "num_predict" ||
          key == "max_new_tokens") {
        if (std::exchange(output, true)) Refuse("the limit of the output comes twice");
        // Ollama: -1 and -2 are none.
        else if (route_.shape == LlmShape::kOllama) TakeMaxOutput(true);
        else TakeMaxOutput();
      } else if (key == "candidateCount" || key == "candidate_count" || key == "best_of") {
        if (std::exchange(choices, true)) Refuse("the number of choices comes twice");
        else TakeChoices("the number of choices is out of range");
      }
    });
  }

  void TakeStreamOptions() {
    if (json_.Peek() == JsonScanner::kNull) {
      request_.stream_options = {json_.at(), json_.at() + 4};
      return;
    }
    if (json_.Peek() != JsonScanner::kObject)
      return static_cast<void>(Refuse("\"stream_options\" is no object"));
    const size_t begin = json_.at();
    size_t members = 0;
    json_.Object([&](std::string_view key) {
      ++members;
      const bool usage = key == "include_usage", continuous = key == "continuous_usage_stats";
      if (!usage && !continuous) return;
      ByteSpan& span = usage ? request_.include_usage : request_.continuous_usage;
      if (!span.empty()) return static_cast<void>(Refuse("a member of \"stream_options\" comes twice"));
      const JsonScanner::Kind kind = json_.Peek();
      if (kind != JsonScanner::kTrue && kind != JsonScanner::kFalse && kind != JsonScanner::kNull)
        return static_cast<void>(Refuse("\"include_usage\" is neither true nor false"));
      span.begin = json_.at();
      json_.Skip();
      span.end = json_.at();
      if (usage) request_.usage_requested = kind == JsonScanner::kTrue;
    });
    request_.stream_options = {begin, json_.at()};
    request_.stream_options_end = json_.at() - 1;
    request_.stream_options_has_members = members > 0;
  }

  void TakeText(std::string& out, const char* why) {
    if (json_.Peek() == JsonScanner::kNull) return;
    if (json_.Peek() != JsonScanner::kString) return static_cast<void>(Refuse(why));
    out = json_.Text();
    if (out.size() > kMaxRequestText) Refuse(why);
  }

  std::optional<int64_t> TakeInteger() {
    std::string_view number;
    if (json_.Peek() != JsonScanner::kNumber || !json_.Number(number)) return std::nullopt;
    return JsonInteger<int64_t>(number);
  }

  void TakeChoices(const char* why) {
    if (json_.Peek() == JsonScanner::kNull) return;
    const auto choices = TakeInteger();
    if (!choices || *choices < 1 || *choices > kMaxRequestChoices) return static_cast<void>(Refuse(why));
    request_.choices = std::max(request_.choices, *choices);
  }

  // Where two members limit the output, the larger bounds it.
  void TakeMaxOutput(bool negative_is_none = false) {
    if (json_.Peek() == JsonScanner::kNull) return;
    const auto limit = TakeInteger();
    if (limit && *limit < 0 && negative_is_none) return;
    if (!limit || *limit < 0 || *limit > kMaxRequestOutput)
      return static_cast<void>(Refuse("the limit of the output is out of range"));
    request_.max_output = std::max(request_.max_output.value_or(0), *limit);
  }

  // Walks input for media and for what is not in the body. `plain`: below a call of a tool or its schema,
  // where members are the client's own and mean nothing.
  void AddInput(std::string_view key, int depth, bool plain) {
    switch (json_.Peek()) {
      case JsonScanner::kObject: {
        const bool source = !plain && IsMedia(key);
        const bool below = plain || (depth > 1 && IsClientsOwn(key));
        if (source) ++request_.media;
        json_.Object([&](std::string_view inner) {
          const JsonScanner::Kind kind = json_.Peek();
          if (kind == JsonScanner::kString) {
            if (source) TakeMedia(inner);
            else if (!below) TakeReference(inner);
            return;
          }
          if (kind != JsonScanner::kObject && kind != JsonScanner::kArray) return;
          std::array<char, 32> room{};  // the key is gone once a text is read
          const size_t size = std::min(inner.size(), room.size());
          std::copy_n(inner.data(), size, room.data());
          AddInput({room.data(), size}, depth + 1, below);
        });
        return;
      }
      case JsonScanner::kArray: {
        // Ollama: images of a message, each a text.
        const bool images = !plain && key == "images" && route_.shape == LlmShape::kOllama;
        json_.Array([&] {
          const JsonScanner::Kind kind = json_.Peek();
          if (kind == JsonScanner::kString && images) {
            ++request_.media;
            TakeMedia("data");
          } else if (kind == JsonScanner::kObject || kind == JsonScanner::kArray) {
            AddInput(key, depth, plain);
          }
        });
        return;
      }
      default: json_.Skip(); return;
    }
  }

  static bool IsMedia(std::string_view key) noexcept {
    static constexpr std::string_view kKeys[] = {"image_url", "input_audio", "inlineData", "inline_data",
                                                 "fileData",  "file_data",   "source",     "file",
                                                 "video_url", "audio_url"};
    return std::ranges::find(kKeys, key) != std::end(kKeys);
  }
  static bool IsClientsOwn(std::string_view key) noexcept {
    static constexpr std::string_view kKeys[] = {
        "input",        "args",   "arguments",        "response",     "parameters",
        "input_schema", "schema", "functionResponse", "functionCall", "properties"};
    return std::ranges::find(kKeys, key) != std::end(kKeys);
  }

  // A text of a medium: its bytes, when they are here.
  void TakeMedia(std::string_view key) {
    const bool bytes = key == "data" || key == "url" || key == "file_data";
    const bool reference = key == "file_id" || key == "fileUri" || key == "file_uri";
    const size_t begin = json_.at();
    json_.Skip();
    if (bytes) request_.media_bytes += static_cast<int64_t>(json_.at() - begin) - 2;
    if (reference) request_.open_input = true;
  }

  // Members of messages and tools, outside of media.
  void TakeReference(std::string_view key) {
    if (key == "image_url" || key == "file_data") {
      ++request_.media;
      const size_t begin = json_.at();
      json_.Skip();
      request_.media_bytes += static_cast<int64_t>(json_.at() - begin) - 2;
    } else if (key == "file_id" || key == "file_url") {
      request_.open_input = true;
    } else if (key == "type") {
      const std::string_view type = json_.Text();
      // Tools that the provider runs, whose results are input.
      for (const std::string_view tool :
           {"web_search", "web_fetch", "file_search", "code_interpreter", "code_execution", "mcp", "computer",
            "item_reference", "image_generation"}) {
        if (type.starts_with(tool)) request_.open_input = true;
      }
    }
  }

  const std::string_view body_;
  const LlmRoute& route_;
  JsonScanner json_;
  LlmRequest request_;
  std::string key_;
  unsigned seen_ = 0;
  bool stream_given_ = false;
  const char* refused_ = nullptr;
};

}  // namespace

Result<LlmRequest> ReadLlmRequest(std::string_view body, const LlmRoute& route) {
  return RequestReader(body, route).Read();
}

std::vector<LlmEdit> InjectUsage(const LlmRequest& request, const LlmRoute& route, bool continuous) {
  std::vector<LlmEdit> edits;
  if (route.shape != LlmShape::kChat || !request.stream || request.usage_requested) return edits;
  const auto member = [](bool comma, std::string_view text) {
    return std::string(comma ? "," : "").append(text);
  };
  const std::string_view both =
      continuous ? R"("include_usage":true,"continuous_usage_stats":true)" : R"("include_usage":true)";
  const bool is_object = request.stream_options_end != 0;
  if (!is_object) {
    const std::string object = "{" + std::string(both) + "}";
    if (request.stream_options.empty()) return {AddMember(request, "stream_options", object)};
    return {
        {request.stream_options.begin, request.stream_options.end - request.stream_options.begin, object}};
  }
  bool comma = request.stream_options_has_members;
  const auto set = [&](const ByteSpan& value, std::string_view name) {
    if (!value.empty()) return edits.push_back({value.begin, value.end - value.begin, "true"});
    edits.push_back({request.stream_options_end, 0, member(comma, name)});
    comma = true;
  };
  set(request.include_usage, R"("include_usage":true)");
  if (continuous) set(request.continuous_usage, R"("continuous_usage_stats":true)");
  return edits;
}

LlmEdit ReplaceModel(const LlmRequest& request, std::string_view model) {
  LlmEdit edit{request.model_value.begin, request.model_value.end - request.model_value.begin, {}};
  AppendJsonString(edit.insert, model);
  return edit;
}

LlmEdit AddMember(const LlmRequest& request, std::string_view key, std::string_view json) {
  LlmEdit edit{request.end_brace, 0, request.has_members ? "," : ""};
  AppendJsonString(edit.insert, key);
  edit.insert += ':';
  edit.insert += json;
  return edit;
}

std::string Edited(std::string_view body, std::span<const LlmEdit> edits) {
  std::vector<const LlmEdit*> order;
  for (const LlmEdit& edit : edits) order.push_back(&edit);
  for (size_t i = 1; i < order.size(); ++i) {
    for (size_t j = i; j > 0 && order[j]->at < order[j - 1]->at; --j) std::swap(order[j], order[j - 1]);
  }
  std::string out;
  out.reserve(EditedSize(body, edits));
  size_t at = 0;
  for (const LlmEdit* edit : order) {
    out += body.substr(at, edit->at - at);
    out += edit->insert;
    at = edit->at + edit->erase;
  }
  out += body.substr(at);
  return out;
}

size_t EditedSize(std::string_view body, std::span<const LlmEdit> edits) noexcept {
  size_t size = body.size();
  for (const LlmEdit& edit : edits) size += edit.insert.size() - edit.erase;
  return size;
}

std::string_view MaxOutputMember(const LlmRoute& route) noexcept {
  switch (route.shape) {
    case LlmShape::kChat:
      return route.operation == LlmOperation::kChat ? "max_completion_tokens" : "max_tokens";
    case LlmShape::kResponses: return "max_output_tokens";
    case LlmShape::kMessages:
    case LlmShape::kCohere: return "max_tokens";
    default: return {};
  }
}

}  // namespace gpulens
