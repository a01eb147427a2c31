#include "net/http2/http2_transport.h"

#include <array>
#include <chrono>
#include <memory>

namespace gpulens {

namespace {

constexpr size_t kReadBytes = 16u << 10;  // a TLS record; the session's budget is checked as often
constexpr int kReadsPerTurn = 8, kWritesPerTurn = 8;
constexpr uint64_t kMaxDropped = 1u << 20;

// Shared by all transports of a loop: bytes are consumed at once.
std::array<char, kReadBytes>& ReadBuffer() {
  thread_local const auto buffer = std::make_unique<std::array<char, kReadBytes>>();
  return *buffer;
}

Duration Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

bool LooksLikeHttp1(std::string_view bytes) {
  for (std::string_view method : {"GET ", "POST ", "HEAD ", "PUT ", "OPTIONS "}) {
    if (bytes.starts_with(method)) return true;
  }
  return false;
}

}  // namespace

Http2Transport::Http2Transport(Stream stream, Http2Session::Side side, const Http2Limits& limits,
                               Http2Handler& handler)
    : stream_(std::move(stream)),
      session_(side, limits, handler),
      client_(side == Http2Session::Side::kClient) {}

// Whether the handshake is done and ALPN chose HTTP/2. A server also accepts clients without ALPN: it sees
// the preface.
bool Http2Transport::Greeted(State& state) {
  if (!stream_.is_tls()) return true;
  if (!stream_.handshake_done()) return false;
  if (!client_ || stream_.agreed_http2()) return true;
  no_alpn_ = true;
  state = State::kRefused;
  return false;
}

Http2Transport::State Http2Transport::Receive() {
  State state = State::kOpen;
  for (int i = 0; i < kReadsPerTurn && session_.wants_input(); ++i) {
    auto& buffer = ReadBuffer();
    const IoResult read = stream_.ReadSome(buffer);
    if (read.outcome == IoOutcome::kWouldBlock) break;
    if (read.outcome == IoOutcome::kClosed) return State::kEnded;
    if (read.outcome == IoOutcome::kFailed) return State::kBroken;
    if (!Greeted(state)) return state;
    const std::string_view bytes(buffer.data(), read.bytes);
    const bool first = received_ == 0;
    received_ += read.bytes;
    if (session_.Feed(bytes, Now())) continue;
    spoke_http1_ = first && session_.no_http2() && LooksLikeHttp1(bytes);
    return State::kRefused;
  }
  // A handshake may have ended without application data.
  Greeted(state);
  return state;
}

Http2Transport::State Http2Transport::Send() {
  State state = State::kOpen;
  unsent_ = false;
  if (stream_.is_tls() && !stream_.handshake_done()) return state;
  if (!Greeted(state)) return state;
  for (int i = 0; i < kWritesPerTurn; ++i) {
    const std::string_view output = session_.Output();
    if (output.empty()) return session_.finished() ? State::kEnded : State::kOpen;
    const IoResult wrote = stream_.WriteSome({&output, 1});
    if (wrote.outcome == IoOutcome::kFailed || wrote.outcome == IoOutcome::kClosed) return State::kBroken;
    if (wrote.outcome == IoOutcome::kWouldBlock) break;
    sent_ += wrote.bytes;
    session_.Sent(wrote.bytes);
  }
  unsent_ = true;
  return state;
}

void Http2Transport::Wait() {
  if (unsent_) stream_.WaitWritable();
  if (session_.wants_input()) stream_.WaitReadable();
}

bool Http2Transport::Linger() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const IoResult read = stream_.ReadSome(ReadBuffer());
    if (read.outcome == IoOutcome::kWouldBlock) return stream_.WaitReadable(), true;
    if (read.outcome != IoOutcome::kOk) return false;
    dropped_ += read.bytes;
    if (dropped_ > kMaxDropped) return false;
  }
  return stream_.WaitReadable(), true;
}

std::string Http2Transport::why() const {
  if (no_alpn_) return "the other side did not agree to HTTP/2 (ALPN)";
  if (!session_.why().empty()) return session_.why();
  return stream_.error();
}

}  // namespace gpulens
