#include "cli/slurm/record_commands.h"

#include "base/parse.h"
#include "base/result.h"
#include "sources/slurm/parse/scontrol.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/programs.h"

namespace gpulens {
namespace {

// Sends every row of a table with a header.
Status SendTable(RecordRun& run, const RecordKind& kind, std::string_view text, std::string_view delimiter) {
  ASSIGN_OR_RETURN(slurm::Table table, slurm::ParseTable(text, delimiter));
  run.bad_lines += table.bad_lines;
  const RecordMaker maker(kind, table.columns, run.context);
  const Instant now = run.clock.Now();
  for (const std::vector<std::string>& row : table.rows) {
    const std::vector<std::string_view> values(row.begin(), row.end());
    RETURN_IF_ERROR(run.sender.Add(maker.Make(values, now)));
  }
  return Ok();
}

Status SendFields(RecordRun& run, const RecordKind& kind, const slurm::Fields& fields) {
  std::vector<std::string> keys;
  std::vector<std::string_view> values;
  for (const auto& [key, value] : fields) {
    keys.push_back(key);
    values.push_back(value);
  }
  return run.sender.Add(RecordMaker(kind, keys, run.context).Make(values, run.clock.Now()));
}

Status SendNodes(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sinfo", {"-N", "-o", "%all"}));
  return SendTable(run, kNodeKind, text, "|");
}

Status SendJobs(RecordRun& run) {
  const std::string delimiter = slurm::MakeDelimiter();
  std::string format;
  std::vector<std::string_view> columns;
  for (const QueueColumn& column : QueueColumns()) {
    format += (format.empty() ? "" : ",") + std::string(column.field) + ":" + delimiter;
    columns.push_back(column.name);
  }
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("squeue", {"--all", "--noheader", "-O", format}));
  ASSIGN_OR_RETURN(slurm::Table table, slurm::ParseRows(text, delimiter, columns));
  run.bad_lines += table.bad_lines;
  const RecordMaker maker(kJobKind, table.columns, run.context);
  const Instant now = run.clock.Now();
  for (const std::vector<std::string>& row : table.rows) {
    const std::vector<std::string_view> values(row.begin(), row.end());
    RETURN_IF_ERROR(run.sender.Add(maker.Make(values, now)));
  }
  return Ok();
}

}  // namespace

Status SendNodesAndJobs(RecordRun& run) {
  // One half is better than none.
  Status nodes = SendNodes(run), jobs = SendJobs(run);
  return nodes ? jobs : nodes;
}

Status SendRunningJobs(RecordRun& run) {
  const std::string delimiter = slurm::MakeDelimiter();
  ASSIGN_OR_RETURN(std::string text,
                   run.programs.Run("sacct", {"-a", "-P", "--delimiter=" + delimiter, "-s", "RUNNING",
                                              "--duplicates", "--noconvert", "-o", "ALL,End"}));
  return SendTable(run, kAccountingKind, text, delimiter);
}

Status SendQos(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sacctmgr", {"-P", "show", "qos"}));
  return SendTable(run, kQosKind, text, "|");
}

Status SendUsers(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text,
                   run.programs.Run("sacctmgr", {"-P", "show", "user", "withassoc",
                                                 "format=User,DefaultAccount,Account,DefaultQOS,QOS"}));
  return SendTable(run, kUserKind, text, "|");
}

Status SendPartitions(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("scontrol", {"show", "partition", "-a", "-o"}));
  std::vector<slurm::Fields> records = slurm::ParseOneLineRecords(text);
  if (records.empty()) return {Code::kDataLoss, "scontrol printed no partition"};
  for (const slurm::Fields& fields : records) RETURN_IF_ERROR(SendFields(run, kPartitionKind, fields));
  return Ok();
}

Status SendConfiguration(RecordRun& run) {
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("scontrol", {"show", "config"}));
  const slurm::Fields fields = slurm::ParseConfig(text);
  if (fields.empty()) return {Code::kDataLoss, "scontrol printed no configuration"};
  return SendFields(run, kConfigKind, fields);
}

Status SendPriorities(RecordRun& run) {
  // Versions differ in what they know; the header says which columns came.
  const std::string delimiter = slurm::MakeDelimiter();
  std::string format;
  for (char column : std::string_view("iruoYSABFJPQNT"))
    format += (format.empty() ? "" : delimiter) + "%" + column;
  ASSIGN_OR_RETURN(std::string text, run.programs.Run("sprio", {"--sort=r,-y", "-o", format}));
  // With no job waiting there may be no header either.
  if (Trim(text).empty()) return Ok();
  ASSIGN_OR_RETURN(slurm::Table table, slurm::ParseTable(text, delimiter));
  // PARTITION is first the name, then what it adds.
  for (size_t i = 0, seen = 0; i < table.columns.size(); ++i) {
    if (table.columns[i] == "PARTITION" && seen++ > 0) table.columns[i] = "partition_factor";
    if (table.columns[i] == "JOBID") table.columns[i] = "job_id";
  }
  run.bad_lines += table.bad_lines;
  const RecordMaker maker(kPriorityKind, table.columns, run.context);
  const Instant now = run.clock.Now();
  for (const std::vector<std::string>& row : table.rows) {
    const std::vector<std::string_view> values(row.begin(), row.end());
    RETURN_IF_ERROR(run.sender.Add(maker.Make(values, now)));
  }
  return Ok();
}

Status SendShares(RecordRun& run) {
  ASSIGN_OR_RETURN(
      std::string text,
      run.programs.Run("sshare",
                       {"-a", "-P", "-o",
                        "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,"
                        "LevelFS,TRESRunMins"}));
  return SendTable(run, kShareKind, text, "|");
}

}  // namespace gpulens
