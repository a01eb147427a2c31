#include "wire/llm/llm_answer.h"

#include <algorithm>

#include "base/parse.h"

namespace gpulens {
namespace {

constexpr size_t kMaxText = 256;
constexpr size_t kMaxFinishReasons = 128;

EventFraming FramingOfEvents(LlmFraming framing) noexcept {
  switch (framing) {
    case LlmFraming::kLines: return EventFraming::kLines;
    case LlmFraming::kArray: return EventFraming::kArray;
    default: return EventFraming::kSse;
  }
}

bool IsBlank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// A short text; of another kind or too long: nothing.
void TakeText(JsonScanner& json, std::string& out) {
  if (json.Peek() != JsonScanner::kString) return;
  const std::string_view text = json.Text();
  if (!text.empty() && text.size() <= kMaxText) out = text;
}

// Members of output that are no text of the model.
bool IsNoText(std::string_view key) noexcept {
  static constexpr std::string_view kKeys[] = {"role",
                                               "id",
                                               "type",
                                               "index",
                                               "signature",
                                               "call_id",
                                               "data",
                                               "mimeType",
                                               "status",
                                               "annotations",
                                               "thoughtSignature",
                                               "logprobs",
                                               "mime_type",
                                               "object",
                                               "url",
                                               "encrypted_content"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

}  // namespace

LlmFraming FramingOfAnswer(const LlmRoute& route, bool stream_requested,
                           std::string_view content_type) noexcept {
  const std::string_view type = Trim(content_type.substr(0, content_type.find(';')));
  if (EqualsIgnoringCase(type, "text/event-stream")) return LlmFraming::kSse;
  if (EqualsIgnoringCase(type, "application/x-ndjson") || EqualsIgnoringCase(type, "application/jsonl") ||
      EqualsIgnoringCase(type, "application/stream+json"))
    return LlmFraming::kLines;
  if (!stream_requested) return LlmFraming::kWhole;
  if (route.shape == LlmShape::kGemini) return LlmFraming::kArray;
  if (!type.empty()) return LlmFraming::kWhole;
  return route.shape == LlmShape::kOllama ? LlmFraming::kLines : LlmFraming::kSse;
}

void LlmAnswerReader::Event::Clear() noexcept {
  id.clear();
  model.clear();
  tier.clear();
  status.clear();
  type.clear();
  error_type.clear();
  finish_reasons.clear();
  has_usage = usage_is_object = no_choices = error = done = blocked = false;
  content_bytes = listed_tokens = 0;
  usage = {};
}

LlmAnswerReader::LlmAnswerReader(const LlmAnswerOptions& options)
    : options_(options),
      splitter_(FramingOfEvents(options.framing), options.max_event_bytes),
      digest_(options.max_event_bytes) {
  pass_.reserve(16);
}

LlmAnswerStep LlmAnswerReader::Feed(std::string_view piece) {
  pass_.clear();
  if (options_.framing == LlmFraming::kWhole) {
    TakeWhole(piece);
    return Step();
  }
  splitter_.Feed(piece);
  for (EventFrame frame; splitter_.Next(frame);) TakeFrame(frame);
  return Step();
}

LlmAnswerStep LlmAnswerReader::Finish() {
  pass_.clear();
  if (options_.framing != LlmFraming::kWhole) {
    splitter_.Feed({});
    splitter_.Finish();
    for (EventFrame frame; splitter_.Next(frame);) TakeFrame(frame);
    // Streams that have no mark of their end: it was the last event that ended a choice.
    if (options_.shape == LlmShape::kGemini && holding_ && !answer_.error) answer_.ended = true;
  }
  settle_ = true;
  return Step();
}

LlmAnswerStep LlmAnswerReader::Step() {
  answer_.gave_up = splitter_.gave_up() || digest_.gave_up();
  LlmAnswerStep step;
  step.pass = pass_;
  step.first_token = first_token_ && !reported_first_token_;
  reported_first_token_ = first_token_;
  step.settle = settle_ && !reported_settle_;
  reported_settle_ = settle_;
  return step;
}

std::string_view LlmAnswerReader::Release() {
  let_go_ = true;
  holding_ = false;
  released_.swap(held_);
  held_.clear();
  return released_;
}

void LlmAnswerReader::Pass(std::string_view bytes) {
  if (bytes.empty()) return;
  if (holding_) {
    held_ += bytes;
    // Not a matter of the last event any more; and memory is bounded.
    if (held_.size() > options_.max_event_bytes) settle_ = true;
    return;
  }
  if (!pass_.empty() && pass_.back().data() + pass_.back().size() == bytes.data()) {
    pass_.back() = {pass_.back().data(), pass_.back().size() + bytes.size()};
  } else {
    pass_.push_back(bytes);
  }
}

void LlmAnswerReader::TakeWhole(std::string_view piece) {
  if (!digest_.ended() && !digest_.gave_up() && digest_.Feed(piece)) {
    ReadEvent(digest_.text());
    answer_.content_bytes += digest_.bytes_left_out();
    answer_.ended = true;
    settle_ = true;
    holding_ = !let_go_;
  }
  if (holding_ || let_go_ || piece.empty()) return Pass(piece);
  // Of what is no JSON the end is not seen, and with a length the last byte is the end: it waits for the next
  // piece, or for Finish.
  released_.swap(held_);
  Pass(released_);
  Pass(piece.substr(0, piece.size() - 1));
  held_ = piece.back();
}

void LlmAnswerReader::TakeFrame(const EventFrame& frame) {
  if (frame.ends_frame_before && dropped_before_) {
    stripped_ += frame.bytes.size();
    return;
  }
  dropped_before_ = false;
  if (frame.data.empty()) {
    Pass(frame.bytes);
    return;
  }
  bool end = false;
  Cut cut;
  if (frame.data.starts_with("[DONE]")) {
    event_.Clear();
    end = true;
  } else if (ReadEvent(frame.data)) {
    end = IsEnd();
    if ((end || IsHeld()) && !let_go_) holding_ = true;
    if (options_.strip_usage && options_.shape == LlmShape::kChat && event_.has_usage) {
      if (event_.no_choices && event_.usage_is_object) {
        stripped_ += frame.bytes.size();
        dropped_before_ = true;
        return;
      }
      if (frame.data_is_inside) {
        const size_t at = static_cast<size_t>(frame.data.data() - frame.bytes.data());
        cut = {at + event_.usage.begin, at + event_.usage.end};
      }
    }
  }
  if (end) {
    // An error is an end of its own, not the one that was promised.
    answer_.ended = answer_.ended || !event_.error;
    settle_ = true;
    if (!let_go_) holding_ = true;
  }
  stripped_ += cut.end - cut.begin;
  Pass(frame.bytes.substr(0, cut.begin));
  Pass(frame.bytes.substr(cut.end));
}

bool LlmAnswerReader::ReadEvent(std::string_view text) {
  ++answer_.events;
  event_.Clear();
  JsonScanner json(text);
  if (json.Peek() == JsonScanner::kArray) {
    // TGI wraps its whole answer in an array.
    json.Array([&] { ReadNested(json); });
  } else if (json.Peek() == JsonScanner::kObject) {
    ReadTop(json, text);
  } else {
    json.Fail("neither an object nor an array");
  }
  if (json.failed() || !json.AtEnd()) {
    ++answer_.events_bad;
    return false;
  }
  Commit();
  return true;
}

// Also finds what is to be cut out with the member: the comma before it, or where it is the first, the one
// after it.
void LlmAnswerReader::ReadTop(JsonScanner& json, std::string_view text) {
  if (!json.Enter()) return;
  const size_t open = json.at();
  size_t before = open;
  std::string_view key;
  for (bool begun = false; json.NextMember(begun, key);) {
    json.Peek();
    const size_t value = json.at();
    const bool usage = key == "usage";
    ReadMember(json, key);
    if (json.at() == value && !json.Skip()) return;
    size_t end = json.at();
    if (usage) {
      if (before == open) {
        const auto skip_blanks = [&] {
          while (end < text.size() && IsBlank(text[end])) ++end;
        };
        skip_blanks();
        if (end < text.size() && text[end] == ',') {
          ++end;
          skip_blanks();
        }
      }
      event_.usage = {before, end};
    }
    before = json.at();
  }
}

void LlmAnswerReader::ReadNested(JsonScanner& json) {
  json.Object([&](std::string_view key) { ReadMember(json, key); });
}

void LlmAnswerReader::ReadMember(JsonScanner& json, std::string_view key) {
  if (key == "usage") {
    ReadUsage(json);
  } else if (key == "model" || key == "modelVersion") {
    if (answer_.model.empty()) TakeText(json, event_.model);
  } else if (key == "id" || key == "responseId") {
    if (answer_.id.empty()) TakeText(json, event_.id);
  } else if (key == "error") {
    ReadError(json);
  } else if (key == "service_tier") {
    TakeText(json, event_.tier);
  } else {
    ReadOfShape(json, key);
  }
}

void LlmAnswerReader::ReadOfShape(JsonScanner& json, std::string_view key) {
  switch (options_.shape) {
    case LlmShape::kChat:
      if (key == "choices") {
        ReadChoices(json);
      } else if (key == "x_groq" && !event_.usage_is_object) {
        json.Object([&](std::string_view inner) {
          if (inner == "usage") ReadUsage(json);
        });
      }
      return;
    case LlmShape::kResponses:
      if (key == "type") TakeText(json, event_.type);
      else if (key == "status") TakeText(json, event_.status);
      else if (key == "code") TakeText(json, event_.error_type);
      else if (key == "delta" || (key == "output" && options_.framing == LlmFraming::kWhole)) AddText(json);
      else if (key == "response") ReadNested(json);
      else if (key == "incomplete_details")
        json.Object([&](std::string_view inner) {
          if (inner == "reason") ReadFinish(json);
        });
      return;
    case LlmShape::kMessages:
      if (key == "type") TakeText(json, event_.type);
      else if (key == "message") ReadNested(json);
      else if (key == "delta") ReadDelta(json);
      else if (key == "content") AddText(json);
      else if (key == "stop_reason") ReadFinish(json);
      return;
    case LlmShape::kGemini:
      if (key == "usageMetadata") ReadUsage(json);
      else if (key == "candidates") ReadCandidates(json);
      else if (key == "response") ReadNested(json);
      else if (key == "promptFeedback")
        json.Object([&](std::string_view inner) {
          if (inner != "blockReason") return;
          ReadFinish(json);
          event_.blocked = true;
        });
      return;
    case LlmShape::kOllama:
      if (key == "message" || key == "response" || key == "thinking") {
        AddText(json);
      } else if (key == "done") {
        if (json.Peek() == JsonScanner::kTrue) event_.done = true;
      } else if (key == "done_reason") {
        ReadFinish(json);
      } else if (!event_.usage_is_object) {
        new_fields_.Clear();
        if (new_fields_.ReadMember(key, json)) event_.usage_is_object = true;
      } else {
        new_fields_.ReadMember(key, json);
      }
      return;
    case LlmShape::kTgi:
      if (key == "token") {
        AddText(json);
      } else if (key == "generated_text") {
        event_.done = json.Peek() == JsonScanner::kString;
        if (options_.framing == LlmFraming::kWhole) AddText(json);
      } else if (key == "error_type") {
        TakeText(json, event_.error_type);
      } else if (key == "details" && json.Peek() == JsonScanner::kObject) {
        event_.usage_is_object = true;
        new_fields_.Clear();
        json.Object([&](std::string_view inner) {
          if (inner == "finish_reason") ReadFinish(json);
          else new_fields_.ReadMember(inner, json);
        });
      }
      return;
    case LlmShape::kCohere:
      if (key == "type") TakeText(json, event_.type);
      else if (key == "delta") ReadDelta(json);
      else if (key == "message") AddText(json);
      else if (key == "finish_reason") ReadFinish(json);
      return;
    case LlmShape::kPlain:
      if (key == "meta" || key == "usageMetadata" || key == "usage_info") ReadUsage(json);
      return;
  }
}

// Anthropic's counts grow from event to event, and what an event leaves out stays. Elsewhere the newest
// object is all.
void LlmAnswerReader::ReadUsage(JsonScanner& json) {
  if (json.Peek() == JsonScanner::kNull) {
    event_.has_usage = true;
    return;
  }
  if (json.Peek() != JsonScanner::kObject) return;
  event_.has_usage = event_.usage_is_object = true;
  if (options_.shape == LlmShape::kMessages) new_fields_ = fields_;
  else new_fields_.Clear();
  new_fields_.Read(json);
}

void LlmAnswerReader::ReadChoices(JsonScanner& json) {
  if (json.Peek() != JsonScanner::kArray) return;
  bool none = true;
  json.Array([&] {
    none = false;
    json.Object([&](std::string_view key) {
      if (key == "delta" || key == "message" || key == "text") {
        AddText(json);
      } else if (key == "finish_reason") {
        ReadFinish(json);
      } else if (key == "logprobs") {
        json.Object([&](std::string_view list) {
          if (list != "content" && list != "refusal" && list != "tokens") return;
          json.Array([&] { ++event_.listed_tokens; });
        });
      }
    });
  });
  event_.no_choices = none;
}

void LlmAnswerReader::ReadCandidates(JsonScanner& json) {
  json.Array([&] {
    json.Object([&](std::string_view key) {
      if (key == "content") AddText(json);
      else if (key == "finishReason") ReadFinish(json);
    });
  });
}

void LlmAnswerReader::ReadDelta(JsonScanner& json) {
  json.Object([&](std::string_view key) {
    if (key == "stop_reason" || key == "finish_reason") ReadFinish(json);
    else if (key == "usage") ReadUsage(json);
    else if (!IsNoText(key)) AddText(json);
  });
}

void LlmAnswerReader::ReadFinish(JsonScanner& json) {
  if (json.Peek() != JsonScanner::kString) return;
  const std::string_view reason = json.Text();
  if (reason.empty() || reason.size() > kMaxText || event_.finish_reasons.size() >= kMaxFinishReasons) return;
  event_.finish_reasons.emplace_back(reason);
}

void LlmAnswerReader::ReadError(JsonScanner& json) {
  const JsonScanner::Kind kind = json.Peek();
  if (kind != JsonScanner::kObject && kind != JsonScanner::kString) return;
  event_.error = true;
  if (kind != JsonScanner::kObject) return;
  std::string code;
  json.Object([&](std::string_view key) {
    if (key == "type" || key == "status") TakeText(json, event_.error_type);
    else if (key == "code") TakeText(json, code);
  });
  if (event_.error_type.empty()) event_.error_type = code;
}

// Adds the sizes of all texts in a value: of a delta, a message, a list of parts.
void LlmAnswerReader::AddText(JsonScanner& json) {
  switch (json.Peek()) {
    case JsonScanner::kString: {
      const size_t begin = json.at();
      if (json.Skip()) event_.content_bytes += static_cast<int64_t>(json.at() - begin - 2);
      return;
    }
    case JsonScanner::kObject:
      json.Object([&](std::string_view key) {
        if (!IsNoText(key)) AddText(json);
      });
      return;
    case JsonScanner::kArray: json.Array([&] { AddText(json); }); return;
    default: json.Skip(); return;
  }
}

bool LlmAnswerReader::IsEnd() const noexcept {
  if (event_.error) return true;
  switch (options_.shape) {
    case LlmShape::kResponses:
      return event_.type == "response.completed" || event_.type == "response.incomplete" ||
             event_.type == "response.failed" || event_.type == "error";
    case LlmShape::kMessages: return event_.type == "message_stop" || event_.type == "error";
    case LlmShape::kOllama:
    case LlmShape::kTgi: return event_.done;
    case LlmShape::kCohere: return event_.type == "message-end";
    default: return false;
  }
}

// Whether the client may take this event for the last, and the usage of it for final.
bool LlmAnswerReader::IsHeld() const noexcept {
  switch (options_.shape) {
    case LlmShape::kChat:
      // Not where usage comes with each event: only when all choices have ended.
      return event_.usage_is_object && (event_.no_choices || choices_finished_ >= options_.choices);
    case LlmShape::kMessages: return event_.usage_is_object && !event_.finish_reasons.empty();
    case LlmShape::kGemini: return event_.blocked || choices_finished_ >= options_.choices;
    default: return false;
  }
}

void LlmAnswerReader::Commit() {
  if (!event_.id.empty()) answer_.id = event_.id;
  if (!event_.model.empty()) answer_.model = event_.model;
  if (!event_.tier.empty()) answer_.tier = event_.tier;
  if (!event_.status.empty()) answer_.status = event_.status;
  for (std::string& reason : event_.finish_reasons) {
    ++choices_finished_;
    if (answer_.finish_reasons.size() < kMaxFinishReasons)
      answer_.finish_reasons.push_back(std::move(reason));
  }
  // A failed answer of OpenAI's Responses is an event of its own and carries its usage.
  const bool failed =
      options_.shape == LlmShape::kResponses &&
      (event_.type == "error" || event_.type == "response.failed" || event_.status == "failed");
  if (event_.error || failed || (options_.shape == LlmShape::kMessages && event_.type == "error")) {
    event_.error = answer_.error = true;
    if (!event_.error_type.empty()) answer_.error_type = event_.error_type;
  }
  if (event_.content_bytes > 0) {
    ++answer_.content_events;
    answer_.content_bytes += event_.content_bytes;
    first_token_ = true;
  }
  answer_.listed_tokens += event_.listed_tokens;
  if (!event_.usage_is_object || !new_fields_.any()) return;
  std::swap(fields_, new_fields_);
  const LlmUsage usage = fields_.Usage(options_.reasoning_besides);
  if (let_go_ && answer_.usage != usage) answer_.usage_late = true;
  answer_.usage = usage;
  if (!fields_.tier().empty()) answer_.tier = fields_.tier();
  if (!fields_.iterations().empty()) answer_.iterations = fields_.iterations();
}

}  // namespace gpulens
