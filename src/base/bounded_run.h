// One run of a program whose output is wanted and which may hang, print without end, or never die.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"

namespace gpulens {

struct RunOptions {
  std::string program;  // a path
  std::vector<std::string> arguments;
  Duration timeout = std::chrono::seconds(5);
  size_t most_output = 1u << 20;
  int stop_fd = -1;                      // readable: the run is given up
  std::vector<std::string> environment;  // added to ours, "KEY=value"; LC_ALL is C
};

struct RunResult {
  Status status;       // ok: it exited with 0 and `output` is all it printed
  std::string output;  // of a run that was ok
  ChildProcess stuck;  // running: it was killed and is still there, stuck in the kernel
};

// Waits at most the timeout and some milliseconds more. kTimeout: killed; kExhausted: it printed too much;
// kIo: it ended with another code or a signal, with the first words of its complaint; kUnavailable: it
// cannot be started, or `stop_fd` became readable. The program gets no input.
RunResult RunBounded(const RunOptions& options, const Clock& clock);

// Where a program of this name is: itself when it has a slash, else in the folders of PATH. kUnavailable, or
// kPermissionDenied when it is there and may not be run.
Result<std::string> FindProgram(const std::string& name);

}  // namespace gpulens
