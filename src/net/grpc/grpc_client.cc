#include "net/grpc/grpc_client.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "net/grpc/grpc_call_state.h"
#include "net/http2/http2_transport.h"
#include "net/message/address.h"
#include "net/stream.h"

namespace gpulens {

// Connects to a target: resolves its name and tries its addresses in order. One attempt at a time. TLS is set
// up, its handshake not begun.
class GrpcConnector final : public RefCounted<GrpcConnector>, private StreamHandler {
 public:
  // Called once for each Start, never from inside, unless Cancel comes first. `tls`: TLS failed.
  using Done = std::function<void(Result<Stream> stream, bool tls)>;

  GrpcConnector(IoLoop& loop, HttpUrl url, std::string unix_socket)
      : loop_(loop), url_(std::move(url)), unix_socket_(std::move(unix_socket)) {}

  // Each address gets its share of `timeout`, so that one that drops packets leaves time for the others.
  void Start(std::shared_ptr<const TlsContext> tls, Duration timeout, Done done);
  void Cancel();
  bool under_way() const noexcept { return done_ != nullptr; }

 private:
  void OnReadable() override {}
  void OnWritable() override;
  void Next();
  void Finish(Result<Stream> result, bool tls = false);

  IoLoop& loop_;
  const HttpUrl url_;
  const std::string unix_socket_;
  std::shared_ptr<const TlsContext> tls_;
  Duration timeout_{};
  Done done_;
  Stream stream_;
  std::vector<Endpoint> addresses_;
  size_t address_ = 0;
  uint64_t attempt_ = 0;
  IoLoop::TimerId next_ = 0;
  std::string last_error_;
};

namespace {

int64_t NowNs() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

Http2Limits LimitsOf(const GrpcTarget& target) {
  Http2Limits limits;
  limits.streams = 0;
  limits.header_bytes = target.header_bytes;
  return limits;
}

}  // namespace

// Lives on the loop's thread. Calls wait in `calls_` for a connection, then for their response; Report
// removes those that are done, outside of callbacks of the connection.
class GrpcChannel::Core final : public RefCounted<Core>, public StreamHandler, public Http2Handler {
 public:
  Core(IoLoop& loop, GrpcTarget target)
      : loop_(loop),
        target_(std::move(target)),
        connector_(MakeRef<GrpcConnector>(loop, target_.url, target_.unix_socket)) {}

  IoLoop& loop() noexcept { return loop_; }
  void Call(GrpcCall call, Done done);
  void Abandon();

 private:
  using Pending = std::unique_ptr<GrpcCallState>;

  void OnReadable() override;
  void OnWritable() override;
  void OnFields(int32_t stream, const Http2Fields& fields, bool ended, bool too_large) override;
  void OnData(int32_t stream, std::string_view bytes) override;
  void OnEnd(int32_t stream) override;
  void OnClosed(int32_t stream, uint32_t error) override;
  void OnGoaway(uint32_t) override { leaving_ = true; }

  GrpcCallState* Find(int32_t stream) noexcept;
  Duration Left(const GrpcCallState& call) const { return call.timeout - Duration(NowNs() - call.begun_ns); }
  void Advance();
  void Connect(const GrpcCallState& first);
  void OnConnected(Result<Stream> stream, bool tls);
  void Begin(GrpcCallState& call);
  void Settle(Http2Transport::State state);
  void Lose(Http2Transport::State state);
  void Drop();
  void OnDeadline(GrpcCallState* call);
  void Report();

  IoLoop& loop_;
  const GrpcTarget target_;
  Ref<GrpcConnector> connector_;
  std::unique_ptr<Http2Transport> transport_;
  std::shared_ptr<const TlsContext> tls_;
  bool leaving_ = false;  // the present connection takes no more calls
  bool used_ = false;     // it has brought an answer
  bool abandoned_ = false;
  std::vector<Pending> calls_;
};

GrpcCallState* GrpcChannel::Core::Find(int32_t stream) noexcept {
  for (const Pending& call : calls_) {
    if (call->stream == stream && !call->done()) return call.get();
  }
  return nullptr;
}

void GrpcChannel::Core::Call(GrpcCall call, Done done) {
  auto made = std::make_unique<GrpcCallState>(std::move(call), target_.url, !target_.unix_socket.empty(),
                                              target_.answer_bytes);
  made->begun_ns = NowNs();
  made->on_done = std::move(done);
  GrpcCallState* raw = made.get();
  const bool full = calls_.size() >= kMaxCalls;
  calls_.push_back(std::move(made));
  if (full) {
    raw->Fail(HttpFailure::kNone, GrpcCode::kResourceExhausted, "too many calls are under way");
  } else {
    raw->deadline = loop_.After(raw->timeout, [this, raw] { OnDeadline(raw); });
  }
  // Advance may end calls, and `done` must not be called from inside.
  loop_.Post([self = Ref<Core>(this)] { self->Advance(); });
}

void GrpcChannel::Core::Abandon() {
  abandoned_ = true;
  for (const Pending& call : calls_) loop_.Cancel(call->deadline);
  calls_.clear();
  connector_->Cancel();
  Drop();
}

// Advances every waiting call as far as possible.
void GrpcChannel::Core::Advance() {
  Ref<Core> self(this);
  GrpcCallState* waits = nullptr;
  bool under_way = false;
  for (const Pending& call : calls_) {
    if (call->done()) continue;
    if (call->stream != 0) under_way = true;
    else if (!waits) waits = call.get();
  }
  if (waits && transport_ && tls_ != waits->tls) leaving_ = true;
  if (transport_ && leaving_ && !under_way) Drop();
  if (waits && !transport_ && !connector_->under_way()) Connect(*waits);
  if (waits && transport_ && !leaving_) {
    for (const Pending& call : calls_) {
      if (call->stream == 0 && !call->done()) Begin(*call);
    }
    return Settle(transport_->Send());
  }
  if (!waits && connector_->under_way()) connector_->Cancel();
  Report();
}

void GrpcChannel::Core::Connect(const GrpcCallState& first) {
  tls_ = first.tls;
  connector_->Start(tls_, Left(first), [self = Ref<Core>(this)](Result<Stream> stream, bool tls) {
    self->OnConnected(std::move(stream), tls);
  });
}

void GrpcChannel::Core::OnConnected(Result<Stream> stream, bool tls) {
  if (!stream) {
    for (const Pending& call : calls_) {
      if (call->stream == 0)
        call->Fail(tls ? HttpFailure::kTls : HttpFailure::kConnect, GrpcCode::kUnavailable,
                   stream.error().detail);
    }
    return Report();
  }
  leaving_ = used_ = false;
  transport_ = std::make_unique<Http2Transport>(*std::move(stream), Http2Session::Side::kClient,
                                                LimitsOf(target_), *this);
  transport_->stream().SetHandler(this);
  // Reading performs the TLS handshake.
  transport_->stream().WaitReadable();
  Advance();
}

void GrpcChannel::Core::Begin(GrpcCallState& call) {
  if (call.tls != tls_) {
    leaving_ = true;  // needs a connection with its own TLS settings, once this one has ended its calls
    return;
  }
  Http2Body body;
  body.head = GrpcMessageHead(call.gzip, call.message ? call.message->size() : 0);
  body.rest = call.message;
  call.on_kept_connection = used_;
  call.received = transport_->bytes_received();
  call.stream = transport_->session().Request(call.Fields(Left(call)), std::move(body));
  if (call.stream == 0) leaving_ = true;
}

void GrpcChannel::Core::OnReadable() {
  Ref<Core> self(this);
  Http2Transport::State state = transport_->Receive();
  if (state == Http2Transport::State::kOpen) state = transport_->Send();
  Settle(state);
}

void GrpcChannel::Core::OnWritable() {
  Ref<Core> self(this);
  Settle(transport_->Send());
}

void GrpcChannel::Core::OnFields(int32_t stream, const Http2Fields& fields, bool ended, bool too_large) {
  used_ = true;
  GrpcCallState* call = Find(stream);
  if (call) call->OnFields(fields, ended, too_large);
  if (call && call->done() && !ended) transport_->session().Reset(stream, Http2Error::kCancel);
}

void GrpcChannel::Core::OnData(int32_t stream, std::string_view bytes) {
  GrpcCallState* call = Find(stream);
  if (call) call->OnData(bytes);
  if (call && call->done()) transport_->session().Reset(stream, Http2Error::kCancel);
}

void GrpcChannel::Core::OnEnd(int32_t stream) {
  if (GrpcCallState* call = Find(stream)) call->OnEnd();
}

void GrpcChannel::Core::OnClosed(int32_t stream, uint32_t error) {
  GrpcCallState* call = Find(stream);
  if (!call) return;
  const bool unseen = error == static_cast<uint32_t>(Http2Error::kRefusedStream);
  if (!unseen || call->sent_again) return call->OnReset(error);
  call->sent_again = true;
  call->stream = 0;
}

// Ends every callback of the connection.
void GrpcChannel::Core::Settle(Http2Transport::State state) {
  if (state != Http2Transport::State::kOpen) {
    Lose(state);
  } else {
    transport_->Wait();
  }
  const bool waits = std::any_of(calls_.begin(), calls_.end(),
                                 [](const Pending& call) { return call->stream == 0 && !call->done(); });
  const bool idle = std::none_of(calls_.begin(), calls_.end(),
                                 [](const Pending& call) { return call->stream != 0 && !call->done(); });
  if (waits || (transport_ && leaving_ && idle)) loop_.Post([self = Ref<Core>(this)] { self->Advance(); });
  Report();
}

// The connection ended: calls under way fail, or are sent again.
void GrpcChannel::Core::Lose(Http2Transport::State state) {
  const bool refused = state == Http2Transport::State::kRefused;
  std::string why =
      state == Http2Transport::State::kEnded ? "the server ended the connection" : transport_->why();
  const uint64_t received = transport_->bytes_received();
  const bool handshake = why.starts_with("TLS: ") || why.find("ALPN") != why.npos;
  const HttpFailure failure = handshake && received == 0 ? HttpFailure::kTls : HttpFailure::kProtocol;
  if (refused) transport_->Send();
  Drop();
  for (const Pending& call : calls_) {
    if (call->stream == 0 && (failure != HttpFailure::kTls || call->done())) continue;
    if (call->stream != 0 && call->on_kept_connection && call->received == received && !call->sent_again) {
      call->sent_again = true;
      call->stream = 0;
      continue;
    }
    call->Fail(failure, GrpcCode::kUnavailable, why);
  }
}

void GrpcChannel::Core::Drop() {
  if (transport_) transport_->stream().Close();
  transport_ = nullptr;
}

void GrpcChannel::Core::OnDeadline(GrpcCallState* call) {
  Ref<Core> self(this);
  const std::string within = " within " + std::to_string(call->timeout.count() / 1'000'000) + " ms";
  const bool silent = transport_ && call->stream != 0 && transport_->bytes_received() == call->received;
  call->deadline = 0;
  call->Fail(HttpFailure::kTimeout, GrpcCode::kDeadlineExceeded,
             (call->stream == 0 ? "no connection" : "incomplete response") + within);
  if (silent) leaving_ = true;  // the server may be gone: the next call uses a new connection
  if (transport_ && call->stream != 0) transport_->session().Reset(call->stream, Http2Error::kCancel);
  if (transport_) return Settle(transport_->Send());
  Advance();
}

// Removes and reports the calls that are done. The channel may be gone afterwards.
void GrpcChannel::Core::Report() {
  std::vector<Pending> done_calls;
  for (Pending& call : calls_) {
    if (!call->done()) continue;
    loop_.Cancel(call->deadline);
    done_calls.push_back(std::move(call));
  }
  if (done_calls.empty()) return;
  std::erase(calls_, nullptr);
  Ref<Core> self(this);
  for (Pending& call : done_calls) {
    if (abandoned_) return;
    call->message.reset();
    Done on_done = std::exchange(call->on_done, nullptr);
    on_done(call->reply());
  }
}

GrpcChannel::GrpcChannel(Ref<Core> core) noexcept : core_(std::move(core)) {}

GrpcChannel::~GrpcChannel() {
  if (core_->loop().InLoop()) {
    core_->Abandon();
  } else {
    // Posted: the caller may hold a lock that the loop waits for.
    core_->loop().Post([core = core_] { core->Abandon(); });
  }
}

void GrpcChannel::Call(GrpcCall call, Done done) { core_->Call(std::move(call), std::move(done)); }

std::unique_ptr<GrpcChannel> GrpcClient::Open(GrpcTarget target) {
  return std::unique_ptr<GrpcChannel>(new GrpcChannel(MakeRef<GrpcChannel::Core>(loop_, std::move(target))));
}

void GrpcConnector::Start(std::shared_ptr<const TlsContext> tls, Duration timeout, Done done) {
  Cancel();
  tls_ = std::move(tls);
  timeout_ = timeout;
  done_ = std::move(done);
  addresses_.clear();
  address_ = 0;
  last_error_.clear();
  auto found = [self = Ref<GrpcConnector>(this), id = attempt_](Result<std::vector<Endpoint>> all) {
    if (self->attempt_ != id) return;
    if (!all) return self->Finish(all.error());
    self->addresses_ = std::move(*all);
    self->Next();
  };
  if (unix_socket_.empty()) return loop_.Resolve(url_.host, url_.port, std::move(found));
  Endpoint to;
  to.family = Endpoint::Family::kUnix;
  to.path = unix_socket_;
  loop_.Post([found, to] { found(std::vector<Endpoint>{to}); });
}

void GrpcConnector::Cancel() {
  ++attempt_;
  loop_.Cancel(next_);
  next_ = 0;
  stream_.Close();
  done_ = nullptr;
}

void GrpcConnector::Next() {
  loop_.Cancel(next_);
  next_ = 0;
  stream_.Close();
  if (url_.tls && !tls_)
    return Finish(Status{Code::kInvalidArgument, "there are no TLS settings for https"}, true);
  while (address_ < addresses_.size()) {
    const Endpoint& to = addresses_[address_++];
    auto made = Stream::Connect(loop_, to, url_.tls ? tls_ : nullptr, url_.host, Stream::Protocol::kHttp2);
    if (!made) {
      if (made.error().code == Code::kInvalidArgument && url_.tls) return Finish(made.error(), true);
      last_error_ = made.error().detail;
      continue;
    }
    stream_ = std::move(*made);
    stream_.SetHandler(this);
    stream_.WaitWritable();
    if (address_ == addresses_.size()) return;
    next_ = loop_.After(timeout_ / static_cast<int64_t>(addresses_.size() + 1),
                        [self = Ref<GrpcConnector>(this), id = attempt_] {
                          if (self->attempt_ == id) self->Next();
                        });
    return;
  }
  Finish(Status{Code::kUnavailable, last_error_.empty() ? "no address" : last_error_});
}

void GrpcConnector::OnWritable() {
  Ref<GrpcConnector> self(this);
  // An empty write shows whether there is a connection.
  const IoResult wrote = stream_.WriteSome({});
  if (wrote.outcome == IoOutcome::kWouldBlock) return stream_.WaitWritable();
  if (wrote.outcome == IoOutcome::kOk) return Finish(std::move(stream_));
  last_error_ = "connect " + addresses_[address_ - 1].ToString() + ": " + stream_.error();
  Next();
}

void GrpcConnector::Finish(Result<Stream> result, bool tls) {
  loop_.Cancel(next_);
  next_ = 0;
  ++attempt_;
  if (result) result->SetHandler(nullptr);
  Done done = std::exchange(done_, nullptr);
  done(std::move(result), tls);
}

}  // namespace gpulens
