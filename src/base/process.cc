#include "base/process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

extern char** environ;

namespace gpulens {
namespace {

ProgramStarter* program_starter = nullptr;  // set before there are threads

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Arguments of the child, prepared before the fork.
struct Launch {
  const char* program;
  char* const* argv;
  char* const* envp;
  const std::pair<int, int>* fds;
  size_t fd_count;
};

// Runs in the child between fork and exec: async-signal-safe calls only.
[[noreturn]] void BecomeProgram(const Launch& launch, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // The parent ended before PDEATHSIG was set.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (size_t i = 0; i < launch.fd_count; ++i) {
    if (launch.fds[i].first == launch.fds[i].second) {
      ::fcntl(launch.fds[i].second, F_SETFD, 0);
    } else if (::dup2(launch.fds[i].first, launch.fds[i].second) < 0) {
      ::_exit(127);
    }
  }
  ::execve(launch.program, launch.argv, launch.envp);
  ::_exit(127);
}

constexpr size_t kMostComplaint = 4096, kShownComplaint = 200;
// A killed process ends at once, unless it is stuck in the kernel.
constexpr Duration kDeathTimeout = std::chrono::milliseconds(200);

struct Pipe {
  UniqueFd ours, theirs;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
  Pipe pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
  ::fcntl(pipe.ours.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// Reads what is available; closes `from` at the end of the stream. False: more than `most` in all.
bool Drain(UniqueFd& from, std::string& into, size_t most) {
  char buffer[16384];
  while (from) {
    ssize_t got = ::read(from.get(), buffer, sizeof buffer);
    if (got > 0) {
      if (into.size() + static_cast<size_t>(got) > most) return false;
      into.append(buffer, static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0 || errno != EAGAIN) from.reset();
    break;
  }
  return true;
}

std::string FirstLine(std::string_view complaint, std::string_view printed) {
  std::string_view text = Trim(complaint).empty() ? Trim(printed) : Trim(complaint);
  std::string out;
  AppendPrintable(out, TakeUntil(text, '\n').substr(0, kShownComplaint));
  return out.empty() ? out : ": " + out;
}

// Milliseconds to wait, at least 1 while there is time left.
int PollTime(Duration left) {
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(ms, 1, 60'000));
}

void Kill(ChildProcess& child, const Clock& clock) {
  child.Signal(SIGKILL);
  Instant end = clock.Now() + kDeathTimeout;
  while (!child.TryWait() && child.running() && (end - clock.Now()).count() > 0) {
    struct pollfd fd = {child.end_fd(), POLLIN, 0};
    ::poll(&fd, child.end_fd() >= 0 ? 1 : 0, 10);
  }
}

// A running program and its output so far.
struct ProgramRun {
  ChildProcess child;
  UniqueFd out, err;
  std::string printed, complaint;
  int wait_status = 0;
};

// Reads until the program has ended and closed its output, or must be killed.
Status Follow(const RunOptions& options, const Clock& clock, ProgramRun& run) {
  const Instant end = clock.Now() + options.timeout;
  bool ended = false;
  for (;;) {
    if (!Drain(run.out, run.printed, options.most_output)) {
      return {Code::kExhausted, "printed more than " + std::to_string(options.most_output) + " bytes"};
    }
    // The first part of stderr suffices.
    if (!Drain(run.err, run.complaint, kMostComplaint)) run.err.reset();
    if (auto status = run.child.TryWait()) {
      run.wait_status = *status;
      ended = true;
    }
    if (ended && !run.out) return Ok();
    Duration left = end - clock.Now();
    if (left.count() <= 0) return {Code::kTimeout, "did not finish in time and was killed"};
    struct pollfd fds[] = {{run.out.get(), POLLIN, 0},
                           {run.err.get(), POLLIN, 0},
                           {ended ? -1 : run.child.end_fd(), POLLIN, 0},
                           {options.stop_fd, POLLIN, 0}};
    ::poll(fds, std::size(fds), PollTime(left));
    if (options.stop_fd >= 0 && (fds[3].revents & POLLIN)) return {Code::kUnavailable, "was cancelled"};
  }
}

}  // namespace

Result<SocketPair> MakeSocketPair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return ErrnoStatus("socketpair", errno);
  }
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void StartProgramsBy(ProgramStarter* starter) noexcept { program_starter = starter; }

Result<ChildProcess> ChildProcess::Start(const Options& options) {
  if (program_starter) {
    ASSIGN_OR_RETURN(ProgramStarter::Started started, program_starter->Start(options));
    ChildProcess child;
    child.pid_ = started.pid;
    child.end_ = std::move(started.end);
    child.by_ = program_starter;
    return child;
  }
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program);
  // The given ones first, since getenv takes the first of equal names.
  std::vector<std::string> environment = options.environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  std::vector<char*> argv = Pointers(arguments);
  std::vector<char*> envp = Pointers(environment);
  pid_t parent = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) return ErrnoStatus("fork", errno);
  if (pid == 0) {
    BecomeProgram(
        {options.program.c_str(), argv.data(), envp.data(), options.pass_fds.data(), options.pass_fds.size()},
        parent);
  }
  ChildProcess child;
  child.pid_ = pid;
  child.end_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), end_(std::move(other.end_)), by_(other.by_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    ChildProcess old(std::move(*this));
    pid_ = std::exchange(other.pid_, -1);
    end_ = std::move(other.end_);
    by_ = other.by_;
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  Signal(SIGKILL);
  // Unless it is stuck in the kernel (state D), when init reaps it later.
  for (int i = 0; i < 50 && !TryWait(); ++i) ::usleep(1000);
}

void ChildProcess::Signal(int signal) noexcept {
  if (!running()) return;
  if (by_) by_->Signal(pid_, signal);
  else ::kill(pid_, signal);
}

std::optional<int> ChildProcess::TryWait() noexcept {
  if (!running()) return std::nullopt;
  int status = 0;
  if (by_) {
    const ssize_t size = ::read(end_.get(), &status, sizeof status);
    if (size < 0) return std::nullopt;
    // The launcher has ended, and what it started with it.
    if (size != sizeof status) status = SIGKILL;
  } else if (::waitpid(pid_, &status, WNOHANG) != pid_) {
    return std::nullopt;
  }
  pid_ = -1;
  return status;
}

std::string DescribeWaitStatus(int status) {
  if (WIFEXITED(status)) return "exited with " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status)) {
    int signal = WTERMSIG(status);
    const char* name = ::sigdescr_np(signal);
    return "killed by signal " + std::to_string(signal) + " (" + (name ? name : "unknown") + ")";
  }
  return "ended";
}

RunResult RunBounded(const RunOptions& options, const Clock& clock) {
  RunResult result;
  auto out = MakePipe(), err = MakePipe();
  UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!out || !err || !nothing) {
    result.status = !out ? out.error() : !err ? err.error() : ErrnoStatus("open /dev/null", errno);
    return result;
  }
  ChildProcess::Options start;
  start.program = options.program;
  start.arguments = options.arguments;
  start.environment = options.environment;
  start.environment.push_back("LC_ALL=C");
  start.pass_fds = {{nothing.get(), 0}, {out->theirs.get(), 1}, {err->theirs.get(), 2}};
  auto child = ChildProcess::Start(start);
  if (!child) {
    result.status = child.error();
    return result;
  }
  out->theirs.reset();
  err->theirs.reset();
  ProgramRun run{std::move(*child), std::move(out->ours), std::move(err->ours), {}, {}};
  result.status = Follow(options, clock, run);
  if (!result.status) {
    Kill(run.child, clock);
    if (run.child.running()) result.stuck = std::move(run.child);
  } else if (run.wait_status != 0) {
    std::string words = FirstLine(run.complaint, run.printed);
    result.status = {Code::kIo, DescribeWaitStatus(run.wait_status) + words};
  } else {
    result.output = std::move(run.printed);
  }
  return result;
}

Result<std::string> FindProgram(const std::string& name) {
  bool forbidden = false;
  auto usable = [&](const std::string& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
    if (::access(path.c_str(), X_OK) == 0) return true;
    forbidden = true;
    return false;
  };
  if (name.find('/') != std::string::npos) {
    if (usable(name)) return name;
  } else if (const char* path = std::getenv("PATH"); path && !name.empty()) {
    for (std::string_view rest = path; !rest.empty();) {
      std::string candidate(TakeUntil(rest, ':'));
      candidate += "/" + name;
      if (usable(candidate)) return candidate;
    }
  }
  if (forbidden) return Status{Code::kPermissionDenied, name + " cannot be executed by this user"};
  return Status{Code::kUnavailable, "there is no program " + name};
}

Result<std::string> ResolveProgram(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string found, FindProgram(name));
  const std::unique_ptr<char, decltype(&std::free)> path(::realpath(found.c_str(), nullptr), &std::free);
  if (!path) return ErrnoStatus("find " + found, errno);
  return std::string(path.get());
}

Result<SharedLibrary> OpenSharedLibrary(std::span<const std::string> paths) {
  std::string first_error;
  bool denied = false;
  for (const std::string& path : paths) {
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return SharedLibrary{handle, path};
    const char* error = ::dlerror();
    if (first_error.empty()) first_error = error ? error : "cannot be opened";
    const bool is_file = path.find('/') != std::string::npos;
    if (is_file && ::access(path.c_str(), R_OK) != 0 && errno == EACCES) denied = true;
  }
  if (denied) return Status{Code::kPermissionDenied, first_error};
  return Status{Code::kUnavailable, "library not found: " + first_error};
}

}  // namespace gpulens
