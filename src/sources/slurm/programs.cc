#include "sources/slurm/programs.h"

#include <sys/random.h>

#include <algorithm>

#include "base/check.h"
#include "base/process.h"
#include "base/result.h"

namespace gpulens::slurm {
namespace {

Result<std::string> PathOf(const std::string& folder, const std::string& program) {
  return ResolveProgram(folder.empty() ? program : folder + "/" + program);
}

}  // namespace

Result<std::string> SlurmPrograms::Find(const std::string& program) const {
  return PathOf(options_.folder, program);
}

Result<std::string> SlurmPrograms::Run(const std::string& program, std::vector<std::string> arguments,
                                       Duration timeout) const {
  ASSIGN_OR_RETURN(std::string path, Find(program));
  RunOptions run;
  run.program = std::move(path);
  run.arguments = std::move(arguments);
  run.timeout = std::min(timeout, options_.timeout);
  run.most_output = options_.most_output;
  run.stop_fd = options_.stop_fd;
  // Without a zone in what they print, times are read as UTC; a format of the user's own would be any text.
  run.environment = {"TZ=UTC", "SLURM_TIME_FORMAT=standard"};
  RunResult result = RunBounded(run, clock_);
  if (result.status) return std::move(result.output);
  result.status.detail = program + " " + result.status.detail;
  return std::move(result.status);
}

void AllowProgram(const std::string& folder, const std::string& program, std::vector<std::string> arguments,
                  std::vector<std::string> prefixes, std::vector<ProgramRule>& out) {
  const Result<std::string> path = PathOf(folder, program);
  if (!path) return;
  // They talk to the controller and, by a socket, to munge. SLURM_CONF names the configuration, and sites
  // keep Slurm's libraries apart.
  out.push_back({.path = *path,
                 .arguments = std::move(arguments),
                 .prefixes = std::move(prefixes),
                 .variables = {"SLURM_", "HOME", "USER", "LD_LIBRARY_PATH"},
                 .network = true});
}

std::vector<std::string> Digits() { return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}; }

std::string MakeDelimiter() {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  // A byte at or above this would make the first letters likelier than the others.
  constexpr unsigned kFair = 256 / kLetters.size() * kLetters.size();
  constexpr size_t kRandom = 12;
  std::string out(kDelimiterStart);
  while (out.size() < kDelimiterStart.size() + kRandom) {
    unsigned char byte = 0;
    CHECK(::getrandom(&byte, 1, 0) == 1);
    if (byte < kFair) out += kLetters[byte % kLetters.size()];
  }
  return out;
}

}  // namespace gpulens::slurm
