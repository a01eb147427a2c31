// Runs Slurm's programs: with a timeout, bounded output, no shell, and an environment that fixes their
// formats; and makes delimiters for their tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/sandbox/launcher.h"

namespace gpulens::slurm {

// Thread-safe. Run waits for the program, so it is not for the agent's tick.
class SlurmPrograms {
 public:
  struct Options {
    std::string folder;                            // of the programs; empty: in PATH
    Duration timeout = std::chrono::seconds(120);  // of one run; then it is killed
    size_t most_output = size_t{256} << 20;        // of one run
    int stop_fd = -1;                              // readable: runs are given up
  };

  SlurmPrograms(Options options, const Clock& clock) : options_(std::move(options)), clock_(clock) {}

  // The program's output, with times in UTC. kUnavailable: there is no such program, or it was given up;
  // kTimeout, kExhausted: killed; kIo: it failed, with the first words of its error output. `timeout` may
  // shorten that of the options.
  Result<std::string> Run(const std::string& program, std::vector<std::string> arguments,
                          Duration timeout = Duration::max()) const;
  // The program's path.
  Result<std::string> Find(const std::string& program) const;

 private:
  const Options options_;
  const Clock& clock_;
};

// Lets a program of Slurm's be run with these: see ProgramRule. Adds nothing where it is not on this machine.
void AllowProgram(const std::string& folder, const std::string& program, std::vector<std::string> arguments,
                  std::vector<std::string> prefixes, std::vector<ProgramRule>& out);

// What a job's number, "12" or "12_3", or a time may begin with: prefixes of AllowProgram.
std::vector<std::string> Digits();

// The beginning of every delimiter.
inline constexpr std::string_view kDelimiterStart = "|#";

// A new delimiter for the columns of one run, so that no text of a user (a job's name, comment, account) can
// hold it: kDelimiterStart and 12 random letters and digits (71 bits), which -O, -o and --delimiter take
// literally. Thread-safe.
std::string MakeDelimiter();

}  // namespace gpulens::slurm
