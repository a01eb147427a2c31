#include "cli/run/child_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/fd.h"
#include "base/files.h"
#include "base/process.h"
#include "base/result.h"

namespace gpulens {
namespace {

constexpr int kHanded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
constexpr size_t kOutputPiece = 64 << 10;
// How long output is waited for after the child has ended: processes that it left behind may hold its end.
constexpr int kLingerMs = 500;

sigset_t HandedSignals(bool with_pipe) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : kHanded) sigaddset(&signals, signal);
  if (with_pipe) sigaddset(&signals, SIGPIPE);
  return signals;
}

struct Pipe {
  UniqueFd read, write;
};
Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// False: nobody reads it any more.
bool PassOn(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // a terminal that somebody has made so
      pollfd room{fd, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

class Pump {
 public:
  Pump(const ChildRun& run, ChildProcess child, Pipe out, Pipe error, UniqueFd signals)
      : run_(run), child_(std::move(child)), signals_(std::move(signals)), piece_(kOutputPiece, '\0') {
    streams_[0] = std::move(out.read);
    streams_[1] = std::move(error.read);
  }

  int Run() {
    std::optional<int> status;
    while (streams_[0] || streams_[1] || !status) {
      // A closed descriptor is -1, which poll skips.
      pollfd waiting[] = {{streams_[0].get(), POLLIN, 0},
                          {streams_[1].get(), POLLIN, 0},
                          {signals_.get(), POLLIN, 0},
                          {status ? -1 : child_.pidfd(), POLLIN, 0}};
      int ready = ::poll(waiting, 4, status ? kLingerMs : -1);
      if (ready == 0) break;
      if (ready < 0) continue;
      for (int i = 0; i < 2; ++i) {
        if (waiting[i].revents != 0) Read(i);
      }
      if (waiting[2].revents != 0) HandOn();
      if (!status && waiting[3].revents != 0) status = child_.TryWait();
    }
    return *status;
  }

 private:
  void Read(int stream) {
    UniqueFd& from = streams_[static_cast<size_t>(stream)];
    ssize_t got = ::read(from.get(), piece_.data(), piece_.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return from.reset();
    const std::string_view bytes(piece_.data(), static_cast<size_t>(got));
    const bool passed = PassOn(stream + 1, bytes);
    run_.on_output(stream + 1, bytes);
    if (!passed) from.reset();
  }

  void HandOn() {
    signalfd_siginfo info{};
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) return;
    // Ctrl-C of a terminal has reached the child, too: it is of our process group.
    const bool from_terminal = info.ssi_code == SI_KERNEL;
    if (!from_terminal) child_.Signal(static_cast<int>(info.ssi_signo));
  }

  const ChildRun& run_;
  ChildProcess child_;
  UniqueFd streams_[2], signals_;
  std::string piece_;
};

}  // namespace

void BlockHandedSignals() {
  const sigset_t signals = HandedSignals(true);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Result<int> RunChild(const ChildRun& run) {
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe error, MakePipe());
  const sigset_t handed = HandedSignals(false);
  UniqueFd signals(::signalfd(-1, &handed, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return ErrnoStatus("signalfd", errno);
  ChildProcess::Options options;
  options.program = run.program;
  options.arguments = run.arguments;
  options.pass_fds = {{out.write.get(), 1}, {error.write.get(), 2}};
  ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(options));
  out.write.reset(), error.write.reset();
  return Pump(run, std::move(child), std::move(out), std::move(error), std::move(signals)).Run();
}

}  // namespace gpulens
