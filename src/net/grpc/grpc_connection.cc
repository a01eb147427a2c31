#include "net/grpc/grpc_connection.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/parse.h"
#include "net/message/http_message.h"

namespace gpulens {
namespace {

constexpr uint64_t kProgress = 64u << 10;
// Bytes of the preface and an empty SETTINGS frame; after them a client speaks HTTP/2.
constexpr uint64_t kGreeting = 24 + 9;
constexpr std::string_view kNoGrpc =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    "This port serves gRPC over HTTP/2.\n";

constexpr std::string_view kEncodings = "identity,gzip";
// Retry delay of calls that are refused for lack of room.
constexpr Duration kRetryAfter = std::chrono::seconds(1);

// "application/grpc" or "application/grpc+proto", with or without parameters.
bool IsGrpcType(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return EqualsIgnoringCase(type, "application/grpc") || EqualsIgnoringCase(type, "application/grpc+proto");
}

Http2Fields AnswerFields() {
  Http2Fields fields;
  fields.Add(":status", "200");
  fields.Add("content-type", "application/grpc");
  fields.Add("grpc-accept-encoding", kEncodings);
  return fields;
}

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

// Fails calls whose messages take too long; called on each input, since one phase may hide another.
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

// The peer exceeds a limit, is wrong, or speaks another protocol; it gets a reply if that needs no wait.
void GrpcConnection::Refused() {
  shared_.stats.Refused(Refusal::kLimit);
  if (transport_.spoke_http1()) {
    (void)transport_.stream().WriteSome({&kNoGrpc, 1});
  } else if (transport_.Send() == Http2Transport::State::kBroken) {
    return Close();
  }
  Linger();
}

// Reads on for a while, since a reset for unread bytes would overtake the last frames.
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

// Ends every callback: waits for what is missing and enters the resulting phase.
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

GrpcConnection::Call* GrpcConnection::Incoming(int32_t stream) {
  auto found = calls_.find(stream);
  if (found == calls_.end() || found->second->ended || found->second->answered) return nullptr;
  return found->second.get();
}

void GrpcConnection::OnFields(int32_t stream, const Http2Fields& fields, bool ended, bool too_large) {
  if (calls_.contains(stream)) {
    if (ended) OnEnd(stream);
    return;
  }
  auto made = std::make_unique<Call>(stream, shared_.limits.message_bytes);
  Call& call = *made;
  calls_[stream] = std::move(made);
  call.begun_ns = GrpcNowNs();
  call.fields = fields;
  if (!Admit(call, too_large)) return;
  CheckAccess(call);
  if (ended) OnEnd(stream);
}

// Whether it is a gRPC call, and there is room for it.
bool GrpcConnection::Admit(Call& call, bool too_large) {
  if (too_large) {
    shared_.stats.Refused(Refusal::kHeaderSize);
    return Fail(call, GrpcCode::kResourceExhausted, "the header fields are too large"), false;
  }
  if (call.fields.Find(":method") != "POST") return RefuseHttp(call, 405), false;
  if (!IsGrpcType(call.fields.Find("content-type"))) return RefuseHttp(call, 415), false;
  return Charge(call, call.fields.bytes());
}

void GrpcConnection::CheckAccess(Call& call) {
  if (!shared_.authenticator) return OnAccess(call.stream, Access::kGranted);
  // Changed rules hold for the next call of every connection; a changed TLS context ends it after its calls.
  auto rules = shared_.authenticator->Rules();
  if (rules->tls != rules_->tls && !draining_) {
    draining_ = true;
    transport_.session().Drain();
  }
  rules_ = std::move(rules);
  const Access access = shared_.authenticator->Check(call.fields.Find("authorization"), peer_,
                                                     [self = Ref<GrpcConnection>(this), stream = call.stream](
                                                         Access found) { self->OnAccess(stream, found); });
  if (access != Access::kPending) OnAccess(call.stream, access);
}

void GrpcConnection::OnAccess(int32_t stream, Access access) {
  if (gone()) return;
  auto found = calls_.find(stream);
  if (found == calls_.end() || found->second->answered) return;
  Ref<Connection> self(this);
  Call& call = *found->second;
  const bool inside = std::exchange(busy_, true);
  if (access != Access::kGranted) {
    Deny(call, access);
  } else {
    call.access = access;
    const std::string_view path = call.fields.Find(":path");
    auto route = std::find_if(shared_.routes.begin(), shared_.routes.end(),
                              [path](const GrpcRoute& each) { return each.path == path; });
    const std::string_view encoding = call.fields.Find("grpc-encoding");
    call.gzip = encoding == "gzip";
    if (route == shared_.routes.end()) {
      Fail(call, GrpcCode::kUnimplemented, "unknown method: " + std::string(path));
    } else if (!call.gzip && !encoding.empty() && encoding != "identity") {
      Fail(call, GrpcCode::kUnimplemented, "unsupported message encoding: " + std::string(encoding));
    } else {
      call.route = &*route;
      ReadTimeout(call);
      if (!call.answered) Proceed(call);
    }
  }
  busy_ = inside;
  if (inside) return;
  Flush();
  Settle();
}

void GrpcConnection::Deny(Call& call, Access access) {
  shared_.stats.Refused(Refusal::kAuth);
  if (access == Access::kBusy)
    return Reply(call, GrpcAnswer::Failure(GrpcCode::kUnavailable, "too many passwords are being checked",
                                           kRetryAfter));
  Fail(call, GrpcCode::kUnauthenticated, "user and password are missing or wrong");
}

void GrpcConnection::ReadTimeout(Call& call) {
  const std::string_view field = call.fields.Find("grpc-timeout");
  if (field.empty()) return;
  call.timeout = ReadGrpcTimeout(field);
  if (!call.timeout) return Fail(call, GrpcCode::kInternal, "grpc-timeout cannot be parsed");
  const Duration left = *call.timeout - Duration(GrpcNowNs() - call.begun_ns);
  call.deadline = shared_.loop.After(std::max(left, Duration::zero()), [this, stream = call.stream] {
    // Cancelled when the call is forgotten, so both are still there.
    calls_.at(stream)->deadline = 0;
    Answer(stream, GrpcAnswer::Failure(GrpcCode::kDeadlineExceeded, "the deadline of the call is exceeded"));
  });
}

void GrpcConnection::OnData(int32_t stream, std::string_view bytes) {
  Call* call = Incoming(stream);
  if (!call || !Charge(*call, bytes.size())) return;
  const GrpcMessageReader::State state = call->reader.Feed(bytes);
  if (state == GrpcMessageReader::State::kTooLarge) {
    shared_.stats.Refused(Refusal::kBodySize);
    Fail(*call, GrpcCode::kResourceExhausted,
         "a message of " + std::to_string(call->reader.announced()) + " bytes is above the limit of " +
             std::to_string(shared_.limits.message_bytes));
  } else if (state == GrpcMessageReader::State::kBad) {
    Fail(*call, GrpcCode::kInternal, "the call has " + std::string(call->reader.why()));
  }
}

void GrpcConnection::OnEnd(int32_t stream) {
  Call* call = Incoming(stream);
  if (!call) return;
  call->ended = true;
  if (call->reader.state() != GrpcMessageReader::State::kWhole)
    return Fail(*call, GrpcCode::kInternal, "the call ended before its message was complete");
  Proceed(*call);
}

// Counts what a call holds. Refuses the call and returns false when all calls together hold too much.
bool GrpcConnection::Charge(Call& call, size_t bytes) {
  if (shared_.stats.held_bytes.load(std::memory_order_relaxed) + bytes > shared_.limits.held_bytes) {
    shared_.stats.Refused(Refusal::kLimit);
    Reply(call,
          GrpcAnswer::Failure(GrpcCode::kResourceExhausted, "the server holds too many calls", kRetryAfter));
    return false;
  }
  shared_.stats.held_bytes.fetch_add(bytes, std::memory_order_relaxed);
  call.charged += bytes;
  return true;
}

void GrpcConnection::Discharge(Call& call) {
  shared_.stats.held_bytes.fetch_sub(std::exchange(call.charged, 0), std::memory_order_relaxed);
}

// Hands the call over once its message is complete and access is granted.
void GrpcConnection::Proceed(Call& call) {
  if (call.handed || !call.ended || call.access != Access::kGranted || !call.route) return;
  call.handed = true;
  if (!call.reader.packed()) return HandOver(call, std::move(call.reader.message()));
  if (!call.gzip)
    return Fail(call, GrpcCode::kInternal, "the message is compressed, but grpc-encoding is missing");
  Unpack(call);
}

void GrpcConnection::Unpack(Call& call) {
  const size_t size = GrpcUnpackedSize(call.reader.message());
  if (size > shared_.limits.unpacked_bytes) {
    shared_.stats.Refused(Refusal::kBodySize);
    return Fail(call, GrpcCode::kResourceExhausted,
                "a message of " + std::to_string(size) + " bytes uncompressed is above the limit of " +
                    std::to_string(shared_.limits.unpacked_bytes));
  }
  if (!Charge(call, size)) return;
  std::string packed = std::move(call.reader.message());
  if (!shared_.offload) {
    std::string message;
    const bool good = GrpcGunzip(packed, size, message);
    return OnUnpacked(call.stream, good, std::move(message));
  }
  shared_.offload([packed = std::move(packed), size, self = Ref<GrpcConnection>(this), stream = call.stream,
                   &loop = shared_.loop]() mutable {
    auto message = std::make_shared<std::string>();
    const bool good = GrpcGunzip(packed, size, *message);
    loop.Post([self = std::move(self), stream, good, message] {
      self->OnUnpacked(stream, good, std::move(*message));
    });
  });
}

void GrpcConnection::OnUnpacked(int32_t stream, bool good, std::string message) {
  if (gone()) return;
  auto found = calls_.find(stream);
  if (found == calls_.end() || found->second->answered) return;
  Ref<Connection> self(this);
  const bool inside = std::exchange(busy_, true);
  if (good) HandOver(*found->second, std::move(message));
  else Fail(*found->second, GrpcCode::kInternal, "the message cannot be decompressed");
  busy_ = inside;
  if (inside) return;
  Flush();
  Settle();
}

void GrpcConnection::HandOver(Call& call, std::string message) {
  GrpcRequest request;
  request.path = call.route->path;
  request.message = std::move(message);
  request.fields = std::move(call.fields);
  request.remote = peer_;
  request.tls = transport_.stream().is_tls();
  if (call.timeout)
    request.time_left = std::max(*call.timeout - Duration(GrpcNowNs() - call.begun_ns), Duration::zero());
  GrpcHandler& handler = *call.route->handler;
  handler.Handle(std::move(request),
                 GrpcResponder(shared_.loop, Ref<GrpcConnection>(this), call.stream, call.gone));
}

void GrpcConnection::Answer(int32_t stream, GrpcAnswer answer) {
  if (gone()) return;
  auto found = calls_.find(stream);
  if (found == calls_.end() || found->second->answered) return;
  Reply(*found->second, std::move(answer));
  if (busy_) return;
  Ref<Connection> self(this);
  Flush();
  Settle();
}

void GrpcConnection::Push(int32_t stream, std::string_view message) {
  if (gone()) return;
  auto found = calls_.find(stream);
  if (found == calls_.end() || found->second->answered) return;
  if (!std::exchange(found->second->streams, true)) {
    Http2Body body;
    body.open = true;
    transport_.session().Answer(stream, AnswerFields(), std::move(body));
  }
  transport_.session().Append(stream, GrpcMessageHead(false, message.size()).append(message));
  if (busy_) return;
  Ref<Connection> self(this);
  Flush();
  Settle();
}

void GrpcConnection::Fail(Call& call, GrpcCode code, std::string why) {
  Reply(call, GrpcAnswer::Failure(code, std::move(why)));
}

void GrpcConnection::Reply(Call& call, GrpcAnswer answer) {
  Http2Fields fields = AnswerFields(), status;
  status.Add("grpc-status", std::to_string(static_cast<int>(answer.code)));
  if (answer.code != GrpcCode::kOk) {
    status.Add("grpc-message", EncodeGrpcMessage(answer.text));
    if (answer.retry_after)
      status.Add(
          "grpc-status-details-bin",
          EncodeGrpcBinary(MakeGrpcDetails(answer.code, answer.text.substr(0, 1000), answer.retry_after)));
  }
  Http2Body body;
  if (answer.code == GrpcCode::kOk) {
    body.head = GrpcMessageHead(false, answer.text.size());
    body.rest = std::make_shared<const std::string>(std::move(answer.text));
    body.trailers = status;
  } else {
    body.none = true;
    for (size_t i = 0; i < status.size(); ++i) fields.Add(status[i].name, status[i].value);
  }
  shared_.stats.answers[static_cast<size_t>(answer.code) % kGrpcCodes].fetch_add(1,
                                                                                 std::memory_order_relaxed);
  Forget(call);
  call.answered = true;
  call.fields = {};
  call.reader.message() = {};
  if (call.streams) transport_.session().End(call.stream, std::move(status));
  else transport_.session().Answer(call.stream, fields, std::move(body));
}

// For HTTP/2 requests that are not gRPC.
void GrpcConnection::RefuseHttp(Call& call, int status) {
  Http2Fields fields;
  fields.Add(":status", std::to_string(status));
  Http2Body body;
  body.none = true;
  Forget(call);
  call.answered = true;
  transport_.session().Answer(call.stream, fields, std::move(body));
}

// Releases what a call holds; its answer is no longer wanted.
void GrpcConnection::Forget(Call& call) {
  Discharge(call);
  shared_.loop.Cancel(call.deadline);
  call.deadline = 0;
  if (!call.answered) call.gone->store(true, std::memory_order_relaxed);
}

void GrpcConnection::OnClosed(int32_t stream, uint32_t) {
  auto found = calls_.find(stream);
  if (found == calls_.end()) return;
  if (found->second->answered) ++answered_;
  Forget(*found->second);
  calls_.erase(found);
}

}  // namespace gpulens
