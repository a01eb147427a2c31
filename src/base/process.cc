#include "base/process.h"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/files.h"
#include "base/parse.h"

extern char** environ;

namespace gpulens {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// All that the child needs, made before the fork.
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

}  // namespace

Result<SocketPair> MakeSocketPair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return ErrnoStatus("socketpair", errno);
  }
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Result<ChildProcess> ChildProcess::Start(const Options& options) {
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program);
  // Ours come first, since getenv takes the first of equal names.
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
  child.pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  if (this != &other) {
    ChildProcess old(std::move(*this));
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
  }
  return *this;
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  Signal(SIGKILL);
  // A killed process is gone within milliseconds unless it is stuck in the kernel (state D):
  // then init reaps it after us.
  for (int i = 0; i < 50 && !TryWait(); ++i) ::usleep(1000);
}

void ChildProcess::Signal(int signal) noexcept {
  if (running()) ::kill(pid_, signal);
}

std::optional<int> ChildProcess::TryWait() noexcept {
  if (!running()) return std::nullopt;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
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

uint64_t ResidentBytes(pid_t pid, bool shared) {
  const auto text = ReadFile("/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/statm", 256);
  if (!text) return 0;
  std::string_view rest = *text;
  TakeUntil(rest, ' ');
  const auto resident = ParseInt<uint64_t>(TakeUntil(rest, ' '));
  const auto of_files = ParseInt<uint64_t>(TakeUntil(rest, ' '));
  if (!resident || !of_files) return 0;
  const uint64_t pages = shared ? *resident : *resident - std::min(*resident, *of_files);
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void LetGoOfStartPages() noexcept {
  ::malloc_trim(0);
  // The first object is the program. What can be written (and what relocation has written) stays.
  auto let_go = [](dl_phdr_info* object, size_t, void*) {
    const auto page = static_cast<uintptr_t>(::getpagesize());
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = object->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
      uintptr_t from = object->dlpi_addr + part.p_vaddr, to = from + part.p_filesz;
      from = (from + page - 1) & ~(page - 1);  // whole pages, none shared with a neighbour
      to &= ~(page - 1);
      if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
    }
    return 1;
  };
  ::dl_iterate_phdr(let_go, nullptr);
}

}  // namespace gpulens
