#include "plugins/collectors/programs/energy_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "plugins/driver_control.h"

namespace gpulens {
namespace {

constexpr int kWaiting = 64;  // that may wait to be let in
constexpr int kLookMs = 500;
// Between two starts: a reader that ends at once is not started all the time.
constexpr int64_t kLeastPauseNs = 1'000'000'000, kLongestPauseNs = 60'000'000'000,
                  kGoodRunNs = 20'000'000'000;

Result<UniqueFd> Listen(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path)
    return Status{Code::kInvalidArgument, "the path of the socket is too long: " + path};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const auto* name = reinterpret_cast<const sockaddr*>(&at);
  // One that another agent has answers; one that was left behind does not.
  UniqueFd querying(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!querying) return ErrnoStatus("socket", errno);
  if (::connect(querying.get(), name, sizeof at) == 0 || errno == EAGAIN)
    return Status{Code::kUnavailable, "another agent listens at " + path};
  if (errno == ECONNREFUSED) ::unlink(path.c_str());
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return ErrnoStatus("socket", errno);
  if (::bind(socket.get(), name, sizeof at) != 0) return ErrnoStatus("bind " + path, errno);
  if (::chmod(path.c_str(), 0666) != 0) return ErrnoStatus("chmod " + path, errno);
  if (::listen(socket.get(), kWaiting) != 0) return ErrnoStatus("listen " + path, errno);
  return socket;
}

int64_t Now() { return RealClock().Now().boot_ns; }

}  // namespace

std::string EnergySocketBeside(const std::string& program_socket) {
  const size_t slash = program_socket.rfind('/');
  return slash == std::string::npos ? std::string() : program_socket.substr(0, slash) + "/energy.sock";
}

Result<std::unique_ptr<EnergySocket>> EnergySocket::Open(Options options) {
  RETURN_IF_ERROR(MakeFoldersAbove(options.path));
  ASSIGN_OR_RETURN(UniqueFd listening, Listen(options.path));
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop) return ErrnoStatus("eventfd", errno);
  std::unique_ptr<EnergySocket> socket(
      new EnergySocket(std::move(options), std::move(listening), std::move(stop)));
  RETURN_IF_ERROR(StartThread(socket->thread_, [watcher = socket.get()] { watcher->Watch(); }));
  return socket;
}

EnergySocket::EnergySocket(Options options, UniqueFd listening, UniqueFd stop)
    : options_(std::move(options)), listening_(std::move(listening)), stop_(std::move(stop)) {}

EnergySocket::~EnergySocket() {
  ::eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
  ::unlink(options_.path.c_str());
}

bool EnergySocket::Released() const {
  if (!options_.control) return false;
  const auto state = options_.control->view().state;
  return state == DriverControl::State::kReleasing || state == DriverControl::State::kReleased;
}

// The reader takes the socket over: it lets in who waits there, and all who come after.
void EnergySocket::Start() {
  ChildProcess::Options start;
  start.program = options_.program;
  start.arguments = {"reader", "energy"};
  // The collector of NVIDIA may say it later than this socket is opened.
  if (options_.simulated || (options_.control && options_.control->view().simulated))
    start.arguments.push_back("--simulated");
  start.arguments.push_back("--listen-fd=" + std::to_string(listening_.get()));
  start.pass_fds = {{listening_.get(), listening_.get()}};
  auto started = ChildProcess::Start(start);
  if (started) reader_ = *std::move(started);
  else Log(LogLevel::kWarn, "programs", "energy_reader", "cannot be started: " + started.error().detail);
}

void EnergySocket::Watch() {
  int64_t pause_ns = kLeastPauseNs, started_ns = Now() - kLeastPauseNs;
  while (true) {
    const bool wants_none = reader_.running() || Released() || Now() - started_ns < pause_ns;
    std::array<pollfd, 3> polled{{{stop_.get(), POLLIN, 0},
                                  {wants_none ? -1 : listening_.get(), POLLIN, 0},
                                  {reader_.running() ? reader_.pidfd() : -1, POLLIN, 0}}};
    if (::poll(polled.data(), polled.size(), kLookMs) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    if (reader_.running() && Released()) reader_.Signal(SIGKILL);
    if (reader_.running() && reader_.TryWait()) {
      const bool good = Now() - started_ns >= kGoodRunNs;
      pause_ns = good ? kLeastPauseNs : std::min(2 * pause_ns, kLongestPauseNs);
    }
    if (polled[1].revents != 0 && !reader_.running()) {
      started_ns = Now();
      Start();
    }
  }
}

}  // namespace gpulens
