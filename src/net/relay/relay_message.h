// Heads and bodies of HTTP/1 messages as a relay needs them: parsed strictly, kept as the bytes that came, so
// that they can be sent on unchanged. Two readers of one message must not disagree about where it ends, hence
// nothing is guessed: bare CR or LF, blanks in odd places, repeated or contradictory lengths are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpulens {

struct RelayHeadLimits {
  size_t bytes = 32 << 10;  // first line and fields
  size_t target_bytes = 8 << 10;
  size_t fields = 200;
};

// How the end of a body is found.
enum class RelayFraming : uint8_t { kNone, kLength, kChunked, kUntilClose };

// The head of a request or of an answer. Owns its text; views live as long as it is not parsed again. Not
// thread-safe.
class RelayHead {
 public:
  // What a relay does with a field.
  enum class Kind : uint8_t {
    kPlain,          // passes on
    kHop,            // for this connection alone: dropped
    kHost,           // replaced
    kContentLength,  // passes on while the body keeps its length
    kTe,             // dropped, but for "trailers"
    kExpect,         // dropped: the relay has answered it
    kForwarded,      // Forwarded and X-Forwarded-*
  };
  struct Field {
    std::string_view name, value;  // without blanks around it
    std::string_view line;         // as it came, with CRLF
    Kind kind = Kind::kPlain;
  };

  // Of a request.
  std::string_view method() const noexcept { return Piece(method_); }
  std::string_view target() const noexcept { return Piece(target_); }  // as sent; begins with '/'
  bool expects_continue() const noexcept { return expects_continue_; }
  // The client takes trailers: "TE: trailers".
  bool takes_trailers() const noexcept { return takes_trailers_; }

  // Of an answer.
  int status() const noexcept { return status_; }
  // "200 OK", as sent.
  std::string_view status_and_reason() const noexcept { return Piece(method_); }

  int version_minor() const noexcept { return minor_; }  // HTTP/1.0 or 1.1
  // Whether the other side lets the connection carry another message. Not known of a body until its close.
  bool keeps_alive() const noexcept { return keep_alive_; }
  // Of a request kNone, kLength or kChunked. Of an answer as its fields have it: the status or the method of
  // the request may mean that there is no body.
  RelayFraming framing() const noexcept { return framing_; }
  uint64_t length() const noexcept { return length_; }  // for kLength

  size_t field_count() const noexcept { return fields_.size(); }
  Field field(size_t i) const noexcept {
    const Range& range = fields_[i];
    const std::string_view line = std::string_view(text_).substr(range.at, range.size);
    return {line.substr(0, range.name), line.substr(range.value, range.value_size), line, range.kind};
  }
  // The value of the first such field, or empty. Names compare without case.
  std::string_view Header(std::string_view name) const noexcept;
  bool HasHeader(std::string_view name) const noexcept;

  // Forgets the message; keeps little memory.
  void Clear();

 private:
  friend class RelayHeadParser;
  struct Range {
    uint32_t at = 0, size = 0;  // the line
    uint32_t value = 0, value_size = 0;
    uint16_t name = 0;
    Kind kind = Kind::kPlain;
  };
  std::string_view Piece(const Range& r) const noexcept {
    return std::string_view(text_).substr(r.at, r.size);
  }

  std::string text_;
  Range method_, target_;
  std::vector<Range> fields_;
  uint64_t length_ = 0;
  int status_ = 0;
  int minor_ = 1;
  RelayFraming framing_ = RelayFraming::kNone;
  bool keep_alive_ = true, expects_continue_ = false, takes_trailers_ = false;
};

struct RelayHeadStep {
  enum class State : uint8_t {
    kMore,  // incomplete: call again with the same bytes and more
    kDone,
    kBad,
  };
  State state = State::kMore;
  size_t consumed = 0;  // when done
  int status = 0;  // when bad: 400, 414, 417, 431, 501, 505; of an answer 502, or 431 when it is too large
  std::string_view why;  // when bad: a sentence; static storage
};

// Parse the head at the front of `bytes` into `head`. What a request must not be is answered by the status:
// CONNECT, TRACE and unknown transfer codings 501, an absolute URL as target 400.
RelayHeadStep ParseRequestHead(std::string_view bytes, const RelayHeadLimits& limits, RelayHead& head);
RelayHeadStep ParseAnswerHead(std::string_view bytes, const RelayHeadLimits& limits, RelayHead& head);

// Finds the payload of a body in the bytes of a connection. Not thread-safe.
class RelayBodyWalk {
 public:
  enum class State : uint8_t { kMore, kDone, kBad };
  struct Step {
    State state = State::kMore;
    size_t payload = 0;   // bytes that are now at the front of `data`
    size_t consumed = 0;  // bytes of `data` that belonged to the body; of fewer only when it is done or bad
  };
  static constexpr size_t kTrailerBytes = 8 << 10;
  static constexpr size_t kExtensionBytes = 256;  // of one chunk

  void Begin(RelayFraming framing, uint64_t length) noexcept;
  // Moves the payload to the front of `data`, without the frames of chunks.
  Step Take(std::span<char> data);
  // The connection has ended: kDone for a body that ends so, else kBad.
  State End();

  bool done() const noexcept { return step_ == At::kDone; }
  // Field lines behind a chunked body, each with CRLF.
  const std::string& trailers() const noexcept { return trailers_; }
  // When bad: a sentence; static storage.
  std::string_view why() const noexcept { return why_; }

 private:
  enum class At : uint8_t {
    kLength,
    kUntilClose,
    kSize,
    kExtension,
    kSizeLf,
    kData,
    kDataCr,
    kDataLf,
    kTrailer,
    kDone,
    kBad,
  };
  bool TakeFrame(char c);
  bool TakeTrailer(char c);
  bool Break(std::string_view why) noexcept;

  At step_ = At::kDone;
  uint64_t left_ = 0;
  uint32_t digits_ = 0, extension_ = 0;
  size_t line_ = 0;  // begin of the present trailer line
  std::string trailers_;
  std::string_view why_;
};

// Appends the trailers that may pass on: none of those that frame or route a message.
void AppendPassedTrailers(std::string& out, std::string_view trailers);

}  // namespace gpulens
