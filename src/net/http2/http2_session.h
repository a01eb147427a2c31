// HTTP/2 on one connection, either side: bytes in, streams out, and back. Pure: no socket, no clock. Frames,
// header compression and flow control are nghttp2's, which stays in http2_session.cc.
//
// Whatever the peer sends, memory is bounded by the limits: header fields, open streams, frames waiting to be
// sent. Frames that cost us work and bring nothing (SETTINGS, PING, resets, empty DATA, CONTINUATION) come
// out of a budget; who spends it is shut out with ENHANCE_YOUR_CALM.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/http2/http2_body.h"
#include "net/http2/http2_fields.h"

namespace gpulens {

struct Http2Limits {
  uint32_t streams = 64;           // open ones that the peer has begun
  size_t header_bytes = 16 << 10;  // of one block, Http2Fields::bytes
  size_t header_count = 100;
  uint32_t stream_window = 256 << 10, connection_window = 1 << 20;
  // Frames that bring nothing: so many at once, and so many a second. Work that was done gives some back.
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

// Told from inside of Feed and Output. May call Request, Answer and Reset of its session; must not destroy
// it.
class Http2Handler {
 public:
  // A whole header block. On the client's side: the answer's (also 1xx), then perhaps trailers; on the
  // server's: a new stream, then perhaps trailers. The first block of a stream has its :status or :method;
  // trailers may be empty. `too_large`: above a limit, `fields` are only those before it. `ended`: the peer
  // says no more on this stream.
  virtual void OnFields(int32_t stream, const Http2Fields& fields, bool ended, bool too_large) = 0;
  // Body bytes, valid during the call.
  virtual void OnData(int32_t stream, std::string_view bytes) = 0;
  // After the last OnData: the peer says no more on this stream.
  virtual void OnEnd(int32_t stream) = 0;
  // The stream is gone; `error` is 0 when both sides have said all. The last word about it.
  virtual void OnClosed(int32_t stream, uint32_t error) = 0;
  // The peer takes no new streams. Those it has not begun are closed with kRefusedStream.
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

  // Takes all of `bytes`, which should be small (16 KiB): the budget is looked at after each call. `now` is
  // any clock that does not jump back. False when the session is over by the peer's fault; what is in Output,
  // a GOAWAY, may still be sent. Not from inside a handler.
  bool Feed(std::string_view bytes, Duration now);
  // Why Feed said no, for people.
  const std::string& why() const noexcept;
  // The peer is over a limit of ours, rather than wrong.
  bool flooded() const noexcept;
  // The peer does not speak HTTP/2 at all. Server only.
  bool no_http2() const noexcept;

  // What is to be sent next, 64 KiB and a frame at most at once; empty when there is nothing now. Stays the
  // same until Sent. Not from inside a handler.
  std::string_view Output();
  void Sent(size_t bytes);
  // False while so much waits to be sent that nothing should be read.
  bool wants_input() const noexcept;
  // Nothing will be read or sent any more.
  bool finished() const noexcept;
  // Answers or requests that are not wholly sent.
  size_t sending() const noexcept;

  // Begins a stream; 0 when that cannot be any more. Client.
  int32_t Request(const Http2Fields& fields, Http2Body body);
  // Server: once for each stream. False when the stream is gone. One that is out before the request's end
  // tells the peer not to send the rest.
  bool Answer(int32_t stream, const Http2Fields& fields, Http2Body body);
  // Ends a stream at once; what is not sent of it is not sent any more.
  void Reset(int32_t stream, Http2Error error);
  // Takes no new streams; those that are open go on. Server.
  void Drain();
  // Tells the peer that this is the end; its streams are cut.
  void Terminate(Http2Error error);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpulens
