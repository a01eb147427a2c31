// The launcher: a process that starts programs for one that may not start any, from a list that is fixed
// when it begins, and reads for it what Landlock hides of other processes.
//
// ChildProcess::Start, RunBounded and the functions of base/process_files.h use it by themselves.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/sandbox/sandbox.h"

namespace gpulens {

// A program that may be started. Arguments may come in any number and order.
struct ProgramRule {
  std::string path = {};                    // absolute, or /proc/self/exe: this program
  std::vector<std::string> arguments = {};  // allowed as they are
  // Allowed with anything behind them that has only letters, digits and ".,:;=@#%+_|-" ("-" not first, no
  // slash): "--interval-ns=". An empty one allows a whole argument of that kind.
  std::vector<std::string> prefixes = {};
  std::vector<std::string> variables =
      {};  // "NAME" or "NAME_": names, or starts, of variables that it gets from us
  std::vector<std::string> devices = {};  // device files that it may use
  bool network = false;                   // whether it may open sockets other than AF_UNIX
  bool confines_itself = false;           // it is this program: it enters its own sandbox
  bool reads_processes = false;           // it may itself request files of processes
  friend bool operator==(const ProgramRule&, const ProgramRule&) = default;
};

struct LauncherOptions {
  SandboxMode mode = SandboxMode::kEnforce;
  std::vector<ProgramRule> programs;
  std::string root = "/";  // of the /proc that is read
};

// Forks the launcher, and lets this process start programs by it from now on. Call it before there are
// threads. It ends with this process, and what it started with it.
Status StartLauncher(LauncherOptions options);

// A pidfd: readable when the launcher has ended, and nothing can be started any more. -1: there is none.
int LauncherEndFd() noexcept;
// Its process; -1: there is none.
int LauncherPid() noexcept;

// In a process that the launcher started with `reads_processes`: lets base/process_files.h use it.
void UseInheritedLauncher();

}  // namespace gpulens
