// What becomes of a call at the server: from its fields over access, message and handler to its answer.
#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "net/grpc/grpc_connection.h"
#include "net/message/http_message.h"

namespace gpulens {

namespace {

constexpr std::string_view kEncodings = "identity,gzip";
// How long one should wait who came while others had taken all the room.
constexpr Duration kComeBack = std::chrono::seconds(1);

// "application/grpc", perhaps with parameters, or saying that messages are protobuf.
bool IsGrpc(std::string_view content_type) {
  const std::string_view type = content_type.substr(0, content_type.find(';'));
  return EqualsIgnoringCase(type, "application/grpc") || EqualsIgnoringCase(type, "application/grpc+proto");
}

}  // namespace

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

// Whether it is a call at all, and one that there is room for.
bool GrpcConnection::Admit(Call& call, bool too_large) {
  if (too_large) {
    shared_.stats.Refused(Refusal::kHeaderSize);
    return Fail(call, GrpcCode::kResourceExhausted, "the header fields are too large"), false;
  }
  if (call.fields.Find(":method") != "POST") return RefuseHttp(call, 405), false;
  if (!IsGrpc(call.fields.Find("content-type"))) return RefuseHttp(call, 415), false;
  return Charge(call, call.fields.bytes());
}

void GrpcConnection::CheckAccess(Call& call) {
  if (!shared_.authenticator) return OnAccess(call.stream, Access::kGranted);
  // Rules that change reach clients that never connect anew; a changed TLS context ends the connection,
  // politely.
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
    return Reply(
        call, GrpcAnswer::Failure(GrpcCode::kUnavailable, "too many passwords are being checked", kComeBack));
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

// Counts what a call holds. False, and the call is refused, when all calls together hold too much.
bool GrpcConnection::Charge(Call& call, size_t bytes) {
  if (shared_.stats.held_bytes.load(std::memory_order_relaxed) + bytes > shared_.limits.held_bytes) {
    shared_.stats.Refused(Refusal::kLimit);
    Reply(call,
          GrpcAnswer::Failure(GrpcCode::kResourceExhausted, "the server holds too many calls", kComeBack));
    return false;
  }
  shared_.stats.held_bytes.fetch_add(bytes, std::memory_order_relaxed);
  call.charged += bytes;
  return true;
}

void GrpcConnection::Discharge(Call& call) {
  shared_.stats.held_bytes.fetch_sub(std::exchange(call.charged, 0), std::memory_order_relaxed);
}

// Once the message is whole and may be had.
void GrpcConnection::Proceed(Call& call) {
  if (call.handed || !call.ended || call.access != Access::kGranted || !call.route) return;
  call.handed = true;
  if (!call.reader.packed()) return Hand(call, std::move(call.reader.message()));
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
  if (good) Hand(*found->second, std::move(message));
  else Fail(*found->second, GrpcCode::kInternal, "the message cannot be decompressed");
  busy_ = inside;
  if (inside) return;
  Flush();
  Settle();
}

void GrpcConnection::Hand(Call& call, std::string message) {
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

void GrpcConnection::Fail(Call& call, GrpcCode code, std::string why) {
  Reply(call, GrpcAnswer::Failure(code, std::move(why)));
}

void GrpcConnection::Reply(Call& call, GrpcAnswer answer) {
  const std::string code = std::to_string(static_cast<int>(answer.code));
  Http2Fields fields;
  fields.Add(":status", "200");
  fields.Add("content-type", "application/grpc");
  fields.Add("grpc-accept-encoding", kEncodings);
  Http2Body body;
  if (answer.code == GrpcCode::kOk) {
    body.head = GrpcMessageHead(false, answer.text.size());
    body.rest = std::make_shared<const std::string>(std::move(answer.text));
    body.trailers.Add("grpc-status", code);
  } else {
    body.none = true;
    fields.Add("grpc-status", code);
    fields.Add("grpc-message", EncodeGrpcMessage(answer.text));
    if (answer.retry_after)
      fields.Add(
          "grpc-status-details-bin",
          EncodeGrpcBinary(MakeGrpcDetails(answer.code, answer.text.substr(0, 1000), answer.retry_after)));
  }
  shared_.stats.answers[static_cast<size_t>(answer.code) % kGrpcCodes].fetch_add(1,
                                                                                 std::memory_order_relaxed);
  Forget(call);
  call.answered = true;
  call.fields = {};
  call.reader.message() = {};
  transport_.session().Answer(call.stream, fields, std::move(body));
}

// For what is HTTP/2 and not gRPC.
void GrpcConnection::RefuseHttp(Call& call, int status) {
  Http2Fields fields;
  fields.Add(":status", std::to_string(status));
  Http2Body body;
  body.none = true;
  Forget(call);
  call.answered = true;
  transport_.session().Answer(call.stream, fields, std::move(body));
}

// Lets go of what a call holds of the server; nobody waits for it any more.
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
