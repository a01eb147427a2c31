#include "net/grpc/grpc_connection.h"

#include <chrono>

namespace gpulens {

namespace {

constexpr uint64_t kProgress = 64u << 10;
// The preface and an empty SETTINGS frame: who has sent that much speaks HTTP/2.
constexpr uint64_t kGreeting = 24 + 9;
constexpr std::string_view kNoGrpc =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    "This port serves gRPC over HTTP/2.\n";

}  // namespace

int64_t GrpcNowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

GrpcConnection::GrpcConnection(GrpcShared& shared, Stream stream, const Endpoint& peer,
                               std::shared_ptr<const WebRules> rules)
    : shared_(shared),
      transport_(std::move(stream), Http2Session::Side::kServer, shared.limits.http2, *this),
      peer_(peer),
      rules_(std::move(rules)) {}
GrpcConnection::~GrpcConnection() = default;

void GrpcConnection::Start() {
  transport_.stream().SetHandler(this);
  shared_.connections.Add(*this, Phase::kRequest);
  shared_.stats.connections.fetch_add(1, std::memory_order_relaxed);
  transport_.stream().WaitReadable();
}

void GrpcConnection::Close() {
  if (gone_.exchange(true)) return;
  transport_.stream().Close();
  for (auto& [stream, call] : calls_) Forget(*call);
  calls_.clear();
  shared_.stats.connections.fetch_sub(1, std::memory_order_relaxed);
  shared_.connections.Remove(*this);
}

void GrpcConnection::FinishAndClose() {
  if (gone() || lingering_) return;
  Ref<Connection> self(this);
  if (!draining_) transport_.session().Drain();
  draining_ = true;
  Flush();
  Settle();
}

void GrpcConnection::OnDeadline(Phase phase) {
  Ref<Connection> self(this);
  switch (phase) {
    case Phase::kRequest:
      if (transport_.bytes_received() < kGreeting) {
        shared_.stats.Refused(Refusal::kTimeout);
        return Close();
      }
      ExpireOld();
      Flush();
      Settle();
      if (!gone()) shared_.connections.Enter(*this, PhaseNow());
      return;
    case Phase::kIdle: FinishAndClose(); return;
    case Phase::kWrite: shared_.stats.Refused(Refusal::kSlow); return Close();
    default: return Close();
  }
}

// Calls whose messages take too long; looked at whenever something comes, since one phase may hide another.
void GrpcConnection::ExpireOld() {
  const int64_t since = GrpcNowNs() - shared_.limits.request_timeout.count();
  for (auto& [stream, call] : calls_) {
    if (call->ended || call->answered || call->begun_ns > since) continue;
    shared_.stats.Refused(Refusal::kTimeout);
    Fail(*call, GrpcCode::kDeadlineExceeded, "the message did not arrive in time");
  }
}

void GrpcConnection::OnReadable() {
  Ref<Connection> self(this);
  if (lingering_) {
    if (!transport_.Linger()) Close();
    return;
  }
  busy_ = true;
  const Http2Transport::State state = transport_.Receive();
  if (state == Http2Transport::State::kRefused) {
    Refused();
  } else if (state != Http2Transport::State::kOpen) {
    if (transport_.stream().is_tls() && !transport_.stream().handshake_done())
      shared_.stats.Refused(Refusal::kTls);
    Close();
  } else {
    ExpireOld();
    Flush();
  }
  busy_ = false;
  Settle();
}

void GrpcConnection::OnWritable() {
  Ref<Connection> self(this);
  busy_ = true;
  Flush();
  busy_ = false;
  Settle();
}

void GrpcConnection::Flush() {
  if (gone() || lingering_) return;
  const Http2Transport::State state = transport_.Send();
  if (state == Http2Transport::State::kBroken) return Close();
  if (state == Http2Transport::State::kEnded) Linger();
}

// It is over a limit, wrong, or speaks something else. It is told, when that goes without waiting.
void GrpcConnection::Refused() {
  shared_.stats.Refused(Refusal::kLimit);
  if (transport_.spoke_http1()) {
    (void)transport_.stream().WriteSome({&kNoGrpc, 1});
  } else if (transport_.Send() == Http2Transport::State::kBroken) {
    return Close();
  }
  Linger();
}

// A reset for unread bytes would overtake the last words, so these are read for a while.
void GrpcConnection::Linger() {
  if (gone() || lingering_) return;
  lingering_ = true;
  for (auto& [stream, call] : calls_) Forget(*call);
  calls_.clear();
  transport_.stream().Shutdown();
  shared_.connections.Enter(*this, Phase::kLinger);
  transport_.stream().WaitReadable();
}

Phase GrpcConnection::PhaseNow() const {
  if (lingering_) return Phase::kLinger;
  // sending() also counts answers that wait for the client's window.
  if (transport_.session().sending() > 0) return Phase::kWrite;
  bool works = false;
  for (const auto& [stream, call] : calls_) {
    if (!call->ended && !call->answered) return Phase::kRequest;
    works = true;
  }
  if (works) return Phase::kWork;
  return transport_.bytes_received() < kGreeting ? Phase::kRequest : Phase::kIdle;
}

// The last thing every callback does: asks for what is missing, and enters the phase that this makes.
void GrpcConnection::Settle() {
  if (gone()) return;
  shared_.stats.bytes_received.fetch_add(transport_.bytes_received() - reported_received_,
                                         std::memory_order_relaxed);
  shared_.stats.bytes_sent.fetch_add(transport_.bytes_sent() - reported_sent_, std::memory_order_relaxed);
  reported_received_ = transport_.bytes_received();
  reported_sent_ = transport_.bytes_sent();
  if (lingering_) return;
  transport_.Wait();
  const Phase phase = PhaseNow();
  const bool progressed = transport_.bytes_sent() - progress_ >= kProgress || answered_ != progress_answered_;
  if (phase == this->phase() && !(phase == Phase::kWrite && progressed)) return;
  progress_ = transport_.bytes_sent();
  progress_answered_ = answered_;
  shared_.connections.Enter(*this, phase);
}

}  // namespace gpulens
