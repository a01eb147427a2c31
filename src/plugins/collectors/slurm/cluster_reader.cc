#include "plugins/collectors/slurm/cluster_reader.h"

#include <span>

#include "base/result.h"
#include "sources/slurm/delimiter.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {
namespace {

// As -O wants them; the columns are kQueueColumns and kNodeColumns.
constexpr std::string_view kQueueFields[] = {"JobID",   "State",    "UserName",   "Account",      "Partition",
                                             "NumCPUs", "NumNodes", "tres-alloc", "tres-per-node"};
constexpr std::string_view kNodeFields[] = {"NodeList",  "Gres",      "GresUsed",
                                            "CPUsState", "StateLong", "PartitionName"};

std::string FormatOf(std::span<const std::string_view> fields, std::string_view delimiter) {
  std::string out;
  for (std::string_view field : fields)
    ((out += out.empty() ? "" : ",") += field) += ":" + std::string(delimiter);
  return out;
}

// What a program says that does not know an option, and one that has no database.
bool Says(const Status& status, std::string_view words) {
  return status.detail.find(words) != std::string::npos;
}

}  // namespace

Result<std::string> ClusterReader::Run(const char* program, std::vector<std::string> arguments,
                                       Instant deadline) {
  const Duration left = deadline - clock_.Now();
  if (left.count() <= 0) return Status{Code::kTimeout, "no time was left for " + std::string(program)};
  return programs_.Run(program, std::move(arguments), left);
}

ClusterReading ClusterReader::Read(Instant deadline) {
  ClusterReading out;
  out.at = clock_.Now();
  for (auto part : {&ClusterReader::ReadNodes, &ClusterReader::ReadQueue, &ClusterReader::ReadDiagnosis,
                    &ClusterReader::ReadEnded}) {
    Status status = (this->*part)(out, deadline);
    if (!status && out.status) out.status = std::move(status);
  }
  return out;
}

Status ClusterReader::ReadNodes(ClusterReading& out, Instant deadline) {
  const std::string delimiter = slurm::MakeDelimiter();
  ASSIGN_OR_RETURN(std::string text,
                   Run("sinfo", {"-N", "-h", "-O", FormatOf(kNodeFields, delimiter)}, deadline));
  ASSIGN_OR_RETURN(slurm::Table table, slurm::ParseRows(text, delimiter, kNodeColumns));
  out.bad_lines += table.bad_lines;
  out.nodes = AddUpNodes(table, out.partitions);
  return Ok();
}

Status ClusterReader::ReadQueue(ClusterReading& out, Instant deadline) {
  const std::string delimiter = slurm::MakeDelimiter();
  ASSIGN_OR_RETURN(
      std::string text,
      Run("squeue", {"--all", "--array", "-h", "-O", FormatOf(kQueueFields, delimiter)}, deadline));
  ASSIGN_OR_RETURN(slurm::Table table, slurm::ParseRows(text, delimiter, kQueueColumns));
  out.bad_lines += table.bad_lines;
  out.queue = AddUpQueue(table, out.partitions);
  return Ok();
}

Status ClusterReader::ReadDiagnosis(ClusterReading& out, Instant deadline) {
  if (!no_json_) {
    Result<std::string> text = Run("sdiag", {"--all", "--json"}, deadline);
    if (text) {
      ASSIGN_OR_RETURN(slurm::Sdiag said, slurm::ParseSdiagJson(*text));
      out.diagnosis = said;
      return Ok();
    }
    no_json_ = Says(text.error(), "option");
    if (!no_json_) return text.error();
  }
  ASSIGN_OR_RETURN(std::string text, Run("sdiag", {"--all"}, deadline));
  ASSIGN_OR_RETURN(slurm::Sdiag said, slurm::ParseSdiagText(text));
  out.diagnosis = said;
  return Ok();
}

// Without an accounting database there is nothing to tell, and that is no fault.
Status ClusterReader::ReadEnded(ClusterReading& out, Instant deadline) {
  if (no_accounting_) return Ok();
  const int64_t now = clock_.Now().unix_ns / 1'000'000'000;
  const std::string delimiter = slurm::MakeDelimiter();
  const int64_t from = now - std::chrono::duration_cast<std::chrono::seconds>(window_).count();
  Result<std::string> text = Run("sacct",
                                 {"-a", "-X", "-P", "--delimiter=" + delimiter, "--duplicates", "--noconvert",
                                  "-S", slurm::TimeText(from), "-E", slurm::TimeText(now), "-o",
                                  "JobIDRaw,State,Submit,Start,End,ElapsedRaw,Suspended,AllocTRES"},
                                 deadline);
  if (!text) {
    no_accounting_ =
        Says(text.error(), "accounting storage is disabled") || text.error().code == Code::kUnavailable;
    return no_accounting_ ? Ok() : text.error();
  }
  ASSIGN_OR_RETURN(slurm::Table table, slurm::ParseTable(*text, delimiter));
  out.bad_lines += table.bad_lines;
  out.ended = AddUpEnded(table, from, now);
  return Ok();
}

}  // namespace gpulens
