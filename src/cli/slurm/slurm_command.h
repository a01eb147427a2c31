// The l9gpu project's commands for Slurm and storage, with that project's names and options. slurm_monitor is
// `gpulens collect slurm`; the others read tables and send their rows as records, to any sink.
#pragma once

#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace gpulens {

// Adds the commands. One that runs puts its exit code into `code`, which outlives the parsing: 0 all was
// sent, 1 something could not be read or sent, 2 wrong use.
void AddSlurm(CLI::App& app, int& code);

}  // namespace gpulens
