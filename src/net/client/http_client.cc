#include "net/client/http_client.h"

#include <algorithm>

#include "base/check.h"
#include "base/result.h"
#include "net/blocking/blocking_post.h"
#include "net/client/http_channel.h"
#include "net/io_loop.h"
#include "net/message/address.h"
#include "net/message/http_fields.h"
#include "net/tls.h"

namespace gpulens {

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
    // Posted and not called: whoever destroys may hold a lock that the loop waits for.
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

namespace {

// What is handed over in pieces goes on for longer than the pause between two of them.
constexpr int kPieces = 12;
constexpr size_t kMostAtOnce = 64 << 20;

bool Answered(const HttpReply& reply) noexcept {
  return reply.failure == HttpFailure::kNone || reply.failure == HttpFailure::kStatus ||
         reply.failure == HttpFailure::kAuth;
}

}  // namespace

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

}  // namespace gpulens
