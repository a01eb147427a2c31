#include "sources/slurm/parse/scontrol.h"

#include <algorithm>
#include <utility>

#include "base/parse.h"
#include "sources/slurm/parse/words.h"

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

// Keys whose value is the rest of their line, whatever stands in it: what a user wrote.
constexpr std::string_view kFreeText[] = {"Command",      "WorkDir",       "StdErr",  "StdIn", "StdOut",
                                          "AdminComment", "SystemComment", "Comment", "Extra", "SubmitLine"};

void SetText(std::string& to, std::string_view value) {
  if (!SaysNothing(value)) to = CleanText(value);
}

// Keys that scontrol prints once for each job, in the part where no text of a user belongs.
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

// The first line is "JobId=… ArrayJobId=… JobName=what the user likes", so the name is taken whole.
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

// Takes the lines of one job after the other; each stays in place until End.
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

}  // namespace

std::vector<Fields> ParseOneLineRecords(std::string_view text) {
  std::vector<Fields> out;
  while (!text.empty() && out.size() < kMostJobs) {
    Fields fields;
    ForFields(TakeUntil(text, '\n'),
              [&](std::string_view key, std::string_view value) { fields.emplace_back(key, value); });
    if (!fields.empty()) out.push_back(std::move(fields));
  }
  return out;
}

Fields ParseConfig(std::string_view text) {
  Fields out;
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
  bool any = false, told = false;
  for (const JobNodes& part : job.detail) {
    if (!HostListHas(part.nodes, node)) continue;
    // Slurm tells of each node once: one of the two is a text of the user.
    if (std::exchange(told, true)) return std::nullopt;
    for (const Gres& gres : part.gres) {
      if (gres.name != "gpu") continue;
      // One kind without its indices: which GPUs the job has is not known.
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

}  // namespace gpulens::slurm
