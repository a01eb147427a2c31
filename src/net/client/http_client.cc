#include "net/client/http_client.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "net/stream.h"

namespace gpulens {
namespace {

using State = HttpResponseParser::State;

constexpr size_t kReadBytes = 64u << 10;
// Per turn, so that one fast peer does not keep the loop from the others.
constexpr int kReadsPerTurn = 8;
constexpr int kWritesPerTurn = 8;
// Offered to one write; with TLS, where a read precedes each write, one record.
constexpr size_t kPlainBytes = 256u << 10;
constexpr size_t kTlsBytes = 16u << 10;

// Shared by all channels of a loop: bytes are copied out at once.
char* ReadBuffer() {
  thread_local const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  return buffer.get();
}

// Timeout of a body in pieces, in times that between two pieces.
constexpr int kPieces = 12;
constexpr size_t kMostAtOnce = 64 << 20;

bool Answered(const HttpReply& reply) noexcept {
  return reply.failure == HttpFailure::kNone || reply.failure == HttpFailure::kStatus ||
         reply.failure == HttpFailure::kAuth;
}

}  // namespace

// One request and its response over a kept connection. Used on the loop's thread only; its owner calls
// Abandon before releasing it.
class HttpChannel::Core final : public RefCounted<Core>, public StreamHandler {
 public:
  enum class Method : uint8_t { kGet, kPost };

  Core(IoLoop& loop, HttpTarget target) : loop_(loop), target_(std::move(target)), parser_(target_.limits) {}

  IoLoop& loop() noexcept { return loop_; }
  void Start(Method method, HttpPost request, Done done);
  void Abandon();
  void OnReadable() override;
  void OnWritable() override;

 private:
  enum class Phase : uint8_t { kIdle, kResolving, kSending, kReceiving };

  // From the request to a connection.
  void WriteHead(std::string_view method, std::string_view headers);
  void Connect();
  void TryNextAddress();
  // Over the connection, to the end.
  size_t RequestBytes() const noexcept { return head_.size() + (body_ ? body_->size() : 0); }
  void Send();
  IoResult WritePiece();
  void OnWriteError();
  void Receive();
  bool TakeSome(bool& nothing_left);
  bool TakeBytes(std::string_view bytes);
  bool Refused() const noexcept;
  void OnIdleEvent();
  bool Retry();
  void Broken();
  void Ended();
  void OnTimeout();
  void OnAnswer(bool clean);
  void Fail(HttpFailure failure, std::string detail);
  void Finish();

  IoLoop& loop_;
  const HttpTarget target_;
  HttpResponseParser parser_;
  Stream stream_;
  std::shared_ptr<const TlsContext> tls_;
  std::string head_;
  std::shared_ptr<const std::string> body_;
  size_t sent_ = 0;  // of head and body
  Phase phase_ = Phase::kIdle;
  bool post_ = false;
  bool reused_ = false;     // this request uses a kept connection
  bool connected_ = false;  // the present stream has accepted a byte
  uint64_t request_id_ = 0;
  IoLoop::TimerId deadline_ = 0, next_address_ = 0;
  std::vector<Endpoint> addresses_;
  size_t address_ = 0;
  int64_t timeout_ns_ = 0;
  std::string last_error_;
  std::string write_error_;  // why nothing more can be sent, while received bytes are still read
  HttpReply reply_;
  std::function<void(std::string_view)> on_body_;
  Done done_;
};

void HttpChannel::Core::Start(Method method, HttpPost request, Done done) {
  CHECK(phase_ == Phase::kIdle && !done_);
  done_ = std::move(done);
  ++request_id_;
  on_body_ = std::move(request.on_body);
  timeout_ns_ = std::max<int64_t>(0, request.timeout.count());
  post_ = method == Method::kPost;
  body_ = std::move(request.body);
  WriteHead(post_ ? request.method : "GET", request.headers);
  parser_.Reset(std::move(request.buffer));
  if (request.tls != tls_) stream_.Close();
  tls_ = std::move(request.tls);
  deadline_ = loop_.After(Duration(timeout_ns_), [this] { OnTimeout(); });
  reused_ = static_cast<bool>(stream_);
  if (!reused_) return Connect();
  phase_ = Phase::kSending;
  stream_.WaitWritable();
}

void HttpChannel::Core::WriteHead(std::string_view method, std::string_view headers) {
  head_ = method;
  head_ += ' ';
  head_ += target_.url.target;
  head_ += " HTTP/1.1\r\nHost: ";
  head_ += target_.url.Authority();
  head_ += "\r\n";
  head_ += headers;
  if (post_) {
    head_ += "Content-Length: ";
    head_ += std::to_string(body_ ? body_->size() : 0);
    head_ += "\r\n";
  }
  head_ += "\r\n";
  sent_ = 0;
  write_error_.clear();
}

void HttpChannel::Core::Connect() {
  phase_ = Phase::kResolving;
  address_ = 0;
  last_error_.clear();
  Ref<Core> self(this);
  auto resolved = [self, id = request_id_](Result<std::vector<Endpoint>> found) {
    // The request may be over by now, another one may be under way.
    if (self->request_id_ != id || self->phase_ != Phase::kResolving) return;
    if (!found) return self->Fail(HttpFailure::kConnect, found.error().detail);
    self->addresses_ = std::move(*found);
    self->TryNextAddress();
  };
  if (target_.unix_socket.empty()) {
    return loop_.Resolve(target_.url.host, target_.url.port, std::move(resolved));
  }
  Endpoint to;
  to.family = Endpoint::Family::kUnix;
  to.path = target_.unix_socket;
  loop_.Post([resolved, to] { resolved(std::vector<Endpoint>{to}); });
}

void HttpChannel::Core::TryNextAddress() {
  loop_.Cancel(next_address_);
  phase_ = Phase::kSending;
  connected_ = false;
  if (target_.url.tls && !tls_) return Fail(HttpFailure::kTls, "there are no TLS settings for https");
  while (address_ < addresses_.size()) {
    const Endpoint& to = addresses_[address_++];
    auto made = Stream::Connect(loop_, to, target_.url.tls ? tls_ : nullptr, target_.url.host);
    if (!made) {
      if (made.error().code == Code::kInvalidArgument && target_.url.tls) {
        return Fail(HttpFailure::kTls, made.error().detail);
      }
      last_error_ = WithoutPrefix(made.error().detail, "connect " + to.ToString() + ": ");
      continue;
    }
    stream_ = std::move(*made);
    stream_.SetHandler(this);
    stream_.WaitWritable();
    if (address_ < addresses_.size()) {
      // An address that drops packets leaves time for the others.
      Duration share(timeout_ns_ / static_cast<int64_t>(addresses_.size() + 1));
      next_address_ = loop_.After(share, [this] {
        if (phase_ == Phase::kSending && !connected_) TryNextAddress();
      });
    }
    return;
  }
  Fail(HttpFailure::kConnect, last_error_.empty() ? "no address" : last_error_);
}

void HttpChannel::Core::Abandon() {
  loop_.Cancel(deadline_);
  loop_.Cancel(next_address_);
  ++request_id_;
  phase_ = Phase::kIdle;
  stream_.Close();
  body_.reset();
  done_ = nullptr;
}

HttpChannel::HttpChannel(Ref<Core> core) noexcept : core_(std::move(core)) {}

HttpChannel::~HttpChannel() {
  if (core_->loop().InLoop()) {
    core_->Abandon();
  } else {
    // Posted: the caller may hold a lock that the loop waits for.
    core_->loop().Post([core = core_] { core->Abandon(); });
  }
}

void HttpChannel::Get(HttpGet get, Done done) {
  HttpPost request{get.headers, nullptr, std::move(get.tls), get.timeout, std::move(get.buffer)};
  request.on_body = std::move(get.on_body);
  core_->Start(Core::Method::kGet, std::move(request), std::move(done));
}

void HttpChannel::Post(HttpPost post, Done done) {
  core_->Start(Core::Method::kPost, std::move(post), std::move(done));
}

std::unique_ptr<HttpChannel> HttpClient::Open(HttpTarget target) {
  return std::unique_ptr<HttpChannel>(new HttpChannel(MakeRef<HttpChannel::Core>(loop_, std::move(target))));
}

Result<BlockingReply> PostOverTls(const BlockingPost::Request& request, Duration timeout) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const TlsContext> tls, TlsContext::Client({}));
  IoLoop loop;
  HttpClient client(loop);
  HttpTarget target{.url = request.url, .unix_socket = {}, .limits = {}};
  target.limits.body_bytes = request.on_body ? kMostAtOnce : request.most_bytes;
  const auto channel = client.Open(std::move(target));
  Result<BlockingReply> out = Status{Code::kUnavailable, "cancelled"};
  bool ended = false;
  loop.Post([&] {
    HttpPost post{.headers = request.headers,
                  .body = std::make_shared<const std::string>(request.body),
                  .tls = tls,
                  .timeout = request.on_body ? kPieces * timeout : timeout,
                  .buffer = {}};
    if (request.on_body) {
      post.on_body = [&](std::string_view piece) {
        if (ended || request.on_body(piece)) return;
        ended = true;
        loop.Stop();
      };
    }
    channel->Post(std::move(post), [&](HttpReply& reply) {
      if (ended) return;
      if (Answered(reply))
        out = BlockingReply{reply.status, reply.content_type, std::move(reply.body), reply.retry_after};
      else out = Status{HttpFailureCode(reply.failure), reply.detail};
      loop.Stop();
    });
  });
  loop.Run();
  return out;
}

void LinkSecurePost() noexcept { SetSecurePost(&PostOverTls); }

void HttpChannel::Core::OnWritable() {
  if (phase_ == Phase::kSending) Send();
}

void HttpChannel::Core::Send() {
  for (int i = 0; i < kWritesPerTurn; ++i) {
    // Reads before the first write on a kept connection, which may have ended, and before each write of TLS,
    // from which nothing can be read after a failed write.
    bool nothing_came = false;
    bool look = post_ && connected_ && (sent_ == 0 || stream_.is_tls());
    if (look && !TakeSome(nothing_came)) return;
    if (phase_ != Phase::kSending) return stream_.WaitReadable();
    IoResult wrote = WritePiece();
    if (wrote.outcome == IoOutcome::kWouldBlock) break;
    if (wrote.outcome != IoOutcome::kOk) return OnWriteError();
    connected_ = true;
    sent_ += wrote.bytes;
    if (sent_ < RequestBytes()) continue;
    phase_ = Phase::kReceiving;
    return stream_.WaitReadable();
  }
  stream_.WaitWritable();
  // A long body may be answered before its end.
  if (post_ && connected_) stream_.WaitReadable();
}

IoResult HttpChannel::Core::WritePiece() {
  size_t room = stream_.is_tls() ? kTlsBytes : kPlainBytes;
  size_t of_head = std::min(sent_, head_.size());
  std::array<std::string_view, 2> pieces;
  size_t count = 0;
  std::string_view head = std::string_view(head_).substr(of_head, room);
  if (!head.empty()) pieces[count++] = head;
  std::string_view body = body_ ? std::string_view(*body_) : std::string_view{};
  body = body.substr(sent_ - of_head, room - head.size());
  if (!body.empty()) pieces[count++] = body;
  return stream_.WriteSome(std::span(pieces.data(), count));
}

// A server may answer and close before it has read all. The stream is broken then, but the kernel keeps
// received bytes: they are read through another descriptor of the socket. Not with TLS, whose keys the stream
// has.
void HttpChannel::Core::OnWriteError() {
  if (!post_ || sent_ == 0 || stream_.is_tls()) return Broken();
  UniqueFd same(::fcntl(stream_.fd(), F_DUPFD_CLOEXEC, 0));
  if (!same) return Broken();
  auto rest = Stream::Adopt(loop_, std::move(same));
  if (!rest) return Broken();
  write_error_ = stream_.error();
  stream_ = std::move(*rest);
  stream_.SetHandler(this);
  phase_ = Phase::kReceiving;
  Receive();
}

void HttpChannel::Core::OnReadable() {
  if (phase_ == Phase::kReceiving || (phase_ == Phase::kSending && post_ && connected_)) Receive();
  else if (phase_ == Phase::kIdle) OnIdleEvent();
}

// A kept connection has no events but its end.
void HttpChannel::Core::OnIdleEvent() {
  char byte;
  IoResult read = stream_.ReadSome({&byte, 1});
  if (read.outcome == IoOutcome::kWouldBlock) stream_.WaitReadable();
  else stream_.Close();
}

void HttpChannel::Core::Receive() {
  bool nothing_left = false;
  for (int i = 0; i < kReadsPerTurn && !nothing_left; ++i) {
    if (!TakeSome(nothing_left)) return;
  }
  stream_.WaitReadable();
}

// One read. False: the connection or the request is over; then no member may be used.
bool HttpChannel::Core::TakeSome(bool& nothing_left) {
  char* buffer = ReadBuffer();
  IoResult read = stream_.ReadSome({buffer, kReadBytes});
  nothing_left = read.outcome == IoOutcome::kWouldBlock;
  if (nothing_left) return true;
  // Bytes on a kept connection before the request has begun are no response to it.
  if (phase_ == Phase::kSending && sent_ == 0 && Retry()) return false;
  switch (read.outcome) {
    case IoOutcome::kClosed: return Ended(), false;
    case IoOutcome::kFailed: return Broken(), false;
    default: return TakeBytes({buffer, read.bytes});
  }
}

bool HttpChannel::Core::TakeBytes(std::string_view bytes) {
  size_t consumed = 0;
  State state = parser_.Feed(bytes, consumed);
  if (on_body_ && !Refused() && !parser_.body().empty()) {
    on_body_(parser_.body());
    parser_.body().clear();
  }
  if (state == State::kDone) return OnAnswer(consumed == bytes.size()), false;
  bool bad = state != State::kMore;
  // A refusal is known by its head. A Get ends there; a Post reads on as far as possible.
  if (Refused() && (post_ ? bad : !bad)) return OnAnswer(false), false;
  if (bad) {
    bool large = state == State::kTooLarge;
    return Fail(large ? HttpFailure::kTooLarge : HttpFailure::kProtocol, parser_.why()), false;
  }
  // After a refusal the rest of the request is not sent; other responses may begin before its end.
  if (phase_ == Phase::kSending && Refused()) phase_ = Phase::kReceiving;
  return true;
}

bool HttpChannel::Core::Refused() const noexcept {
  if (!parser_.head_done()) return false;
  return post_ ? parser_.status() / 100 != 2 : parser_.status() != 200;
}

bool HttpChannel::Core::Retry() {
  if (!reused_ || parser_.begun()) return false;
  reused_ = false;
  sent_ = 0;
  write_error_.clear();
  stream_.Close();
  Connect();
  return true;
}

void HttpChannel::Core::Broken() {
  if (Retry()) return;
  if (post_ && Refused()) return OnAnswer(false);
  std::string error = write_error_.empty() ? stream_.error() : write_error_;
  // Once a body is being sent, a socket error is not one of the handshake.
  bool cut = post_ && sent_ > 0 && error.starts_with("TLS: socket");
  if (error.starts_with("TLS: ") && !parser_.begun() && !cut) {
    return Fail(HttpFailure::kTls, std::move(error));
  }
  if (!connected_) {
    last_error_ = WithoutPrefix(std::move(error), "connect: ");
    return TryNextAddress();
  }
  Fail(HttpFailure::kProtocol, WithoutPrefix(WithoutPrefix(std::move(error), "read: "), "write: "));
}

void HttpChannel::Core::Ended() {
  if (Retry()) return;
  if (parser_.End() == State::kDone || (post_ && Refused())) return OnAnswer(false);
  if (!write_error_.empty() && !parser_.begun()) return Broken();
  Fail(HttpFailure::kProtocol, parser_.why());
}

void HttpChannel::Core::OnTimeout() {
  deadline_ = 0;
  if (post_ && Refused()) return OnAnswer(false);
  std::string within = " within " + std::to_string(timeout_ns_ / 1'000'000) + " ms";
  if (phase_ == Phase::kResolving) return Fail(HttpFailure::kTimeout, "the name was not resolved" + within);
  if (!connected_) return Fail(HttpFailure::kTimeout, "no connection" + within);
  if (post_ && sent_ < RequestBytes() && !parser_.begun()) {
    return Fail(HttpFailure::kTimeout, "only " + std::to_string(sent_) + " of " +
                                           std::to_string(RequestBytes()) + " bytes were accepted" + within);
  }
  Fail(HttpFailure::kTimeout, (parser_.begun() ? "incomplete response" : "no response") + within);
}

// `clean`: the next request may follow on this connection, if all of this one is sent.
void HttpChannel::Core::OnAnswer(bool clean) {
  reply_.status = parser_.status();
  reply_.content_type = parser_.content_type();
  reply_.gzip = parser_.gzip();
  reply_.retry_after = parser_.retry_after();
  reply_.kept = parser_.kept();
  reply_.body = std::move(parser_.body());
  if (Refused()) {
    bool auth = reply_.status == 401 || reply_.status == 403;
    reply_.failure = auth ? HttpFailure::kAuth : HttpFailure::kStatus;
    // The path of a webhook is a secret.
    reply_.detail = DescribeStatus(reply_.status, parser_.location(), post_);
    if (!post_) {
      reply_.body.clear();
      clean = false;
    }
  } else {
    reply_.failure = HttpFailure::kNone;
    reply_.detail.clear();
  }
  if (!clean || !parser_.keeps_alive() || sent_ < RequestBytes()) stream_.Close();
  Finish();
}

// Ends without a usable response.
void HttpChannel::Core::Fail(HttpFailure failure, std::string detail) {
  reply_.failure = failure;
  reply_.detail = std::move(detail);
  reply_.status = 0;
  reply_.content_type.clear();
  reply_.gzip = false;
  reply_.retry_after.clear();
  reply_.kept.clear();
  reply_.body = std::move(parser_.body());
  reply_.body.clear();
  stream_.Close();
  Finish();
}

void HttpChannel::Core::Finish() {
  loop_.Cancel(deadline_);
  loop_.Cancel(next_address_);
  deadline_ = next_address_ = 0;
  phase_ = Phase::kIdle;
  body_.reset();
  on_body_ = nullptr;
  if (stream_) stream_.WaitReadable();
  Ref<Core> self(this);  // `done` may destroy the channel
  Done done = std::exchange(done_, nullptr);
  done(reply_);
}

}  // namespace gpulens
