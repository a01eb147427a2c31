#include "sources/slurm/parse/scontrol.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/parse.h"
#include "base/result.h"

namespace gpulens::slurm {
namespace {

bool IsKeyByte(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '/' ||
         c == ':' || c == '-';
}

// Where the next "Key=" begins after a blank, from `from` on; npos when there is none.
size_t NextKey(std::string_view line, size_t from) noexcept {
  for (size_t at = line.find(' ', from); at != std::string_view::npos; at = line.find(' ', at + 1)) {
    size_t end = at + 1;
    while (end < line.size() && IsKeyByte(line[end])) ++end;
    const bool letter = end > at + 1 && line[at + 1] >= 'A' && line[at + 1] <= 'Z';
    if (letter && end < line.size() && line[end] == '=') return at + 1;
  }
  return std::string_view::npos;
}

// A line of "Key=value Key=value"; a value goes on up to the next key.
template <typename Take>
void ForFields(std::string_view line, Take take) {
  line = Trim(line);
  for (size_t at = 0, count = 0; at < line.size() && count < kMostFields; ++count) {
    const size_t next = NextKey(line, at);
    std::string_view field = line.substr(at, next == std::string_view::npos ? next : next - at);
    const size_t equals = field.find('=');
    if (equals != std::string_view::npos && equals > 0)
      take(Trim(field.substr(0, equals)), Trim(field.substr(equals + 1)));
    if (next == std::string_view::npos) break;
    at = next;
  }
}

// Keys whose value is the rest of their line: text of a user.
constexpr std::string_view kFreeText[] = {"Command",      "WorkDir",       "StdErr",  "StdIn", "StdOut",
                                          "AdminComment", "SystemComment", "Comment", "Extra", "SubmitLine"};

void SetText(std::string& to, std::string_view value) {
  if (!IsAbsent(value)) to = CleanText(value);
}

// Keys that scontrol prints once for each job, outside of texts of a user.
constexpr std::string_view kOnce[] = {"UserId",    "Account",  "QOS",     "JobState",
                                      "Partition", "NodeList", "NumNodes"};

void SetField(Job& job, std::string_view key, std::string_view value) {
  if (key == "JobName") SetText(job.name, value);
  if (key == "UserId") SetText(job.user, value.substr(0, value.find('(')));
  if (key == "Account") SetText(job.account, value);
  if (key == "QOS") SetText(job.qos, value);
  if (key == "Partition") SetText(job.partition, value);
  if (key == "JobState") SetText(job.state, value);
  if (key == "NodeList") SetText(job.nodes, value);
  if (key == "NumNodes") job.node_count = ParseInt<int64_t>(value.substr(0, value.find('-')));
  if (key == "Nodes") job.detail.push_back({std::string(value), {}});
  if (key == "GRES" && !job.detail.empty()) job.detail.back().gres = ParseGres(value);
}

// The first line is "JobId=… ArrayJobId=… JobName=any text", so the name is taken whole.
void SetFirstLine(Job& job, std::string_view line) {
  const size_t name = line.find(" JobName=");
  if (name != std::string_view::npos) SetText(job.name, Trim(line.substr(name + 9)));
  ForFields(line.substr(0, name), [&](std::string_view key, std::string_view value) {
    if (key == "ArrayJobId") job.array_job = ParseInt<uint64_t>(value);
    if (key == "ArrayTaskId") SetText(job.array_task, value);
  });
}

// "UserId=…", and no line of a name that holds newlines.
bool BeginsWithKey(std::string_view line) noexcept {
  size_t end = 0;
  while (end < line.size() && IsKeyByte(line[end])) ++end;
  return end > 0 && end < line.size() && line[end] == '=' && line[0] >= 'A' && line[0] <= 'Z';
}

// Parses the lines of one job after another; a job must stay in place until End.
class JobLines {
 public:
  void Begin(Job& job) {
    job_ = &job;
    name_ = job.name;
    in_name_ = true;
    seen_ = 0;
  }
  void End() {
    if (job_) EndName();
    job_ = nullptr;
  }

  void Take(std::string_view line) {
    if (!job_) return;
    if (in_name_ && !BeginsWithKey(line)) {
      if (name_.size() + line.size() < kMostName) (name_ += '\n') += line;
      return;
    }
    EndName();
    if (job_->detail.size() >= kMostFields) return;
    if (std::ranges::find(kFreeText, line.substr(0, line.find('='))) != std::end(kFreeText)) return;
    ForFields(line, [&](std::string_view key, std::string_view value) { TakeField(key, value); });
  }

 private:
  static constexpr size_t kMostName = 128u << 10;

  void EndName() {
    if (std::exchange(in_name_, false)) SetText(job_->name, Trim(name_));
  }
  void TakeField(std::string_view key, std::string_view value) {
    for (size_t i = 0; i < std::size(kOnce); ++i) {
      if (key != kOnce[i]) continue;
      if ((seen_ >> i & 1) != 0) job_->ambiguous = true;
      seen_ |= 1u << i;
    }
    SetField(*job_, key, value);
  }

  Job* job_ = nullptr;
  std::string name_;
  bool in_name_ = false;
  unsigned seen_ = 0;  // a bit for each of kOnce
};

enum class SdiagPart : uint8_t { kHead, kMain, kBackfill, kOther };

// A number of sdiag: its part and label in the text (empty: not in the text), its key in the JSON.
struct SdiagRow {
  SdiagPart part;
  std::string_view label;
  const char* key;
  std::optional<double> Sdiag::* member;
};
constexpr SdiagRow kSdiagRows[] = {
    {SdiagPart::kHead, "", "req_time_start", &Sdiag::since_unix},
    {SdiagPart::kHead, "Server thread count", "server_thread_count", &Sdiag::server_threads},
    {SdiagPart::kHead, "Agent queue size", "agent_queue_size", &Sdiag::agent_queue},
    {SdiagPart::kHead, "Agent count", "agent_count", &Sdiag::agents},
    {SdiagPart::kHead, "Agent thread count", "agent_thread_count", &Sdiag::agent_threads},
    {SdiagPart::kHead, "DBD Agent queue size", "dbd_agent_queue_size", &Sdiag::dbd_agent_queue},
    {SdiagPart::kHead, "Jobs submitted", "jobs_submitted", &Sdiag::jobs_submitted},
    {SdiagPart::kHead, "Jobs started", "jobs_started", &Sdiag::jobs_started},
    {SdiagPart::kHead, "Jobs completed", "jobs_completed", &Sdiag::jobs_completed},
    {SdiagPart::kHead, "Jobs canceled", "jobs_canceled", &Sdiag::jobs_canceled},
    {SdiagPart::kHead, "Jobs failed", "jobs_failed", &Sdiag::jobs_failed},
    {SdiagPart::kHead, "Jobs pending", "jobs_pending", &Sdiag::jobs_pending},
    {SdiagPart::kHead, "Jobs running", "jobs_running", &Sdiag::jobs_running},
    {SdiagPart::kMain, "Last cycle", "schedule_cycle_last", &Sdiag::cycle_last},
    {SdiagPart::kMain, "Max cycle", "schedule_cycle_max", &Sdiag::cycle_max},
    {SdiagPart::kMain, "Mean cycle", "schedule_cycle_mean", &Sdiag::cycle_mean},
    {SdiagPart::kMain, "", "schedule_cycle_sum", &Sdiag::cycle_sum},
    {SdiagPart::kMain, "Total cycles", "schedule_cycle_total", &Sdiag::cycles},
    {SdiagPart::kMain, "Cycles per minute", "schedule_cycle_per_minute", &Sdiag::cycle_per_minute},
    {SdiagPart::kMain, "Last queue length", "schedule_queue_length", &Sdiag::queue_length},
    {SdiagPart::kBackfill, "Total backfilled jobs (since last slurm start)", "bf_backfilled_jobs",
     &Sdiag::backfilled},
    {SdiagPart::kBackfill, "Total cycles", "bf_cycle_counter", &Sdiag::backfill_cycles},
    {SdiagPart::kBackfill, "Last cycle", "bf_cycle_last", &Sdiag::backfill_cycle_last},
    {SdiagPart::kBackfill, "Max cycle", "bf_cycle_max", &Sdiag::backfill_cycle_max},
    {SdiagPart::kBackfill, "Mean cycle", "bf_cycle_mean", &Sdiag::backfill_cycle_mean},
    {SdiagPart::kBackfill, "", "bf_cycle_sum", &Sdiag::backfill_cycle_sum},
    {SdiagPart::kBackfill, "Last queue length", "bf_queue_len", &Sdiag::backfill_queue},
};

std::optional<double> Plain(std::string_view text) noexcept {
  std::optional<uint64_t> value = ParseInt<uint64_t>(Trim(text));
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

SdiagPart PartOf(std::string_view line, SdiagPart now) noexcept {
  if (line.starts_with("Main schedule statistics")) return SdiagPart::kMain;
  if (line.starts_with("Backfilling stats")) return SdiagPart::kBackfill;
  // Newer versions also list why a cycle ended, and the calls.
  for (std::string_view other : {"Latency for", "Remote Procedure Call", "Pending RPC", "Main scheduler exit",
                                 "Backfill exit", "Bad RPC"}) {
    if (line.starts_with(other)) return SdiagPart::kOther;
  }
  return now;
}

}  // namespace

std::vector<ScontrolFields> ParseOneLineRecords(std::string_view text) {
  std::vector<ScontrolFields> out;
  while (!text.empty() && out.size() < kMostJobs) {
    ScontrolFields fields;
    ForFields(TakeUntil(text, '\n'),
              [&](std::string_view key, std::string_view value) { fields.emplace_back(key, value); });
    if (!fields.empty()) out.push_back(std::move(fields));
  }
  return out;
}

ScontrolFields ParseConfig(std::string_view text) {
  ScontrolFields out;
  std::string heading;
  while (!text.empty() && out.size() < kMostFields) {
    std::string_view line = Trim(TakeUntil(text, '\n'));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      // "Cgroup Support Configuration:" begins a part; an empty line ends one.
      heading.clear();
      if (line.ends_with(':')) {
        line.remove_suffix(1);
        if (line.ends_with(" Configuration")) line.remove_suffix(14);
        heading = SnakeCase(line);
        if (!heading.empty()) heading += '.';
      }
      continue;
    }
    std::string key = SnakeCase(line.substr(0, equals));
    if (!key.empty()) out.emplace_back(heading + key, Trim(line.substr(equals + 1)));
  }
  return out;
}

std::vector<Job> ParseJobs(std::string_view text) {
  std::vector<Job> out;
  JobLines lines;
  while (!text.empty()) {
    std::string_view line = Trim(TakeUntil(text, '\n'));
    if (line.starts_with("JobId=")) {
      std::string_view number =
          line.substr(6, line.find(' ') == std::string_view::npos ? line.npos : line.find(' ') - 6);
      std::optional<uint64_t> id = ParseInt<uint64_t>(number);
      lines.End();
      if (!id || *id == 0 || out.size() >= kMostJobs) continue;
      out.emplace_back().id = *id;
      SetFirstLine(out.back(), line);
      lines.Begin(out.back());
      continue;
    }
    lines.Take(line);
  }
  lines.End();
  return out;
}

std::optional<std::vector<int>> GpusOn(const Job& job, std::string_view node) {
  std::vector<int> out;
  bool any = false, listed = false;
  for (const JobNodes& part : job.detail) {
    if (!HostListHas(part.nodes, node)) continue;
    // Slurm lists each node once: one of the two is a text of the user.
    if (std::exchange(listed, true)) return std::nullopt;
    for (const Gres& gres : part.gres) {
      if (gres.name != "gpu") continue;
      // Without indices of one kind, the job's GPUs are unknown.
      if (!gres.indices) return std::nullopt;
      any = true;
      out.insert(out.end(), gres.indices->begin(), gres.indices->end());
    }
  }
  if (!any) return std::nullopt;
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

Result<Sdiag> ParseSdiagText(std::string_view text) {
  Sdiag out;
  SdiagPart part = SdiagPart::kHead;
  size_t known = 0;
  while (!text.empty()) {
    std::string_view line = Trim(TakeUntil(text, '\n'));
    part = PartOf(line, part);
    if (line.starts_with("Data since")) {
      const size_t open = line.rfind('(');
      if (open != std::string_view::npos && line.ends_with(')'))
        out.since_unix = Plain(line.substr(open + 1, line.size() - open - 2));
      continue;
    }
    // The number follows the last colon.
    const size_t colon = line.rfind(':');
    if (colon == std::string_view::npos || colon == 0) continue;
    for (const SdiagRow& row : kSdiagRows) {
      if (row.part != part || row.label != Trim(line.substr(0, colon)) || out.*row.member) continue;
      out.*row.member = Plain(line.substr(colon + 1));
      known += (out.*row.member).has_value();
    }
  }
  if (known == 0) return Status{Code::kDataLoss, "sdiag printed no statistics"};
  return out;
}

Result<Sdiag> ParseSdiagJson(std::string_view text) {
  ASSIGN_OR_RETURN(JsonDocument json, JsonDocument::Parse(text));
  Sdiag out;
  size_t known = 0;
  for (const SdiagRow& row : kSdiagRows) {
    const std::string pointer = std::string("/statistics/") + row.key;
    std::optional<double> value = json.Number(pointer);
    if (!value) {
      // In the long form, an unset number is 0, too.
      value = json.Number(pointer + "/number");
      if (value == 0) value.reset();
    }
    if (value && (!std::isfinite(*value) || *value < 0)) value.reset();
    out.*row.member = value;
    known += value.has_value();
  }
  if (known == 0) return Status{Code::kDataLoss, "sdiag's JSON has no statistics"};
  return out;
}

}  // namespace gpulens::slurm
