#include "net/blocking/blocking_post.h"

#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/files.h"
#include "base/result.h"
#include "net/message/http_parser.h"

namespace gpulens {
namespace {

std::atomic<SecurePost> linked = nullptr;
constexpr size_t kHeadBytes = 16 << 10;

Result<std::vector<Endpoint>> Resolve(const HttpUrl& url) {
  if (auto ip = ParseIp(url.host, url.port)) return std::vector<Endpoint>{*ip};
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  const int error = ::getaddrinfo(url.host.c_str(), nullptr, &hints, &found);
  std::vector<Endpoint> out;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    sockaddr_storage address{};
    std::copy_n(reinterpret_cast<const char*>(one->ai_addr),
                std::min<size_t>(one->ai_addrlen, sizeof address), reinterpret_cast<char*>(&address));
    out.push_back(Endpoint::FromSockaddr(address, one->ai_addrlen));
    out.back().port = url.port;
  }
  if (found) ::freeaddrinfo(found);
  if (out.empty())
    return Status{Code::kUnavailable,
                  "look up " + url.host + ": " + (error ? ::gai_strerror(error) : "no address")};
  return out;
}

}  // namespace

// A deadline and a descriptor that cancels.
class BlockingPost::Wait {
 public:
  Wait(int cut, Duration timeout) : cut_(cut), end_(RealClock().Now() + timeout) {}

  // Until the socket is ready for `events`.
  Status For(int socket, short events) const {
    while (true) {
      const int64_t left_ns = end_.boot_ns - RealClock().Now().boot_ns;
      if (left_ns <= 0) return {Code::kTimeout, "no complete response in time"};
      std::array<pollfd, 2> waits = {pollfd{socket, events, 0}, pollfd{cut_, POLLIN, 0}};
      const auto ms = static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, 3'600'000));
      const int ready = ::poll(waits.data(), waits.size(), ms);
      if (ready < 0 && errno != EINTR) return ErrnoStatus("wait for a socket", errno);
      if (ready > 0 && waits[1].revents) return {Code::kUnavailable, "cancelled"};
      if (ready > 0 && waits[0].revents) return Ok();
    }
  }

 private:
  const int cut_;
  const Instant end_;
};

BlockingPost::BlockingPost() : cut_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
BlockingPost::~BlockingPost() { Close(); }

void BlockingPost::Cut() noexcept {
  const uint64_t one = 1;
  (void)!::write(cut_.get(), &one, sizeof one);
}

void BlockingPost::Close() noexcept {
  const int socket = socket_.exchange(-1);
  if (socket >= 0) ::close(socket);
}

void BlockingPost::LeaveBehind() noexcept {
  Close();
  if (cut_) ::close(cut_.get());
}

Status BlockingPost::Connect(const Request& request, const Wait& wait) {
  std::vector<Endpoint> addresses;
  if (request.unix_socket.empty()) {
    ASSIGN_OR_RETURN(addresses, Resolve(request.url));
  } else {
    addresses.emplace_back().family = Endpoint::Family::kUnix;
    addresses.back().path = request.unix_socket;
  }
  Status last{Code::kUnavailable, "no address"};
  for (const Endpoint& to : addresses) {
    sockaddr_storage address{};
    const socklen_t size = to.ToSockaddr(address);
    if (size == 0) return {Code::kInvalidArgument, to.path + " is too long for a socket"};
    const int socket = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket < 0) return ErrnoStatus("make a socket", errno);
    socket_ = socket;
    int code = 0;
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
      code = errno;
      if (code == EINPROGRESS) {
        RETURN_IF_ERROR(wait.For(socket, POLLOUT));
        socklen_t code_size = sizeof code;
        ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &code_size);
      }
    }
    if (code == 0) return Ok();
    // EAGAIN: the queue of a Unix socket is full.
    last = ErrnoStatus("connect to " + to.ToString(), code);
    if (code == ECONNREFUSED || code == EAGAIN) last.code = Code::kUnavailable;
    Close();
  }
  return last;
}

Status BlockingPost::Write(std::string_view bytes, const Wait& wait) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      RETURN_IF_ERROR(wait.For(socket_, POLLOUT));
    } else if (errno != EINTR) {
      // An early refusal: the response can still be read.
      if (errno == EPIPE || errno == ECONNRESET) return Ok();
      return ErrnoStatus("send", errno);
    }
  }
  return Ok();
}

Result<BlockingReply> BlockingPost::Read(const Request& request, const Wait& whole, Duration timeout) {
  const bool pieces = request.on_body != nullptr;
  HttpResponseParser parser(
      {.head_bytes = kHeadBytes, .body_bytes = pieces ? SIZE_MAX / 2 : request.most_bytes});
  HttpResponseParser::State state = HttpResponseParser::State::kMore;
  std::optional<Wait> wait(whole);
  std::array<char, 16 << 10> bytes;
  while (state == HttpResponseParser::State::kMore) {
    RETURN_IF_ERROR(wait->For(socket_, POLLIN));
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return ErrnoStatus("receive", errno);
    size_t consumed = 0;
    if (count > 0) state = parser.Feed({bytes.data(), static_cast<size_t>(count)}, consumed);
    else state = parser.End();
    if (!pieces || !parser.head_done()) continue;
    wait.emplace(cut_.get(), timeout);
    if (parser.status() / 100 == 2) {
      if (!parser.body().empty() && !request.on_body(parser.body()))
        return Status{Code::kUnavailable, "cancelled"};
      parser.body().clear();
    } else if (parser.body().size() > request.most_bytes) {
      break;
    }
  }
  // The body of a refusal may be incomplete.
  const bool done = state == HttpResponseParser::State::kDone;
  if (!done && (!parser.head_done() || (pieces && parser.status() / 100 == 2)))
    return Status{Code::kDataLoss, parser.why()};
  return BlockingReply{parser.status(), parser.content_type(), std::move(parser.body()),
                       parser.retry_after()};
}

Result<BlockingReply> BlockingPost::Send(const Request& request, Duration timeout) {
  CHECK(!request.url.tls);
  if (!cut_) return Status{Code::kExhausted, "no file descriptor is left"};
  const Wait wait(cut_.get(), timeout);
  std::string head = "POST " + request.url.target + " HTTP/1.1\r\nHost: " + request.url.Authority() + "\r\n";
  head += request.headers;
  head += "Content-Length: " + std::to_string(request.body.size()) + "\r\nConnection: close\r\n\r\n";
  Status sent = Connect(request, wait);
  if (sent) sent = Write(head, wait);
  if (sent) sent = Write(request.body, wait);
  Result<BlockingReply> reply = sent ? Read(request, wait, timeout) : Result<BlockingReply>(std::move(sent));
  Close();
  return reply;
}

SecurePost LinkedSecurePost() noexcept { return linked.load(std::memory_order_acquire); }
void SetSecurePost(SecurePost post) noexcept { linked.store(post, std::memory_order_release); }

}  // namespace gpulens
