// Reads what an LLM API answers while its bytes pass: what was used, by which model, and where it ends. Bytes
// stay as they are, but what the proxy itself has requested is taken out again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "wire/llm/event_splitter.h"
#include "wire/llm/json_digest.h"
#include "wire/llm/llm_routes.h"
#include "wire/llm/llm_usage_fields.h"

namespace gpulens {

// How the body of an answer is divided.
enum class LlmFraming : uint8_t { kWhole, kSse, kLines, kArray };
// From its Content-Type, since servers answer a request for a stream with a whole answer, too (errors do). A
// JSON answer to a request for a stream of Gemini is an array.
LlmFraming FramingOfAnswer(const LlmRoute& route, bool stream_requested,
                           std::string_view content_type) noexcept;

struct LlmAnswerOptions {
  LlmShape shape = LlmShape::kChat;
  LlmFraming framing = LlmFraming::kWhole;
  // The proxy requested the usage in the stream of an answer (InjectUsage), the client did not: an event that
  // has nothing but it is left out, and its member is cut out of others.
  bool strip_usage = false;
  // The server counts reasoning besides the output under OpenAI's name: xAI. Matters where it sends no total.
  bool reasoning_besides = false;
  int64_t choices = 1;  // of the request
  size_t max_event_bytes = EventSplitter::kMaxBytes;
};

// What is known of an answer so far. Texts are the provider's and not trusted: at most 256 bytes each, UTF-8.
struct LlmAnswer {
  std::string id, model, tier, status;
  std::vector<std::string> finish_reasons;  // of each choice that ended, as they came; at most 128
  std::optional<LlmUsage> usage;            // absent: not sent yet
  std::vector<LlmIteration> iterations;     // Anthropic's parts with models of their own: price these instead
  bool error = false;                       // the answer, or an event of it, is an error
  std::string error_type;
  bool ended = false;       // the mark of the end was seen; a whole answer is whole
  bool gave_up = false;     // an event was too large: what came later was not read
  bool usage_late = false;  // another usage came after Release()
  int64_t events = 0;       // frames that carry something
  int64_t events_bad = 0;   // of them, no JSON
  // For counting where no usage comes: events with output, bytes of its text as JSON writes it, and tokens
  // that the server listed one by one (log probabilities).
  int64_t content_events = 0, content_bytes = 0, listed_tokens = 0;
};

struct LlmAnswerStep {
  // To be passed on now, in order. Views of the piece, or of the reader until its next call.
  std::span<const std::string_view> pass;
  bool first_token = false;  // the first output is in this piece
  // The answer is known to be complete: settle it, then pass on Release(). True once at most.
  bool settle = false;
};

// Fed with the body of one answer, without its transfer coding and its content coding. Passes bytes on as
// they come, whole event by whole event. From the event on that carries the last usage, or is the mark of the
// end, or an error, bytes are held back until Release(), so that the charge can be on disk before the client
// has its end. Of a whole answer the piece that ends it is held. Not thread-safe. A steady stream allocates
// nothing.
class LlmAnswerReader {
 public:
  explicit LlmAnswerReader(const LlmAnswerOptions& options);

  LlmAnswerStep Feed(std::string_view piece);
  // The body is at its end, whole or not: settles what is not settled.
  LlmAnswerStep Finish();
  // The bytes held back; after this all bytes pass. May be called before `settle` where the end is not waited
  // for: a later usage is reported as late then. The view is valid until the next call.
  std::string_view Release();

  // Whether bytes are held back; the caller may limit for how long.
  bool holding() const noexcept { return holding_; }
  size_t held_bytes() const noexcept { return held_.size(); }
  const LlmAnswer& answer() const noexcept { return answer_; }
  LlmFraming framing() const noexcept { return options_.framing; }
  // Bytes that were taken out of the stream.
  uint64_t bytes_stripped() const noexcept { return stripped_; }

 private:
  // A member of an event that is to be cut out, in its text.
  struct Cut {
    size_t begin = 0, end = 0;
    bool operator==(const Cut&) const = default;
  };
  // The members of one event. Its texts keep their room between events.
  struct Event {
    std::string id, model, tier, status, type, error_type;
    std::vector<std::string> finish_reasons;
    bool has_usage = false, usage_is_object = false, no_choices = false;
    bool error = false, done = false, blocked = false;
    int64_t content_bytes = 0, listed_tokens = 0;
    Cut usage;

    void Clear() noexcept;
  };

  LlmAnswerStep Step();
  void TakeFrame(const EventFrame& frame);
  void TakeWhole(std::string_view piece);
  void Pass(std::string_view bytes);
  // Reads an event into `event_` and commits it; false when it is no JSON.
  bool ReadEvent(std::string_view text);
  void Commit();
  bool IsEnd() const noexcept;
  bool IsHeld() const noexcept;
  // Members of an object: of an event, or of what an event wraps.
  void ReadTop(JsonScanner& json, std::string_view text);
  void ReadNested(JsonScanner& json);
  void ReadMember(JsonScanner& json, std::string_view key);
  void ReadOfShape(JsonScanner& json, std::string_view key);
  void ReadUsage(JsonScanner& json);
  void ReadChoices(JsonScanner& json);
  void ReadCandidates(JsonScanner& json);
  void ReadDelta(JsonScanner& json);
  void ReadError(JsonScanner& json);
  void ReadFinish(JsonScanner& json);
  void AddText(JsonScanner& json);

  const LlmAnswerOptions options_;
  EventSplitter splitter_;
  JsonDigest digest_;
  LlmAnswer answer_;
  LlmUsageFields fields_, new_fields_;
  Event event_;
  std::vector<std::string_view> pass_;
  std::string held_, released_;
  uint64_t stripped_ = 0;
  int64_t choices_finished_ = 0;
  bool holding_ = false, let_go_ = false, settle_ = false, reported_settle_ = false;
  bool first_token_ = false, reported_first_token_ = false, dropped_before_ = false;
};

}  // namespace gpulens
