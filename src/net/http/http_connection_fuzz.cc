// A client of the HTTP server that sends what it likes, in any pieces, and reads when it likes: requests
// behind each other, half a request, the end of its side, deadlines, answers that come late or never, another
// protocol. What it receives are whole responses, one for each request and in their order; nothing is left
// when it is gone.
//
// Input: steps, a byte for what happens, and what that needs. The connection is a pair of sockets; it
// runs on the thread of a loop, and each step is done there. Fuzz inputs: 6'000
// Fuzz inputs: 4'000
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/parse.h"
#include "net/http/http_connection.h"

namespace {

using namespace gpulens;

constexpr std::string_view kRequests[] = {
    "GET /now HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /later HTTP/1.1\r\nHost: x\r\n\r\n",
    "HEAD /now HTTP/1.1\r\nHost: x\r\n\r\n",
    "HEAD /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "GET /now HTTP/1.0\r\n\r\n",
    "GET /now HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    "POST /later HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    "GET /big HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /never HTTP/1.1\r\nHost: x\r\n\r\n",
    "GET /up HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "GET /now HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\n\r\n",
    "POST /now HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n",
    "HEAD /now HTTP/1.1\r\nHost: x\r\nOrigin: http://evil.example\r\n\r\n",
    "GET /close HTTP/1.1\r\nHost: x\r\n\r\n",
};

// Numbers requests as they come, so that the client sees whether their answers are in order. All on the loop.
class Handler final : public HttpHandler, public HttpUpgrader {
 public:
  std::vector<HttpResponder> kept;
  std::vector<Stream> upgraded;
  int64_t requests = 0, refused = 0;
  std::vector<int64_t> numbers;  // of `kept`

  void Handle(const HttpRequest& request, HttpResponder responder) override {
    const int64_t number = ++requests;
    CHECK(request.body().size() <= 1024 && responder.wanted());
    if (request.path() == "/never") return;  // the responder answers 500
    if (request.path() == "/later") {
      kept.push_back(std::move(responder)), numbers.push_back(number);
      return;
    }
    responder.Send(Made(number, request.path() == "/big" ? 400'000 : 5, request.path() == "/close"));
  }
  HttpUpgrader* UpgraderOf(const HttpRequest& request) override {
    return request.path() == "/up" ? this : nullptr;
  }
  void TakeOver(HttpUpgrade upgrade) override {
    CHECK(upgrade.request.HasHeader("Upgrade") && upgrade.early.size() <= 64 << 10);
    upgraded.push_back(std::move(upgrade.stream));
  }
  void Refuse(const HttpRequest&, HttpResponse& refusal) override {
    ++refused;
    CHECK(refusal.status >= 400);
  }
  static HttpResponse Made(int64_t number, size_t size, bool close) {
    static const auto kBody = std::make_shared<const std::string>(400'000, 'x');
    HttpResponse response;
    response.body = SharedBytes(kBody);
    response.body.bytes = response.body.bytes.substr(0, size);
    response.AddHeader("X-Number", std::to_string(number));
    response.close = close;
    return response;
  }
};

// What the client has received, as responses. An answer to HEAD has no body, which its request alone shows:
// bodies of this server are of 'x' or sentences, and never begin like a response.
class Received {
 public:
  void Take(std::string_view bytes) {
    text_ += bytes;
    while (One()) {
    }
  }
  // Behind a response that closes, nothing comes.
  bool closed() const noexcept { return closed_; }
  int64_t finals() const noexcept { return finals_; }

 private:
  bool One() {
    const size_t end = text_.find("\r\n\r\n");
    if (end == std::string::npos) {
      CHECK(text_.size() < 16 << 10);
      return false;
    }
    CHECK(!closed_);
    const std::string head = text_.substr(0, end + 2);
    CHECK(head.starts_with("HTTP/1.1 "));
    const int status = ParseInt<int>(std::string_view(head).substr(9, 3)).value_or(0);
    CHECK(status >= 100 && status < 600);
    const int64_t length = Number(head, "\r\nContent-Length: ").value_or(0);
    size_t size = end + 4;
    if (status >= 200) {
      const std::string_view rest = std::string_view(text_).substr(size), start = "HTTP/1.1 ";
      // Of no body either nothing has come, or the next response.
      const bool next = rest.starts_with(start) && rest.size() > start.size() && rest[start.size()] <= '9';
      if (!next) {
        const bool begun = !rest.empty() && start.starts_with(rest.substr(0, start.size()));
        if (begun || static_cast<int64_t>(rest.size()) < length) return false;
        size += static_cast<size_t>(length);
      }
      ++finals_;
      if (const auto number = Number(head, "\r\nX-Number: ")) {
        CHECK(*number > last_);
        last_ = *number;
      }
      closed_ = head.find("\r\nConnection: close\r\n") != std::string::npos;
    }
    text_.erase(0, size);
    return true;
  }
  static std::optional<int64_t> Number(std::string_view head, std::string_view name) {
    const size_t at = head.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = head.substr(at + name.size());
    return ParseInt<int64_t>(TakeUntil(rest, '\r'));
  }

  std::string text_;
  int64_t finals_ = 0, last_ = 0;
  bool closed_ = false;
};

class Session {
 public:
  Session(IoLoop& loop, HttpLimits limits) : loop_(loop) {
    int both[2];
    CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) == 0);
    client_.reset(both[0]);
    const int small = 8192;
    for (int fd : both) ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    loop_.Call([&] {
      shared_.reset(new HttpShared{.loop = loop_,
                                   .handler = handler_,
                                   .authenticator = nullptr,
                                   .limits = limits,
                                   .stats = {},
                                   .files = HttpBodyFiles(loop_),
                                   .buffer = {},
                                   .spare_parser = nullptr,
                                   .arriving = 0,
                                   .connections = {loop_,
                                                   {limits.request_timeout, limits.idle_timeout, Duration(0),
                                                    limits.write_timeout, limits.linger, Duration(0)}}});
      auto stream = Stream::Adopt(loop_, UniqueFd(both[1]));
      CHECK(stream.ok());
      Endpoint peer;
      peer.family = Endpoint::Family::kIpv4;
      connection_ = MakeRef<HttpConnection>(*shared_, *std::move(stream), peer, std::make_shared<WebRules>());
      connection_->Start();
    });
  }
  ~Session() {
    loop_.Call([&] {
      // They answer 500, which may let in another request.
      while (!handler_.kept.empty()) const auto dropped = std::exchange(handler_.kept, {});
      handler_.upgraded.clear();
      if (connection_) connection_->Close();
      CHECK(connection_->gone() && shared_->connections.size() == 0);
      CHECK(shared_->arriving == 0 && shared_->stats.connections == 0);
      connection_ = nullptr;
      shared_ = nullptr;
    });
  }

  void Send(std::string_view bytes) {
    if (client_)
      static_cast<void>(::send(client_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    Settle();
  }
  void Read(size_t most) {
    std::string bytes(most, '\0');
    const ssize_t count = client_ ? ::recv(client_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) : 0;
    if (count > 0 && handler_.upgraded.empty()) received_.Take({bytes.data(), static_cast<size_t>(count)});
    Settle();
  }
  void End() { ::shutdown(client_.get(), SHUT_WR), Settle(); }
  void Leave() { client_.reset(), Settle(); }
  void Deadline() {
    OnLoop([&] {
      const Phase phase = connection_->phase();
      if (connection_->gone() || phase == Phase::kWork || phase == Phase::kOpen) return;
      Ref<HttpConnection> self = connection_;
      connection_->OnDeadline(phase);
      CHECK(connection_->gone() || phase == Phase::kRequest);
    });
  }
  void Finish() {
    OnLoop([&] { connection_->FinishAndClose(); });
  }
  void Answer(size_t which, size_t size, bool close) {
    OnLoop([&] {
      if (handler_.kept.empty()) return;
      const auto at = static_cast<ptrdiff_t>(which % handler_.kept.size());
      HttpResponder responder = std::move(handler_.kept[static_cast<size_t>(at)]);
      const int64_t number = handler_.numbers[static_cast<size_t>(at)];
      handler_.kept.erase(handler_.kept.begin() + at);
      handler_.numbers.erase(handler_.numbers.begin() + at);
      CHECK(responder.wanted() == !connection_->gone());
      if (size % 5 != 4) responder.Send(Handler::Made(number, size, close));
    });
  }

  // What holds at any time.
  void Check() {
    loop_.Call([&] {
      CHECK(shared_->connections.size() == (connection_->gone() ? 0u : 1u));
      CHECK(shared_->arriving <= shared_->limits.body_bytes);
      CHECK(handler_.kept.size() <= shared_->limits.pipelined);
      // An answer for each request at most, and one for what is none.
      CHECK(received_.finals() <= handler_.requests + handler_.refused + 1);
    });
  }

 private:
  template <class F>
  void OnLoop(const F& what) {
    loop_.Call([&] { what(); });
    Settle();
  }
  // What is ready is done when the loop has been round a few times.
  void Settle() {
    for (int i = 0; i < 3; ++i) loop_.Call([] {});
  }

  IoLoop& loop_;
  UniqueFd client_;
  Handler handler_;
  std::unique_ptr<HttpShared> shared_;
  Ref<HttpConnection> connection_;
  Received received_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static IoLoop& loop = *[] {
    auto* made = new IoLoop;
    made->Start();
    return made;
  }();
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto byte = [&rest]() -> size_t {
    if (rest.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    return value;
  };
  Session session(loop, {.header_bytes = 1024, .target_bytes = 256, .body_bytes = 1024, .pipelined = 4});
  for (int steps = 0; !rest.empty() && steps < 48; ++steps) {
    const size_t what = byte();
    switch (what % 10) {
      case 0:
      case 1: {
        const std::string_view bytes = rest.substr(0, byte());
        rest.remove_prefix(std::min(rest.size(), bytes.size()));
        session.Send(bytes);
        break;
      }
      case 2: session.Send(kRequests[byte() % std::size(kRequests)]); break;
      case 3: {  // a part of one
        const std::string_view request = kRequests[byte() % std::size(kRequests)];
        session.Send(request.substr(0, byte() % request.size()));
        break;
      }
      case 4: session.Read(1 + byte() * 64); break;
      case 5: session.Deadline(); break;
      case 6: {
        const size_t which = byte(), answer = byte();
        session.Answer(which, answer * 1500, answer % 7 == 0);
        break;
      }
      case 7: session.End(); break;
      case 8: session.Finish(); break;
      default: what > 240 ? session.Leave() : session.Read(1 << 16); break;
    }
    session.Check();
  }
  return 0;
}
