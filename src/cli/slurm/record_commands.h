// What each of the commands that send records does, once. The programs run, their tables become records, and
// the records go to the sender.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/slurm/record_maker.h"
#include "sources/slurm/programs.h"

namespace gpulens {

// Between the columns of what `fsacct` prints, and of files that `sacct_publish` reads.
inline constexpr std::string_view kDelimiter = slurm::kDelimiterStart;

// Of sacct_publish, sacct_backfill, fsacct and storage.
struct RecordOptions {
  std::string file;        // sacct_publish: empty or "-": standard input; sacct_backfill from_file
  std::string delimiter;   // of the file; empty: what its header has
  std::string start, end;  // "3 hours ago", "2026-11-22T10:00:00", "now"
  std::string step = "1h", pause = "10s", timeout = "120s";
  std::vector<std::string> mounts;  // CLUSTER=PATTERN, or PATTERN
  std::string pure_file;
};

struct RecordRun {
  const slurm::Programs& programs;
  RecordSender& sender;
  const Clock& clock;
  RecordContext context;
  RecordOptions options;
  int stop_fd = -1;        // readable: end soon
  uint64_t bad_lines = 0;  // of tables, in all
};

// A time of `option`; a number without a unit is seconds.
Result<Duration> SlurmSpan(const char* option, const std::string& text);

using RecordCommand = Status (*)(RecordRun& run);

Status SendNodesAndJobs(RecordRun& run);
Status SendRunningJobs(RecordRun& run);
Status SendQos(RecordRun& run);
Status SendUsers(RecordRun& run);
Status SendPartitions(RecordRun& run);
Status SendConfiguration(RecordRun& run);
Status SendPriorities(RecordRun& run);
Status SendShares(RecordRun& run);
Status SendStorage(RecordRun& run);
Status PublishAccounting(RecordRun& run);
Status BackfillNew(RecordRun& run);
Status BackfillFromFile(RecordRun& run);
// Prints; sends nothing.
Status PrintAccounting(RecordRun& run);

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
