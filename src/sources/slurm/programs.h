// Runs Slurm's programs: with a deadline, bounded output, no shell, and an environment in which they print
// the same everywhere.
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"

namespace gpulens::slurm {

// Any thread may call Run, several at once; it waits for the program, so it is not for the agent's tick.
class Programs {
 public:
  struct Options {
    std::string folder;                            // where they are; empty: in PATH
    Duration timeout = std::chrono::seconds(120);  // of one run; then it is killed
    size_t most_output = size_t{256} << 20;        // of one run
    int stop_fd = -1;                              // readable: runs are given up
  };

  Programs(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}

  // All it printed. Times in it are UTC. kUnavailable: there is no such program, or it was given up;
  // kTimeout, kExhausted: killed; kIo: it failed, with the first words of its complaint.
  Result<std::string> Run(const std::string& program, std::vector<std::string> arguments) const;
  // The same with a shorter time.
  Result<std::string> Run(const std::string& program, std::vector<std::string> arguments,
                          Duration timeout) const;
  // The program's path.
  Result<std::string> Find(const std::string& program) const;

 private:
  const Options options_;
  const Clock& clock_;
};

}  // namespace gpulens::slurm
