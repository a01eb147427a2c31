// `gpulens run SCRIPT …`: a program whose output is kept and whose metrics are taken from it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace CLI {
class App;
}

namespace gpulens {

struct RunCommandOptions {
  std::string db, name;
  std::vector<std::string> tags, params;  // KEY=VALUE
  std::vector<std::string> command;       // script or program with its arguments
  bool quiet = false;
  bool energy = true;
};

// The code of the program, 128 + n when a signal ended it; 126, 127 as a shell has them; 1 when the run
// cannot be kept, 2 for wrong use: then it was not started.
int RunProgram(const RunCommandOptions& options);

// What is started for `command`: a script of Python by the interpreter that is found first.
Result<std::vector<std::string>> ProgramFor(const std::vector<std::string>& command);

void AddRun(CLI::App& app, RunCommandOptions& options, int& code);

}  // namespace gpulens
