// http_load PORT PATH CONNECTIONS MILLISECONDS [HEADER…]: GETs one path of 127.0.0.1 over kept-alive
// connections, each with one request in flight, and prints one line of JSON: requests, bytes of bodies,
// and how long answers took. The same client for every server, with as little work as it can do.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/parse.h"

namespace {

using gpulens::ParseInt;
using gpulens::UniqueFd;

constexpr int kReceiveBuffer = 1 << 20;

int64_t NowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

struct Connection {
  UniqueFd socket;
  int64_t sent_ns = 0;
  size_t left = 0;   // bytes of the body still to come
  std::string head;  // of the answer, until it is whole
};

struct Load {
  std::string request;
  std::vector<Connection> connections;
  std::vector<int64_t> latencies_ns;
  uint64_t body_bytes = 0;
  std::string buffer = std::string(256 << 10, '\0');
  std::string error;

  bool Fail(std::string why) {
    error = std::move(why);
    return false;
  }

  bool Connect(Connection& connection, uint16_t port) {
    connection.socket = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int one = 1;
    setsockopt(connection.socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(connection.socket.get(), SOL_SOCKET, SO_RCVBUF, &kReceiveBuffer, sizeof kReceiveBuffer);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(connection.socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0)
      return true;
    return Fail(std::string("connect: ") + std::strerror(errno));
  }

  bool Send(Connection& connection) {
    connection.sent_ns = NowNs();
    ssize_t sent = ::send(connection.socket.get(), request.data(), request.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(request.size())) return true;
    return Fail(std::string("send: ") + std::strerror(errno));
  }

  // The body's length from a whole head; nothing for an answer that is no good.
  static std::optional<size_t> BodyLength(std::string_view head) {
    if (!head.starts_with("HTTP/1.1 200")) return std::nullopt;
    while (!head.empty()) {
      std::string_view line = gpulens::TakeUntil(head, '\n');
      std::string_view name = gpulens::TakeUntil(line, ':');
      if (name.size() == 14 && strncasecmp(name.data(), "Content-Length", 14) == 0)
        return ParseInt<size_t>(gpulens::Trim(line));
    }
    return std::nullopt;
  }

  // Takes what has arrived; sends the next request when the answer is whole.
  bool Receive(Connection& connection) {
    ssize_t got = ::recv(connection.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return true;
    if (got <= 0) return Fail(got == 0 ? "the server closed a connection" : std::strerror(errno));
    std::string_view bytes(buffer.data(), static_cast<size_t>(got));
    if (connection.left == 0) {
      connection.head += bytes;
      size_t end = connection.head.find("\r\n\r\n");
      if (end == std::string::npos) return true;
      auto length = BodyLength(std::string_view(connection.head).substr(0, end));
      if (!length) return Fail("an answer that is not 200 with a Content-Length");
      size_t extra = connection.head.size() - end - 4;
      connection.head.clear();
      body_bytes += *length;
      connection.left = *length - extra;
    } else {
      connection.left -= bytes.size();
    }
    if (connection.left != 0) return true;
    latencies_ns.push_back(NowNs() - connection.sent_ns);
    return Send(connection);
  }

  bool Run(uint16_t port, int64_t span_ns, double& seconds) {
    UniqueFd poller(epoll_create1(EPOLL_CLOEXEC));
    for (Connection& connection : connections) {
      if (!Connect(connection, port)) return false;
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.ptr = &connection;
      epoll_ctl(poller.get(), EPOLL_CTL_ADD, connection.socket.get(), &event);
    }
    int64_t start = NowNs();
    for (Connection& connection : connections) {
      if (!Send(connection)) return false;
    }
    epoll_event events[64];
    while (NowNs() - start < span_ns) {
      int count = epoll_wait(poller.get(), events, 64, 1000);
      if (count == 0) return Fail("no answer within a second");
      for (int i = 0; i < count; ++i) {
        if (!Receive(*static_cast<Connection*>(events[i].data.ptr))) return false;
      }
    }
    seconds = static_cast<double>(NowNs() - start) / 1e9;
    return true;
  }

  double QuantileUs(double q) {
    std::sort(latencies_ns.begin(), latencies_ns.end());
    auto at = static_cast<size_t>(q * static_cast<double>(latencies_ns.size() - 1));
    return static_cast<double>(latencies_ns[at]) / 1000;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: http_load PORT PATH CONNECTIONS MILLISECONDS [HEADER...]\n", stderr);
    return 2;
  }
  auto port = ParseInt<uint16_t>(argv[1]);
  auto connections = ParseInt<uint16_t>(argv[3]);
  auto milliseconds = ParseInt<uint32_t>(argv[4]);
  if (!port || !connections || !milliseconds) {
    std::fputs("http_load: a number was expected\n", stderr);
    return 2;
  }
  Load load;
  load.request = std::string("GET ") + argv[2] + " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  for (int i = 5; i < argc; ++i) load.request += std::string(argv[i]) + "\r\n";
  load.request += "\r\n";
  load.connections.resize(*connections);
  load.latencies_ns.reserve(1 << 20);
  double seconds = 0;
  if (!load.Run(*port, int64_t{*milliseconds} * 1'000'000, seconds) || load.latencies_ns.empty()) {
    std::fprintf(stderr, "http_load: %s\n", load.error.empty() ? "no answer" : load.error.c_str());
    return 1;
  }
  size_t requests = load.latencies_ns.size();
  std::printf(
      "{\"requests\": %zu, \"seconds\": %.6f, \"body_bytes\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, "
      "\"max_us\": %.1f}\n",
      requests, seconds, static_cast<unsigned long long>(load.body_bytes), load.QuantileUs(0.5),
      load.QuantileUs(0.99), load.QuantileUs(1));
  return 0;
}
