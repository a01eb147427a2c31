// Connects an HTTP/2 session with its stream.
#pragma once

#include <cstdint>
#include <string>

#include "net/http2/http2_session.h"
#include "net/stream.h"

namespace gpulens {

// Lives on the loop's thread. Its owner is the stream's handler: it calls Receive when the stream is
// readable, Send when it is writable or something was submitted, and Wait last; never from inside the
// session's handler.
class Http2Transport {
 public:
  enum class State : uint8_t {
    kOpen,
    kEnded,    // the peer has closed, or both sides have finished
    kBroken,   // the stream failed; see why
    kRefused,  // the peer exceeds a limit or speaks no HTTP/2; a GOAWAY may still be sent
  };

  Http2Transport(Stream stream, Http2Session::Side side, const Http2Limits& limits, Http2Handler& handler);

  // Reads, up to a limit per turn.
  State Receive();
  // Writes the session's output. Does nothing before the TLS handshake is done, which reading performs.
  State Send();
  // Waits for a readable stream, and for a writable one if output is pending.
  void Wait();
  // Reads and drops input after the end; false when there is no more to wait for.
  bool Linger();

  Stream& stream() noexcept { return stream_; }
  Http2Session& session() noexcept { return session_; }
  const Http2Session& session() const noexcept { return session_; }
  // Human-readable reason of kBroken or kRefused.
  std::string why() const;
  uint64_t bytes_received() const noexcept { return received_; }
  uint64_t bytes_sent() const noexcept { return sent_; }
  // Whether the first bytes were a request of HTTP/1. Server.
  bool spoke_http1() const noexcept { return spoke_http1_; }

 private:
  bool Greeted(State& state);

  Stream stream_;
  Http2Session session_;
  const bool client_;
  uint64_t received_ = 0, sent_ = 0, dropped_ = 0;
  bool unsent_ = false, no_alpn_ = false, spoke_http1_ = false;
};

}  // namespace gpulens
