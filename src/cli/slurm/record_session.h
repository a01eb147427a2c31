// One run of a command that sends records: the sink as the configuration and the command line say, the
// programs, signals, and the turns.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/slurm/record_commands.h"

namespace gpulens {

struct RecordSessionOptions {
  std::string command;  // its name, for messages
  std::string sink = "stdout";
  std::string config_file;
  std::string cluster;                                       // empty: $L9GPU_CLUSTER_NAME
  std::string interval;                                      // text
  std::string programs;                                      // the folder of Slurm's programs; empty: PATH
  std::string timeout = "120s";                              // of one program
  std::vector<std::pair<std::string, std::string>> options;  // -o, of the sink
  RecordOptions record;
  bool derive_cluster = false;
  bool once = false;
  bool needs_sink = true;
};

// 0 all was sent, 1 not, 2 wrong use. Without `once` it goes on until a signal.
int RunRecordSession(RecordCommand command, const RecordSessionOptions& options);

}  // namespace gpulens
