#include "net/client/http_client.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "net/address.h"
#include "net/client/request_fields.h"
#include "net/stream.h"

namespace gpulens {
namespace {

using Outcome = IoResult::Outcome;
using State = HttpResponseParser::State;

constexpr size_t kReadBytes = 64u << 10;
// One fast sender must not keep the loop from the others.
constexpr int kReadsPerTurn = 8;

// Shared by all channels of a loop: what is read is copied out at once.
char* ReadBuffer() {
  thread_local const std::unique_ptr<char[]> buffer(new char[kReadBytes]);
  return buffer.get();
}

// Without the words that tell which call failed: people know that we connect. What is left stands
// behind a colon, so it begins small.
std::string WithoutPrefix(std::string text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  bool word = text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a' && text[1] <= 'z';
  if (word) text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

}  // namespace

class HttpChannel::Core final : public RefCounted<Core>, public StreamHandler {
 public:
  Core(IoLoop& loop, HttpTarget target) : loop_(loop), target_(std::move(target)), parser_(target_.limits) {}

  IoLoop& loop() noexcept { return loop_; }
  void Start(HttpGet get, Done done);
  void Abandon();
  void OnReadable() override;
  void OnWritable() override;

 private:
  enum class Phase : uint8_t { kIdle, kResolving, kSending, kReceiving };

  void WriteRequest(std::string_view headers);
  void Connect();
  void TryNextAddress();
  void Send();
  void Receive();
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
  std::string request_;
  size_t sent_ = 0;
  Phase phase_ = Phase::kIdle;
  bool reused_ = false;     // this request went out on a kept connection
  bool connected_ = false;  // the present stream has taken a byte
  uint64_t request_id_ = 0;
  IoLoop::TimerId deadline_ = 0, next_address_ = 0;
  std::vector<Endpoint> addresses_;
  size_t address_ = 0;
  int64_t timeout_ns_ = 0;
  std::string last_error_;
  HttpReply reply_;
  Done done_;
};

void HttpChannel::Core::Start(HttpGet get, Done done) {
  CHECK(phase_ == Phase::kIdle && !done_);
  done_ = std::move(done);
  ++request_id_;
  timeout_ns_ = std::max<int64_t>(0, get.timeout.count());
  WriteRequest(get.headers);
  parser_.Reset(std::move(get.buffer));
  if (get.tls != tls_) stream_.Close();
  tls_ = std::move(get.tls);
  deadline_ = loop_.After(Duration(timeout_ns_), [this] { OnTimeout(); });
  reused_ = static_cast<bool>(stream_);
  if (!reused_) return Connect();
  phase_ = Phase::kSending;
  stream_.WaitWritable();
}

void HttpChannel::Core::WriteRequest(std::string_view headers) {
  request_ = "GET ";
  request_ += target_.url.target;
  request_ += " HTTP/1.1\r\nHost: ";
  request_ += target_.url.Authority();
  request_ += "\r\n";
  request_ += headers;
  request_ += "\r\n";
  sent_ = 0;
}

void HttpChannel::Core::Connect() {
  phase_ = Phase::kResolving;
  address_ = 0;
  last_error_.clear();
  Ref<Core> self(this);
  auto resolved = [self, id = request_id_](Result<std::vector<Endpoint>> found) {
    // The request may be over by now, even another one under way.
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
      // An address that swallows packets leaves time for the others.
      Duration share(timeout_ns_ / static_cast<int64_t>(addresses_.size() + 1));
      next_address_ = loop_.After(share, [this] {
        if (phase_ == Phase::kSending && !connected_) TryNextAddress();
      });
    }
    return;
  }
  Fail(HttpFailure::kConnect, last_error_.empty() ? "no address" : last_error_);
}

void HttpChannel::Core::OnWritable() {
  if (phase_ == Phase::kSending) Send();
}

void HttpChannel::Core::Send() {
  while (sent_ < request_.size()) {
    std::string_view piece = std::string_view(request_).substr(sent_);
    IoResult wrote = stream_.WriteSome({&piece, 1});
    if (wrote.outcome == Outcome::kWouldBlock) return stream_.WaitWritable();
    if (wrote.outcome != Outcome::kOk) return Broken();
    connected_ = true;
    sent_ += wrote.bytes;
  }
  phase_ = Phase::kReceiving;
  stream_.WaitReadable();
}

void HttpChannel::Core::OnReadable() {
  if (phase_ == Phase::kReceiving) Receive();
  else if (phase_ == Phase::kIdle) OnIdleEvent();
}

// On a kept connection nothing is expected but its end.
void HttpChannel::Core::OnIdleEvent() {
  char byte;
  IoResult read = stream_.ReadSome({&byte, 1});
  if (read.outcome == Outcome::kWouldBlock) stream_.WaitReadable();
  else stream_.Close();
}

void HttpChannel::Core::Receive() {
  char* buffer = ReadBuffer();
  for (int i = 0; i < kReadsPerTurn; ++i) {
    IoResult read = stream_.ReadSome({buffer, kReadBytes});
    if (read.outcome == Outcome::kWouldBlock) break;
    if (read.outcome == Outcome::kClosed) return Ended();
    if (read.outcome == Outcome::kFailed) return Broken();
    size_t consumed = 0;
    State state = parser_.Feed({buffer, read.bytes}, consumed);
    if (state == State::kTooLarge) return Fail(HttpFailure::kTooLarge, parser_.why());
    if (state == State::kBroken) return Fail(HttpFailure::kProtocol, parser_.why());
    bool refused = parser_.head_done() && parser_.status() != 200;
    if (state == State::kDone || refused) return OnAnswer(state == State::kDone && consumed == read.bytes);
  }
  stream_.WaitReadable();
}

bool HttpChannel::Core::Retry() {
  if (!reused_ || parser_.begun()) return false;
  reused_ = false;
  sent_ = 0;
  stream_.Close();
  Connect();
  return true;
}

void HttpChannel::Core::Broken() {
  if (Retry()) return;
  std::string error = stream_.error();
  if (error.starts_with("TLS: ") && !parser_.begun()) return Fail(HttpFailure::kTls, std::move(error));
  if (!connected_) {
    last_error_ = WithoutPrefix(std::move(error), "connect: ");
    return TryNextAddress();
  }
  Fail(HttpFailure::kProtocol, WithoutPrefix(WithoutPrefix(std::move(error), "read: "), "write: "));
}

void HttpChannel::Core::Ended() {
  if (Retry()) return;
  if (parser_.End() == State::kDone) return OnAnswer(false);
  Fail(HttpFailure::kProtocol, parser_.why());
}

void HttpChannel::Core::OnTimeout() {
  deadline_ = 0;
  std::string within = " within " + std::to_string(timeout_ns_ / 1'000'000) + " ms";
  if (phase_ == Phase::kResolving) return Fail(HttpFailure::kTimeout, "the name was not resolved" + within);
  if (!connected_) return Fail(HttpFailure::kTimeout, "no connection" + within);
  Fail(HttpFailure::kTimeout, (parser_.begun() ? "no whole answer" : "no answer") + within);
}

// `clean`: the connection is where the next request may begin.
void HttpChannel::Core::OnAnswer(bool clean) {
  reply_.status = parser_.status();
  reply_.content_type = parser_.content_type();
  reply_.gzip = parser_.gzip();
  if (reply_.status != 200) {
    bool auth = reply_.status == 401 || reply_.status == 403;
    return Fail(auth ? HttpFailure::kAuth : HttpFailure::kStatus,
                DescribeStatus(reply_.status, parser_.location()));
  }
  reply_.failure = HttpFailure::kNone;
  reply_.detail.clear();
  reply_.body = std::move(parser_.body());
  if (!clean || !parser_.keeps_alive()) stream_.Close();
  Finish();
}

void HttpChannel::Core::Fail(HttpFailure failure, std::string detail) {
  bool answered = failure == HttpFailure::kAuth || failure == HttpFailure::kStatus;
  if (!answered) {
    reply_.status = 0;
    reply_.content_type.clear();
    reply_.gzip = false;
  }
  reply_.failure = failure;
  reply_.detail = std::move(detail);
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
  if (stream_) stream_.WaitReadable();
  Ref<Core> self(this);  // `done` may destroy the channel
  Done done = std::exchange(done_, nullptr);
  done(reply_);
}

void HttpChannel::Core::Abandon() {
  loop_.Cancel(deadline_);
  loop_.Cancel(next_address_);
  ++request_id_;
  phase_ = Phase::kIdle;
  stream_.Close();
  done_ = nullptr;
}

HttpChannel::HttpChannel(Ref<Core> core) noexcept : core_(std::move(core)) {}

HttpChannel::~HttpChannel() {
  if (core_->loop().InLoop()) {
    core_->Abandon();
  } else {
    // Posted and not called: whoever destroys may hold a lock that the loop waits for.
    core_->loop().Post([core = core_] { core->Abandon(); });
  }
}

void HttpChannel::Get(HttpGet get, Done done) { core_->Start(std::move(get), std::move(done)); }

std::unique_ptr<HttpChannel> HttpClient::Open(HttpTarget target) {
  return std::unique_ptr<HttpChannel>(new HttpChannel(MakeRef<HttpChannel::Core>(loop_, std::move(target))));
}

}  // namespace gpulens
