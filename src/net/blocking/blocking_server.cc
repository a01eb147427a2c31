#include "net/blocking/blocking_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/files.h"
#include "base/result.h"
#include "net/blocking/listening_socket.h"
#include "net/message/http_parser.h"
#include "net/message/request_origin.h"

namespace gpulens {
namespace {

// Reading goes on after the response, so that it arrives before a reset.
constexpr Duration kLinger = std::chrono::seconds(1);
// Pause when descriptors or memory are exhausted.
constexpr int kAcceptAgainMs = 100;

HttpLimits ParserLimits() {
  HttpLimits limits;
  limits.body_bytes = 0;
  return limits;
}

int64_t NowNs() { return RealClock().Now().boot_ns; }

}  // namespace

struct BlockingServer::Client {
  enum class Phase : uint8_t { kReading, kWriting, kLingering, kOver };
  explicit Client(UniqueFd fd) : socket(std::move(fd)), parser(ParserLimits()) {}

  void Enter(Phase next, int64_t until_ns) {
    phase = next;
    end_ns = until_ns;
  }

  UniqueFd socket;
  HttpParser parser;
  std::string unparsed, head;
  SharedBytes body;
  size_t sent = 0;
  Phase phase = Phase::kReading;
  int64_t end_ns = 0;
};

BlockingServer::BlockingServer(UniqueFd listening, UniqueFd stop, Endpoint at, Page page,
                               const Limits& limits)
    : listening_(std::move(listening)),
      stop_(std::move(stop)),
      at_(std::move(at)),
      page_(std::move(page)),
      limits_(limits) {}
BlockingServer::~BlockingServer() = default;

Result<std::unique_ptr<BlockingServer>> BlockingServer::Open(const Endpoint& at, Page page,
                                                             const Limits& limits) {
  ASSIGN_OR_RETURN(UniqueFd listening, OpenListeningSocket(at));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return ErrnoStatus("make an eventfd", errno);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return ErrnoStatus("get the address of a socket", errno);
  return std::unique_ptr<BlockingServer>(new BlockingServer(
      std::move(listening), std::move(stop), Endpoint::FromSockaddr(address, size), std::move(page), limits));
}

void BlockingServer::Stop() noexcept {
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof one);
}

void BlockingServer::LeaveBehind() noexcept {
  for (const auto& client : clients_) ::close(client->socket.get());
  ::close(listening_.get());
  ::close(stop_.get());
}

void BlockingServer::Serve() {
  std::vector<pollfd> waits;
  bool rests = false;
  while (true) {
    waits.assign({{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}});
    // When full, new clients wait in the kernel's queue.
    if (rests || Full()) waits[1].fd = -1;
    int64_t end_ns = INT64_MAX;
    for (const auto& client : clients_) {
      const bool writes = client->phase == Client::Phase::kWriting;
      waits.push_back({client->socket.get(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
      end_ns = std::min(end_ns, client->end_ns);
    }
    int ms = rests ? kAcceptAgainMs : -1;
    if (end_ns != INT64_MAX) {
      const int64_t left = std::clamp<int64_t>((end_ns - NowNs()) / 1'000'000 + 1, 0, 3'600'000);
      ms = rests ? std::min(ms, static_cast<int>(left)) : static_cast<int>(left);
    }
    if (::poll(waits.data(), waits.size(), ms) < 0 && errno != EINTR) return;
    rests = false;
    if (waits[0].revents) return;
    const int64_t now_ns = NowNs();
    for (size_t i = 2; i < waits.size(); ++i) {
      Client& client = *clients_[i - 2];
      if (waits[i].revents) Turn(client, now_ns);
      else if (now_ns >= client.end_ns) client.phase = Client::Phase::kOver;
    }
    std::erase_if(clients_, [](const auto& client) { return client->phase == Client::Phase::kOver; });
    if (waits[1].revents) {
      const size_t before = clients_.size();
      Accept(now_ns);
      rests = clients_.size() == before;
    }
  }
}

bool BlockingServer::Full() const noexcept {
  return clients_.size() >= limits_.connections && std::ranges::all_of(clients_, [](const auto& client) {
           return client->phase == Client::Phase::kWriting;
         });
}

void BlockingServer::Accept(int64_t now_ns) {
  if (Full()) return;
  UniqueFd socket(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;
  if (clients_.size() >= limits_.connections) {
    // Closes, of the clients that are not being answered, the one closest to its deadline.
    const auto goes = std::ranges::min_element(clients_, {}, [](const auto& client) {
      return client->phase == Client::Phase::kWriting ? INT64_MAX : client->end_ns;
    });
    clients_.erase(goes);
  }
  clients_.push_back(std::make_unique<Client>(std::move(socket)));
  clients_.back()->end_ns = now_ns + limits_.request.count();
}

void BlockingServer::Turn(Client& client, int64_t now_ns) {
  using Phase = Client::Phase;
  if (client.phase == Phase::kReading && !Read(client, now_ns)) client.phase = Phase::kOver;
  // The response often fits at once.
  if (client.phase == Phase::kWriting && !Write(client, now_ns)) client.phase = Phase::kOver;
  if (client.phase != Phase::kLingering) return;
  std::array<char, 4096> rest;
  const ssize_t count = ::recv(client.socket.get(), rest.data(), rest.size(), 0);
  if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) client.phase = Phase::kOver;
}

bool BlockingServer::Read(Client& client, int64_t now_ns) {
  std::array<char, 4096> bytes;
  const ssize_t count = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  client.unparsed.append(bytes.data(), static_cast<size_t>(count));
  const HttpParser::Step step = client.parser.Feed(client.unparsed);
  client.unparsed.erase(0, step.consumed);
  if (step.state == HttpParser::State::kMore) return true;
  if (step.state == HttpParser::State::kRejected) {
    Answer(client, HttpResponse::Text(step.status, std::string(step.why)), false, now_ns);
    return true;
  }
  const HttpRequest& request = client.parser.request();
  const bool head = request.method() == "HEAD";
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  ::getsockname(client.socket.get(), reinterpret_cast<sockaddr*>(&local), &size);
  const OriginCheck check = CheckOrigin(
      OriginOf(request), {.arrival = ArrivalAt(Endpoint::FromSockaddr(local, size)), .open = true});
  if (check != OriginCheck::kAllowed) {
    Answer(client, HttpResponse::Text(403, std::string(OriginRefusal(check))), head, now_ns);
    return true;
  }
  if (!head && request.method() != "GET") {
    HttpResponse refusal = HttpResponse::Text(405, "Only GET and HEAD are served here.");
    refusal.AddHeader("Allow", "GET, HEAD");
    Answer(client, std::move(refusal), false, now_ns);
  } else {
    Answer(client, page_(request), head, now_ns);
  }
  return true;
}

void BlockingServer::Answer(Client& client, HttpResponse response, bool head_only, int64_t now_ns) {
  client.head = HttpHead(response, "X-Content-Type-Options: nosniff\r\n", "Connection: close\r\n");
  if (!head_only && HttpHasBody(response.status)) client.body = std::move(response.body);
  client.Enter(Client::Phase::kWriting, now_ns + limits_.answer.count());
}

bool BlockingServer::Write(Client& client, int64_t now_ns) {
  while (client.sent < client.head.size() + client.body.bytes.size()) {
    const bool in_head = client.sent < client.head.size();
    const std::string_view rest = in_head ? std::string_view(client.head).substr(client.sent)
                                          : client.body.bytes.substr(client.sent - client.head.size());
    const int more = in_head && !client.body.bytes.empty() ? MSG_MORE : 0;
    const ssize_t sent = ::send(client.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | more);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<size_t>(sent);
  }
  ::shutdown(client.socket.get(), SHUT_WR);
  client.Enter(Client::Phase::kLingering, now_ns + kLinger.count());
  return true;
}

}  // namespace gpulens
