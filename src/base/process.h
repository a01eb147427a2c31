// Other programs' code: child processes, started with descriptors or run once with bounds on time and output,
// and shared libraries.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"

namespace gpulens {

// Two connected SOCK_SEQPACKET ends, close-on-exec, non-blocking.
struct SocketPair {
  UniqueFd ours, theirs;
};
Result<SocketPair> MakeSocketPair();

class ProgramStarter;

// A child process. Move-only; the destructor kills (SIGKILL) and reaps it, without waiting for one stuck in
// the kernel. Used by one thread.
class ChildProcess {
 public:
  struct Options {
    std::string program = "/proc/self/exe";
    std::vector<std::string> arguments;         // without argv[0]
    std::vector<std::string> environment;       // added to ours, "KEY=value"
    std::vector<std::pair<int, int>> pass_fds;  // {descriptor here, its number in the child}
  };
  // The child gets SIGKILL when the thread that started it ends (PR_SET_PDEATHSIG); started by the launcher
  // (base/sandbox/launcher.h), when this process ends. The launcher refuses what is not in its list, with
  // kPermissionDenied, and passes only listed variables on.
  static Result<ChildProcess> Start(const Options& options);

  ChildProcess() noexcept = default;
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) noexcept;
  ~ChildProcess();

  pid_t pid() const noexcept { return pid_; }
  // Becomes readable when the child has ended.
  int end_fd() const noexcept { return end_.get(); }
  bool running() const noexcept { return pid_ > 0; }
  void Signal(int signal) noexcept;
  // Reaps the child if it has ended and returns its wait status. Never waits.
  std::optional<int> TryWait() noexcept;

 private:
  pid_t pid_ = -1;
  UniqueFd end_;  // a pidfd; with `by_` a pipe that brings the wait status
  ProgramStarter* by_ = nullptr;
};

// Starts programs for this process. Thread-safe.
class ProgramStarter {
 public:
  struct Started {
    pid_t pid = -1;
    UniqueFd end;  // brings the wait status as an int, then ends; not blocking
  };
  virtual Result<Started> Start(const ChildProcess::Options& options) = 0;
  virtual void Signal(pid_t pid, int signal) noexcept = 0;

 protected:
  ~ProgramStarter() = default;
};
// Used by ChildProcess::Start from then on; null: none. Call it before there are threads.
void StartProgramsBy(ProgramStarter* starter) noexcept;

// "exited with 3" or "killed by signal 9 (Killed)".
std::string DescribeWaitStatus(int status);

struct RunOptions {
  std::string program;  // a path
  std::vector<std::string> arguments;
  Duration timeout = std::chrono::seconds(5);
  size_t most_output = 1u << 20;
  int stop_fd = -1;                      // readable: cancels the run
  std::vector<std::string> environment;  // added to the present one, "KEY=value"; LC_ALL is C
};

struct RunResult {
  Status status;       // ok: it exited with 0
  std::string output;  // all of its stdout, if ok
  ChildProcess stuck;  // running: it was killed, but is stuck in the kernel
};

// Runs a program without input, for at most the timeout and some milliseconds. kTimeout: killed; kExhausted:
// it printed too much; kIo: it failed, with the first line of its stderr; kUnavailable: it cannot be started,
// or `stop_fd` became readable.
RunResult RunBounded(const RunOptions& options, const Clock& clock);

// The path of a program: `name` itself if it has a slash, else in PATH. kUnavailable, or kPermissionDenied
// when it exists but may not be run.
Result<std::string> FindProgram(const std::string& name);
// The same as an absolute path without symbolic links: what a link points to later is not run.
Result<std::string> ResolveProgram(const std::string& name);

struct SharedLibrary {
  void* handle = nullptr;  // for dlsym; never closed
  std::string path;        // the one that opened
};

// Opens the first of `paths` that opens, local to the caller. kPermissionDenied when a file may not be read,
// else kUnavailable; the text is the loader's about the first path.
Result<SharedLibrary> OpenSharedLibrary(std::span<const std::string> paths);

}  // namespace gpulens
