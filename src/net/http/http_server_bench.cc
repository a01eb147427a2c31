// Requests over keep-alive connections on the loopback: one client thread, the server's own thread.
#include "net/http/http_server.h"

#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/fd.h"

namespace gpulens {
namespace {

constexpr int kConnections = 64;

struct Site {
  Site() {
    for (size_t size : {1000, 500'000}) {
      auto body = std::make_shared<const std::string>(size, 'x');
      router.Add("/" + std::to_string(size), "GET", [body](const HttpRequest&, HttpResponder responder) {
        HttpResponse response;
        response.content_type = "text/plain; version=0.0.4; charset=utf-8";
        response.body = SharedBytes(body);
        responder.Send(std::move(response));
      });
    }
    loop.Start();
    server = std::make_unique<HttpServer>(loop, router, HttpServer::Options{});
    at = *server->Listen(*ParseListenAddress("127.0.0.1:0"));
  }
  ~Site() { server = nullptr; }
  HttpRouter router;
  IoLoop loop;
  std::unique_ptr<HttpServer> server;
  Endpoint at;
};

void Requests(benchmark::State& state) {
  Site site;
  size_t size = static_cast<size_t>(state.range(0));
  std::string request =
      "GET /" + std::to_string(size) + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n";
  sockaddr_storage address{};
  socklen_t length = site.at.ToSockaddr(address);
  std::vector<UniqueFd> clients;
  std::vector<pollfd> polls;
  std::vector<size_t> got(kConnections, 0);
  for (int i = 0; i < kConnections; ++i) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(clients.back().get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return;
    ::send(clients.back().get(), request.data(), request.size(), 0);
    polls.push_back({clients.back().get(), POLLIN, 0});
  }
  std::vector<char> buffer(1 << 20);
  // Every answer of a size has the same length; that of the first one.
  size_t answer = 0;
  while (answer == 0) {
    ssize_t n = ::recv(clients[0].get(), buffer.data(), buffer.size(), MSG_PEEK);
    std::string_view text(buffer.data(), static_cast<size_t>(n));
    if (size_t end = text.find("\r\n\r\n"); end != std::string_view::npos) answer = end + 4 + size;
  }
  size_t answers = 0;
  for (auto _ : state) {
    size_t before = answers;
    while (answers - before < kConnections) {
      ::poll(polls.data(), polls.size(), 1000);
      for (size_t i = 0; i < polls.size(); ++i) {
        if ((polls[i].revents & POLLIN) == 0) continue;
        got[i] += static_cast<size_t>(::recv(polls[i].fd, buffer.data(), buffer.size(), 0));
        if (got[i] < answer) continue;
        got[i] = 0;
        ++answers;
        ::send(polls[i].fd, request.data(), request.size(), 0);
      }
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(answers));
  state.SetBytesProcessed(static_cast<int64_t>(answers * answer));
}
BENCHMARK(Requests)->Arg(1000)->Arg(500'000)->UseRealTime();

}  // namespace
}  // namespace gpulens
