// `gpulens log`: what a run printed, also while it prints.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace gpulens {

struct LogCommandOptions {
  std::string db, run;  // empty: the newest run
  std::string grep;
  bool follow = false;
};

// 0 printed · 1 it cannot be read, or nothing matches · 2 wrong use. Following ends with the run.
int RunLogCommand(const LogCommandOptions& options);

void AddLog(CLI::App& app, LogCommandOptions& options, int& code);

}  // namespace gpulens
