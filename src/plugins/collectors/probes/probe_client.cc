#include "plugins/collectors/probes/probe_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/result.h"

namespace gpulens::probes {
namespace {

// Waits until the socket is ready. kTimeout, or kUnavailable when `stop_fd` became readable.
Status Await(int socket, short events, int64_t end_ns, int stop_fd) {
  while (true) {
    const int64_t left_ms = (end_ns - RealClock().Now().boot_ns + 999'999) / 1'000'000;
    if (left_ms <= 0) return {Code::kTimeout, "the probe host does not answer"};
    std::array<pollfd, 2> polled{{{socket, events, 0}, {stop_fd, POLLIN, 0}}};
    const int ready =
        ::poll(polled.data(), polled.size(), static_cast<int>(std::min<int64_t>(left_ms, 60'000)));
    if (ready < 0 && errno != EINTR) return ErrnoStatus("poll", errno);
    if (polled[1].revents != 0) return {Code::kUnavailable, "ending"};
    if (polled[0].revents != 0) return Ok();
  }
}

}  // namespace

Result<ProbeClient> ProbeClient::Connect(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof at.sun_path)
    return Status{Code::kInvalidArgument, "no path of a socket: " + path};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoStatus("socket", errno);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED)
      return Status{Code::kUnavailable, "no probe host runs: nothing listens at " + path};
    return ErrnoStatus("connect to " + path, errno);
  }
  return ProbeClient(std::move(socket));
}

Result<ProbeReply> ProbeClient::Send(const ProbeRequest& request, Duration timeout, int stop_fd) {
  const int64_t end_ns = RealClock().Now().boot_ns + timeout.count();
  const std::string line = EncodeRequest(request);
  if (line.size() > kMostRequestBytes) return Status{Code::kInvalidArgument, "a text that is too long"};
  for (size_t written = 0; written < line.size();) {
    const ssize_t count =
        ::send(socket_.get(), line.data() + written, line.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      written += static_cast<size_t>(count);
      continue;
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR)
      return Status{Code::kUnavailable, "the probe host has ended the connection"};
    RETURN_IF_ERROR(Await(socket_.get(), POLLOUT, end_ns, stop_fd));
  }
  std::vector<char> bytes(size_t{64} << 10);
  size_t searched = 0;
  while (true) {
    const size_t end = in_.find('\n', searched);
    if (end != std::string::npos) {
      Result<ProbeReply> reply = DecodeReply(std::string_view(in_).substr(0, end));
      in_.erase(0, end + 1);
      return reply;
    }
    searched = in_.size();
    if (in_.size() > kMostReplyBytes)
      return Status{Code::kExhausted, "the reply of the probe host is too long"};
    RETURN_IF_ERROR(Await(socket_.get(), POLLIN, end_ns, stop_fd));
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0) return Status{Code::kUnavailable, "the probe host has ended the connection"};
    if (count < 0 && errno != EAGAIN && errno != EINTR) return ErrnoStatus("read from the probe host", errno);
    if (count > 0) in_.append(bytes.data(), static_cast<size_t>(count));
  }
}

}  // namespace gpulens::probes
