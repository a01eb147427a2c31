// An HTTP/2 session on its stream: what comes is fed to it, what it has to say is written as far as that
// goes.
#pragma once

#include <cstdint>
#include <string>

#include "net/http2/http2_session.h"
#include "net/stream.h"

namespace gpulens {

// Lives on the loop's thread. Whoever owns it is the stream's handler: it calls Receive when the stream is
// readable, Send when it is writable or something was submitted, and Wait last. Never from inside of the
// session's handler.
class Http2Transport {
 public:
  enum class State : uint8_t {
    kOpen,
    kEnded,    // the peer has closed, or both sides have nothing to say any more
    kBroken,   // the stream failed; see why
    kRefused,  // the peer is over a limit or speaks no HTTP/2; a GOAWAY may still be sent
  };

  Http2Transport(Stream stream, Http2Session::Side side, const Http2Limits& limits, Http2Handler& handler);

  // Reads what is there, a little at a time so that others have their turn.
  State Receive();
  // Writes what is to be said. Does nothing before a TLS handshake is done; reading does that.
  State Send();
  // Asks for what is missing: a readable stream, and a writable one when something waits.
  void Wait();
  // Reads and drops what still comes after the end; false when there is no more to wait for.
  bool Linger();

  Stream& stream() noexcept { return stream_; }
  Http2Session& session() noexcept { return session_; }
  // Why it is broken or refused, for people.
  std::string why() const;
  uint64_t bytes_received() const noexcept { return received_; }
  uint64_t bytes_sent() const noexcept { return sent_; }
  // What the first bytes were, when they were no HTTP/2: a request of HTTP/1. Server.
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
