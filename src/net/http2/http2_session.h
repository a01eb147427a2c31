// HTTP/2 of one connection, client or server, over nghttp2: bytes in, streams out, and back. No socket, no
// clock.
//
// The limits bound the memory that a peer can cost: header fields, open streams, frames waiting to be sent.
// Frames without content (SETTINGS, PING, resets, empty DATA, CONTINUATION) are paid from a budget; a peer
// that overdraws it gets ENHANCE_YOUR_CALM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace gpulens {

// The fields of one HTTP/2 header block, in order. A plain value; keeps its memory when cleared.
class Http2Fields {
 public:
  struct Field {
    std::string_view name, value;
  };
  // Added to the size of each field, as SETTINGS_MAX_HEADER_LIST_SIZE requires.
  static constexpr size_t kOverhead = 32;

  // `name` in lower case. A value with a line end makes the peer refuse the block.
  void Add(std::string_view name, std::string_view value) {
    ranges_.push_back({text_.size(), name.size(), value.size()});
    text_.append(name).append(value);
  }
  void Clear() noexcept {
    text_.clear();
    ranges_.clear();
  }

  size_t size() const noexcept { return ranges_.size(); }
  size_t bytes() const noexcept { return text_.size() + ranges_.size() * kOverhead; }
  Field operator[](size_t i) const noexcept {
    const Range& range = ranges_[i];
    const std::string_view all = text_;
    return {all.substr(range.at, range.name), all.substr(range.at + range.name, range.value)};
  }
  // The value of the first such field; empty when there is none.
  std::string_view Find(std::string_view name) const noexcept {
    for (size_t i = 0; i < size(); ++i) {
      if (Field field = (*this)[i]; field.name == name) return field.value;
    }
    return {};
  }
  bool Has(std::string_view name) const noexcept {
    for (size_t i = 0; i < size(); ++i) {
      if ((*this)[i].name == name) return true;
    }
    return false;
  }

 private:
  struct Range {
    size_t at, name, value;
  };
  std::string text_;
  std::vector<Range> ranges_;
};

// Content of a stream after its fields. A plain value.
struct Http2Body {
  std::string head;                         // sent first
  std::shared_ptr<const std::string> rest;  // sent next; never copied whole. Null: empty
  Http2Fields trailers;                     // sent last; empty: the body ends the stream
  bool none = false;                        // no body: the fields end the stream
  bool open = false;                        // Append and End continue it; it has no rest, nor trailers
};

struct Http2Limits {
  uint32_t streams = 64;           // open streams that the peer has begun
  size_t header_bytes = 16 << 10;  // of one block, Http2Fields::bytes
  size_t header_count = 100;
  uint32_t stream_window = 256 << 10, connection_window = 1 << 20;
  // Frames without content: at once, and per second. Completed streams and data earn some back.
  uint32_t idle_frames = 500, idle_frames_per_second = 20;
};

// The error codes of RFC 9113 that are used here.
enum class Http2Error : uint32_t {
  kNone = 0,
  kInternal = 2,
  kRefusedStream = 7,
  kCancel = 8,
  kEnhanceYourCalm = 11,
};

// Called from inside Feed and Output. May call Request, Answer, Append, End and Reset of its session; must
// not destroy it.
class Http2Handler {
 public:
  // A complete header block: on a client of a response (also 1xx), on a server of a new stream; later ones
  // are trailers, which may be empty. The first block of a stream has its :status or :method. `too_large`:
  // above a limit; `fields` are those before it. `ended`: the peer sends no more on this stream.
  virtual void OnFields(int32_t stream, const Http2Fields& fields, bool ended, bool too_large) = 0;
  // Body bytes, valid during the call.
  virtual void OnData(int32_t stream, std::string_view bytes) = 0;
  // After the last OnData: the peer sends no more on this stream.
  virtual void OnEnd(int32_t stream) = 0;
  // The stream is closed, the last call for it; `error` is 0 when both sides have sent all.
  virtual void OnClosed(int32_t stream, uint32_t error) = 0;
  // The peer takes no new streams; those it has not processed are closed with kRefusedStream.
  virtual void OnGoaway(uint32_t error) = 0;

 protected:
  ~Http2Handler() = default;
};

// Not thread-safe.
class Http2Session {
 public:
  enum class Side : uint8_t { kClient, kServer };

  // The preface and SETTINGS are the first output. `handler` outlives it.
  Http2Session(Side side, const Http2Limits& limits, Http2Handler& handler);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Takes all of `bytes`, at most about 16 KiB, as the budget is checked after each call. `now` is of any
  // monotonic clock. False when the session is over by the peer's fault; the GOAWAY in Output may still be
  // sent. Not from inside a handler.
  bool Feed(std::string_view bytes, Duration now);
  // Human-readable reason why Feed failed.
  const std::string& why() const noexcept;
  // Whether the peer exceeded a limit, rather than broke the protocol.
  bool flooded() const noexcept;
  // Whether the peer does not speak HTTP/2. Server only.
  bool no_http2() const noexcept;

  // The bytes to send next, at most 64 KiB and a frame; empty: nothing now. The same until Sent. Not from
  // inside a handler.
  std::string_view Output();
  void Sent(size_t bytes);
  // False while too much waits to be sent to read more.
  bool wants_input() const noexcept;
  // Nothing more will be read or sent.
  bool finished() const noexcept;
  // Number of requests or responses not completely sent; an open body counts while it has unsent bytes.
  size_t sending() const noexcept;

  // Begins a stream; 0 when that is no longer possible. Client.
  int32_t Request(const Http2Fields& fields, Http2Body body);
  // Responds on a stream, once. False when the stream is gone. A response sent before the request's end stops
  // the peer from sending the rest. Server.
  bool Answer(int32_t stream, const Http2Fields& fields, Http2Body body);
  // Adds bytes to an open body. False when its stream is gone, or ended before. Server.
  bool Append(int32_t stream, std::string_view bytes);
  // Ends an open body; the same result.
  bool End(int32_t stream, Http2Fields trailers);
  // Ends a stream at once and drops its unsent part.
  void Reset(int32_t stream, Http2Error error);
  // Takes no new streams; open ones go on. Server.
  void Drain();
  // Ends the session and its streams with a GOAWAY.
  void Terminate(Http2Error error);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
