// A client and an upstream of the relay that send what they like, in any pieces and order, and go when they
// like; a policy that passes, inspects, holds, tries again. No crash; each exchange ends once; what a client
// can read of an answer is what the policy saw of the upstream's; nothing is left when it is over.
//
// Input: steps, a byte for what happens and what that needs. The client is a pair of sockets, the upstream a
// listening socket of the loopback address. Fuzz inputs: 2'000
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "net/message/http_parser.h"
#include "net/relay/relay_connection.h"

namespace {

using namespace gpulens;

constexpr std::string_view kRequests[] = {
    "GET /pass HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /pass HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    "POST /inspect HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET /hold HTTP/1.1\r\nHost: x\r\nTE: trailers\r\n\r\n",
    "GET /later HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /again HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /answer HTTP/1.1\r\nHost: x\r\n\r\n",
    "POST /answer-early HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n",
    "GET /abort HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /drain HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /pass HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /pass HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    "GET /hold HTTP/1.1\r\nHost: x\r\nConnection: close, x-a\r\nX-A: b\r\n\r\n",
};

constexpr std::string_view kAnswers[] = {
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\nA: b\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy",
    "HTTP/1.1 103 Hints\r\nLink: a\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 8\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    "4\r\nmore\r\n0\r\n\r\n",
};

// All on the loop.
class FuzzPolicy final : public RelayPolicy {
 public:
  struct Seen {
    std::string seen, target;
    bool relayed = false, whole = false;
  };
  class Exchange;
  Ref<UpstreamPool> upstream;
  std::vector<RelayHandle> handles;  // that wait for something
  std::vector<std::unique_ptr<Seen>> seen;
  size_t ended = 0;

  std::unique_ptr<RelayExchange> Begin(const RelayRequest& request, RelayHandle handle) override;
};

class FuzzPolicy::Exchange final : public RelayExchange {
 public:
  Exchange(FuzzPolicy& policy, Seen& seen, RelayHandle handle)
      : policy_(policy), seen_(seen), handle_(std::move(handle)) {}
  ~Exchange() override { CHECK(ends_ == 1); }

  void OnRequest(const RelayRequest& request) override {
    CHECK(request.body.size() <= 1024);
    if (Is("/answer")) return handle_.Answer(HttpResponse::Text(200, "ours"));
    if (Is("/later")) return policy_.handles.push_back(handle_);
    Forward();
  }
  void Forward() {
    RelayForward forward;
    forward.upstream = policy_.upstream;
    handle_.Forward(forward);
  }
  void OnUpstreamHead(const RelayHead& head, RelayPass& pass) override {
    CHECK(ends_ == 0 && head.status() >= 200);
    pass.write_first = Is("/pass") || Is("/drain");
    pass.same_length = Is("/again");
    if (Is("/again") && head.status() == 503) return Forward();
    seen_.relayed = true;
  }
  void OnBody(std::string_view piece, RelayOutput& output) override {
    CHECK(ends_ == 0 && !held_ && !piece.empty() && seen_.relayed);
    seen_.seen += piece;
    output.Pass(piece);
    if (Is("/abort") && seen_.seen.size() > 4) handle_.Abort();
    if (Is("/hold")) Hold(output);
  }
  void OnBodyEnd(RelayOutput& output) override {
    CHECK(ends_ == 0 && !held_);
    if (Is("/hold") && seen_.seen.size() % 2 == 0) Hold(output);
  }
  void OnResume(RelayOutput&) override { held_ = false; }
  void Hold(RelayOutput& output) {
    output.Hold();
    held_ = true;
    policy_.handles.push_back(handle_);
  }
  void OnAttemptFailed(const RelayAttempt& attempt) override {
    if (Is("/again") && !attempt.dispatched && attempts_++ < 2) Forward();
  }
  RelayDrain OnClientGone() override {
    return Is("/drain") ? RelayDrain{.bytes = 20, .time = std::chrono::seconds(1)} : RelayDrain{};
  }
  void OnEnd(const RelayOutcome& outcome) override {
    CHECK(++ends_ == 1);
    ++policy_.ended;
    CHECK(outcome.end == RelayEnd::kComplete ? outcome.answer_whole && !held_ : true);
    if (outcome.end == RelayEnd::kComplete) CHECK(outcome.passed == seen_.seen.size());
    CHECK(outcome.received >= seen_.seen.size());
    seen_.whole = outcome.end == RelayEnd::kComplete;
  }

 private:
  bool Is(std::string_view path) const { return seen_.target == path; }
  FuzzPolicy& policy_;
  Seen& seen_;
  RelayHandle handle_;
  int ends_ = 0, attempts_ = 0;
  bool held_ = false;
};

std::unique_ptr<RelayExchange> FuzzPolicy::Begin(const RelayRequest& request, RelayHandle handle) {
  seen.push_back(std::make_unique<Seen>());
  seen.back()->target = std::string(request.head.target());
  if (seen.back()->target == "/answer-early") handle.Answer(HttpResponse::Text(403, "early"));
  return std::make_unique<Exchange>(*this, *seen.back(), std::move(handle));
}

class Session {
 public:
  Session(IoLoop& loop, int listener, const Endpoint& upstream, bool half_close)
      : loop_(loop), listener_(listener) {
    int both[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) == 0);
    client_.reset(both[0]);
    const int small = 4096;
    for (int fd : both) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    loop_.Call([&] {
      UpstreamOptions options;
      options.url = *ParseHttpUrl("http://" + upstream.ToString());
      options.max_connections = 2;
      options.circuit.failures = 0;
      options.limits.bytes = 1024;
      policy_.upstream = MakeRef<UpstreamPool>(loop_, std::move(options));
      RelayOptions relay;
      relay.limits.head = {.bytes = 1024, .target_bytes = 256, .fields = 20};
      relay.limits.body_bytes = 1024;
      relay.limits.arriving_bytes = 1500;
      relay.half_close = half_close;
      shared_.reset(new RelayShared{.loop = loop_,
                                    .policy = policy_,
                                    .options = relay,
                                    .stats = {},
                                    .buffer = {},
                                    .pieces = {},
                                    .out = {},
                                    .busy = 0,
                                    .connections = {loop_, {}}});
      auto stream = Stream::Adopt(loop_, UniqueFd(both[1]));
      CHECK(stream.ok());
      Endpoint peer;
      peer.family = Endpoint::Family::kIpv4;
      connection_ =
          MakeRef<RelayConnection>(*shared_, *std::move(stream), peer, std::make_shared<WebRules>());
      connection_->Start();
    });
  }
  ~Session() {
    Read(1 << 16);
    loop_.Call([&] {
      connection_->Close();
      CHECK(shared_->connections.size() == 0 && shared_->stats.connections == 0);
      CHECK(shared_->stats.streams == 0 && shared_->stats.arriving == 0 && shared_->busy == 0);
      CHECK(policy_.ended == policy_.seen.size());
      CHECK(policy_.upstream->connections() == policy_.upstream->idle());
      for (RelayHandle& handle : policy_.handles) CHECK(handle.over());
      policy_.handles.clear();
      connection_ = nullptr;
      shared_ = nullptr;
      policy_.upstream = nullptr;
    });
    CheckAnswers();
    upstreams_.clear();
    Settle();
    for (int fd; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) ::close(fd);
  }

  void Send(std::string_view bytes) {
    if (client_)
      static_cast<void>(!::send(client_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    head_ |= bytes.find("HEAD") != std::string_view::npos;
    Settle();
  }
  void Write(size_t which, std::string_view bytes) {
    if (upstreams_.empty()) return;
    const int fd = upstreams_[which % upstreams_.size()].get();
    static_cast<void>(!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    Settle();
  }
  void Go(size_t which, bool reset) {
    if (upstreams_.empty()) return;
    const auto at = upstreams_.begin() + static_cast<ptrdiff_t>(which % upstreams_.size());
    const linger now{1, 0};
    if (reset) ::setsockopt(at->get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    upstreams_.erase(at);
    Settle();
  }
  void Read(size_t most) {
    std::string bytes(most, '\0');
    const ssize_t count = client_ ? ::recv(client_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) : 0;
    if (count > 0) received_.append(bytes, 0, static_cast<size_t>(count));
    Settle();
  }
  void End() {
    if (client_) ::shutdown(client_.get(), SHUT_WR);
    Settle();
  }
  void Leave() { client_.reset(), Settle(); }
  void Deadline() {
    OnLoop([&] {
      const Phase phase = connection_->phase();
      if (shared_->connections.size() == 0 || phase == Phase::kWork || phase == Phase::kOpen) return;
      connection_->OnDeadline(phase);
    });
  }
  void Finish() {
    OnLoop([&] { connection_->FinishAndClose(); });
  }
  // Lets one that waits go on, by each of the ways at once: what does not fit does nothing.
  void Wake(size_t which) {
    OnLoop([&] {
      if (policy_.handles.empty()) return;
      const auto at = policy_.handles.begin() + static_cast<ptrdiff_t>(which % policy_.handles.size());
      const RelayHandle handle = *at;
      policy_.handles.erase(at);
      handle.Resume();
      RelayForward forward;
      forward.upstream = policy_.upstream;
      handle.Forward(forward);
      if (which > 200) handle.Abort();
    });
  }

 private:
  template <class F>
  void OnLoop(const F& what) {
    loop_.Call([&] { what(); });
    Settle();
  }
  void Settle() {
    for (int i = 0; i < 4; ++i) {
      loop_.Call([] {});
      for (int fd; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;)
        upstreams_.emplace_back(fd);
      char buffer[4096];
      for (const UniqueFd& upstream : upstreams_) {
        while (::recv(upstream.get(), buffer, sizeof buffer, MSG_DONTWAIT) > 0) {
        }
      }
    }
  }
  // The client's answers are those of its exchanges, in their order. To HEAD another parser would wait for a
  // body.
  void CheckAnswers() {
    if (head_) return;
    std::string_view rest = received_;
    for (size_t i = 0; i < policy_.seen.size() && !rest.empty(); ++i) {
      HttpResponseParser parser({.head_bytes = 64 << 10, .body_bytes = 1 << 20});
      size_t used = 0;
      const HttpResponseParser::State state = parser.Feed(rest, used);
      CHECK(state == HttpResponseParser::State::kMore || state == HttpResponseParser::State::kDone);
      const FuzzPolicy::Seen& seen = *policy_.seen[i];
      if (parser.head_done() && seen.relayed) CHECK(std::string_view(seen.seen).starts_with(parser.body()));
      if (state != HttpResponseParser::State::kDone) return;
      if (seen.relayed && seen.whole) CHECK(parser.body() == seen.seen);
      rest.remove_prefix(used);
    }
  }

  IoLoop& loop_;
  const int listener_;
  UniqueFd client_;
  std::vector<UniqueFd> upstreams_;
  FuzzPolicy policy_;
  std::unique_ptr<RelayShared> shared_;
  Ref<RelayConnection> connection_;
  std::string received_;
  bool head_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static IoLoop& loop = *[] {
    auto* made = new IoLoop;
    made->Start();
    return made;
  }();
  static Endpoint upstream;
  static const int listener = [] {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_storage address{};
    socklen_t length = ParseListenAddress("127.0.0.1:0")->ToSockaddr(address);
    CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(fd, 64) == 0);
    length = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
    upstream = Endpoint::FromSockaddr(address, length);
    return fd;
  }();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto byte = [&rest]() -> size_t {
    if (rest.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    return value;
  };
  const auto some = [&rest, &byte] {
    const std::string_view bytes = rest.substr(0, byte());
    rest.remove_prefix(std::min(rest.size(), bytes.size()));
    return bytes;
  };
  Session session(loop, listener, upstream, byte() % 2 == 1);
  for (int steps = 0; !rest.empty() && steps < 40; ++steps) {
    const size_t what = byte();
    switch (what % 12) {
      case 0: session.Send(some()); break;
      case 1:
      case 2: session.Send(kRequests[byte() % std::size(kRequests)]); break;
      case 3: {
        const std::string_view request = kRequests[byte() % std::size(kRequests)];
        session.Send(request.substr(0, byte() % request.size()));
        break;
      }
      case 4: {
        const size_t which = byte();
        session.Write(which, some());
        break;
      }
      case 5:
      case 6: {
        const size_t which = byte();
        session.Write(which, kAnswers[byte() % std::size(kAnswers)]);
        break;
      }
      case 7: session.Go(byte(), what > 128); break;
      case 8: session.Read(1 + byte() * 64); break;
      case 9: session.Wake(byte()); break;
      case 10: what > 200 ? session.Finish() : session.Deadline(); break;
      default: what > 230 ? session.Leave() : what > 180 ? session.End() : session.Read(1 << 16); break;
    }
  }
  return 0;
}
