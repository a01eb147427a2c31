// Child processes that talk over a socketpair, what happens when they end, and the memory of this one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/fd.h"

namespace gpulens {

// Two connected SOCK_SEQPACKET ends, close-on-exec, non-blocking.
struct SocketPair {
  UniqueFd ours, theirs;
};
Result<SocketPair> MakeSocketPair();

// A running child. Move-only; the destructor kills (SIGKILL) and reaps what still runs, but never
// waits for a process stuck in the kernel. Used by one thread.
class ChildProcess {
 public:
  struct Options {
    std::string program = "/proc/self/exe";
    std::vector<std::string> arguments;         // without argv[0]
    std::vector<std::string> environment;       // added to ours, "KEY=value"
    std::vector<std::pair<int, int>> pass_fds;  // {our fd, its number in the child}
  };
  // The child gets SIGKILL when our thread that started it ends (PR_SET_PDEATHSIG).
  static Result<ChildProcess> Start(const Options& options);

  ChildProcess() noexcept = default;
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ~ChildProcess();

  pid_t pid() const noexcept { return pid_; }
  // A pidfd that becomes readable when the child ends.
  int pidfd() const noexcept { return pidfd_.get(); }
  bool running() const noexcept { return pid_ > 0; }
  void Signal(int signal) noexcept;
  // The wait status when the child has ended (and is reaped now); nothing while it runs. Never waits.
  std::optional<int> TryWait() noexcept;

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

// "exited with 3" or "killed by signal 9 (Killed)".
std::string DescribeWaitStatus(int status);

// The resident bytes of a process, 0 for this one; those of files that it shares with others only where
// `shared` says so. 0 when they are not known.
uint64_t ResidentBytes(pid_t pid, bool shared);

// For the end of a start: gives back freed memory, and lets go of the pages of the program's file. Code and
// constants that are needed again come back from the page cache at a soft fault each, those that only the
// start needed do not. Thread-safe; other threads go on meanwhile.
void LetGoOfStartPages() noexcept;

}  // namespace gpulens
