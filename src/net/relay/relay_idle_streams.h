// Measures what an idle stream costs a relay: clients and upstream are another process.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "net/relay/relay_server.h"

namespace gpulens::testing {

struct IdleStreams {
  size_t streams = 0;
  double bytes_each = 0;  // of resident memory
};

// Bytes of this process in memory.
inline double ResidentBytes() {
  const std::string text = ReadFile("/proc/self/statm", 4096).value_or("");
  std::string_view rest = text;
  TakeUntil(rest, ' ');
  return static_cast<double>(ParseInt<int64_t>(TakeUntil(rest, ' ')).value_or(0)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// The other side: `count` streams through the relay at `relay`, each with a head and one event.
inline void HoldStreams(int listener, const Endpoint& relay, size_t count) {
  std::vector<UniqueFd> open;
  sockaddr_storage address{};
  const socklen_t size = relay.ToSockaddr(address);
  char buffer[4096];
  for (size_t i = 0; i < count; ++i) {
    UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) ::_exit(2);
    const std::string request =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: relay\r\nAuthorization: Bearer " + std::string(60, 'k') +
        "\r\nUser-Agent: OpenAI/Python 1.0\r\nAccept: application/json\r\nContent-Length: 2000\r\n\r\n" +
        std::string(2000, 'b');
    static_cast<void>(!::send(client.get(), request.data(), request.size(), MSG_NOSIGNAL));
    UniqueFd upstream(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    std::string got;
    while (got.size() < 2000) {
      const ssize_t n = ::recv(upstream.get(), buffer, sizeof buffer, 0);
      if (n <= 0) ::_exit(3);
      got.append(buffer, static_cast<size_t>(n));
    }
    const std::string answer =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: "
        "x\n\n\r\n";
    static_cast<void>(!::send(upstream.get(), answer.data(), answer.size(), MSG_NOSIGNAL));
    if (::recv(client.get(), buffer, sizeof buffer, 0) <= 0) ::_exit(4);
    open.push_back(std::move(client));
    open.push_back(std::move(upstream));
  }
  // Until the pipe of the parent ends.
  static_cast<void>(!::write(4, "r", 1));
  static_cast<void>(!::read(3, buffer, 1));
  ::_exit(0);
}

// Forks: call it while this process has one thread. Fewer streams where descriptors do not suffice.
inline IdleStreams MeasureIdleStreams(RelayPolicy& policy, Ref<UpstreamPool>& upstream, size_t count) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  rlimit more{2 * count + 500, std::max<rlim_t>(files.rlim_max, 2 * count + 500)};
  if (::setrlimit(RLIMIT_NOFILE, &more) != 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    count = std::min<size_t>(count, (files.rlim_max - 500) / 2);
  }
  UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage address{};
  socklen_t size = ParseListenAddress("127.0.0.1:0")->ToSockaddr(address);
  CHECK(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(listener.get(), 512) == 0);
  size = sizeof address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const Endpoint at = Endpoint::FromSockaddr(address, size);
  // The relay's socket is bound before the fork, so that both know its port.
  UniqueFd relay(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  size = ParseListenAddress("127.0.0.1:0")->ToSockaddr(address);
  CHECK(::bind(relay.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  CHECK(::listen(relay.get(), 512) == 0);
  size = sizeof address;
  ::getsockname(relay.get(), reinterpret_cast<sockaddr*>(&address), &size);
  const Endpoint relay_at = Endpoint::FromSockaddr(address, size);
  int stop[2], ready[2];
  CHECK(::pipe(stop) == 0 && ::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const int listening = ::dup(listener.get());
    const int high_stop = ::fcntl(stop[0], F_DUPFD, 100), high_ready = ::fcntl(ready[1], F_DUPFD, 100);
    const int high_listener = ::fcntl(listening, F_DUPFD, 100);
    ::dup2(high_stop, 3);
    ::dup2(high_ready, 4);
    for (int fd = 5; fd < 100; ++fd) ::close(fd);
    HoldStreams(high_listener, relay_at, count);
  }
  ::close(stop[0]);
  ::close(ready[1]);
  IdleStreams result;
  {
    IoLoop loop;
    auto server = std::make_unique<RelayServer>(loop, policy, RelayOptions{});
    UpstreamOptions options;
    options.url = *ParseHttpUrl("http://" + at.ToString());
    options.max_connections = count + 10;
    upstream = MakeRef<UpstreamPool>(loop, std::move(options));
    const double before = ResidentBytes();
    loop.Start();
    CHECK(server->Listen(std::move(relay)).ok());
    char byte;
    const bool held = ::read(ready[0], &byte, 1) == 1;
    loop.Call([&] {
      result.streams = held ? server->stats().streams.load() : 0;
      result.bytes_each =
          (ResidentBytes() - before) / static_cast<double>(std::max<size_t>(result.streams, 1));
    });
    ::close(stop[1]);
    ::close(ready[0]);
    ::waitpid(child, nullptr, 0);
    server = nullptr;
    loop.Call([&upstream] { upstream = nullptr; });
  }
  return result;
}

}  // namespace gpulens::testing
