// The commands that send records: each runs programs of Slurm, turns their tables into records and sends
// them, once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "cli/slurm/record_maker.h"
#include "sources/slurm/programs.h"

namespace gpulens {

// Separates the columns of the output of `fsacct` and of files that `sacct_publish` reads.
inline constexpr std::string_view kDelimiter = slurm::kDelimiterStart;

// Options of sacct_publish, sacct_backfill, fsacct and storage.
struct RecordOptions {
  std::string file;        // sacct_publish: empty or "-": standard input; sacct_backfill from_file
  std::string delimiter;   // of the file; empty: what its header has
  std::string start, end;  // "3 hours ago", "2026-11-22T10:00:00", "now"
  std::string step = "1h", pause = "10s", timeout = "120s";
  std::vector<std::string> mounts;  // CLUSTER=PATTERN, or PATTERN
  std::string pure_file;
};

struct RecordRun {
  const slurm::SlurmPrograms& programs;
  RecordSender& sender;
  const Clock& clock;
  RecordContext context;
  RecordOptions options;
  int stop_fd = -1;        // readable when the command shall end
  uint64_t bad_lines = 0;  // of tables, in all
};

// Parses a time; a number without a unit is seconds. Errors name `option`.
Result<Duration> SlurmSpan(const char* option, const std::string& text);

// Waits until `stop_fd` is readable. False when it was not within `span`, at most a week.
bool StoppedWithin(int stop_fd, Duration span);

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
// Prints to the standard output; sends nothing.
Status PrintAccounting(RecordRun& run);

}  // namespace gpulens
