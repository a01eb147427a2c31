// `gpulens check`: Nagios checks of GPUs, from a running agent or by one look of its own.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpulens {

struct CheckOptions {
  std::vector<std::string> checks;  // NAME, or NAME=WARNING,CRITICAL; "all"
  std::string warning, critical;    // numbers, for one check
  std::string expect;               // a text, for one check
  std::vector<std::string> disable;
  std::string format = "text";
  std::string url;          // of the agent; empty: the one of the configuration
  std::string config_file;  // as for the agent
  bool direct = false;      // ask no agent
  bool demo = false;
  bool list = false;
  bool json = false;  // the same as the format json
};

// What Nagios expects: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; wrong use is 3.
int RunCheck(const CheckOptions& options);

// Adds the command; `code` is set when it has run.
void AddCheck(CLI::App& app, CheckOptions& options, int& code);

}  // namespace gpulens
