#include "sources/slurm/local_jobs.h"

#include <algorithm>

#include "base/files.h"
#include "base/parse.h"
#include "base/process_files.h"
#include "sources/slurm/parse/words.h"

namespace gpulens::slurm {
namespace {

constexpr size_t kMostCgroup = 64u << 10, kMostEnvironment = 1u << 20, kMostMapping = 64u << 10;
constexpr size_t kMostEntries = 65536, kMostIds = 1024, kMostIdText = 256;

std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view before) {
  if (!text.starts_with(before)) return std::nullopt;
  std::optional<uint64_t> number = ParseInt<uint64_t>(text.substr(before.size()));
  return number && *number != 0 ? number : std::nullopt;
}

// The top of Slurm's part of the tree: "slurm", "slurm_node1", "slurmstepd.scope",
// "node1_slurmstepd.scope".
bool IsOfSlurm(std::string_view component) {
  return component == "slurm" || component.starts_with("slurm_") || component.ends_with("slurmstepd.scope");
}

std::optional<ProcessJob> JobOfPath(std::string_view path) {
  bool slurm = false;
  ProcessJob out;
  while (!path.empty()) {
    std::string_view component = TakeUntil(path, '/');
    slurm = slurm || IsOfSlurm(component);
    if (!slurm) continue;
    if (out.job == 0) {
      out.job = NumberAfter(component, "job_").value_or(0);
    } else if (component.starts_with("step_") && out.step.empty()) {
      out.step = CleanText(component.substr(5, 32));
    }
  }
  if (out.job == 0) return std::nullopt;
  out.by_cgroup = true;
  return out;
}

// The names in a folder, at most kMostEntries; empty when it cannot be read.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> out;
  static_cast<void>(ForEachName(folder, [&](std::string_view name) {
    out.emplace_back(name);
    return out.size() < kMostEntries;
  }));
  return out;
}

void JobsIn(const std::string& folder, std::vector<uint64_t>& out) {
  for (const std::string& name : NamesIn(folder)) {
    std::optional<uint64_t> job = NumberAfter(name, "job_");
    if (job && out.size() < kMostLocalJobs) out.push_back(*job);
  }
}

// Version 1: SLURM/uid_1000/job_123.
void JobsOfUsersIn(const std::string& folder, std::vector<uint64_t>& out) {
  for (const std::string& name : NamesIn(folder)) {
    if (name.starts_with("uid_")) JobsIn(folder + "/" + name, out);
  }
}

constexpr std::pair<std::string_view, std::string JobFacts::*> kVariables[] = {
    {"SLURM_JOB_NAME", &JobFacts::name},
    {"SLURM_JOB_USER", &JobFacts::user},
    {"SLURM_JOB_ACCOUNT", &JobFacts::account},
    {"SLURM_JOB_PARTITION", &JobFacts::partition},
    {"SLURM_JOB_QOS", &JobFacts::qos},
    {"SLURM_ARRAY_JOB_ID", &JobFacts::array_job},
    {"SLURM_ARRAY_TASK_ID", &JobFacts::array_task},
    {"SLURM_JOB_NUM_NODES", &JobFacts::nodes},
    {"SLURMD_NODENAME", &JobFacts::node_name}};

void Take(std::string& to, std::string_view value) {
  if (to.empty() && !IsAbsent(value)) to = CleanText(value.substr(0, 1024));
}

}  // namespace

void JobFacts::Add(const JobFacts& weaker) {
  for (const auto& [variable, member] : kVariables) {
    if ((this->*member).empty()) this->*member = weaker.*member;
  }
  if (!gpus) gpus = weaker.gpus;
}

std::optional<ProcessJob> JobOfCgroup(std::string_view cgroup_file) {
  while (!cgroup_file.empty()) {
    std::string_view line = TakeUntil(cgroup_file, '\n');
    // N:controllers:path
    TakeUntil(line, ':');
    TakeUntil(line, ':');
    if (std::optional<ProcessJob> job = JobOfPath(line)) return job;
  }
  return std::nullopt;
}

std::optional<ProcessJob> JobOfEnvironment(std::string_view environment) {
  ProcessJob out;
  std::string_view old_id, gpus;
  while (!environment.empty()) {
    std::string_view value = TakeUntil(environment, '\0');
    std::string_view key = TakeUntil(value, '=');
    if (!key.starts_with("SLURM")) continue;
    if (key == "SLURM_JOB_ID") out.job = ParseInt<uint64_t>(value).value_or(0);
    if (key == "SLURM_JOBID") old_id = value;
    if (key == "SLURM_STEP_ID") Take(out.step, value.substr(0, 32));
    for (const auto& [name, member] : kVariables) {
      if (key == name) Take(out.facts.*member, value);
    }
    if (key == "SLURM_JOB_GPUS") gpus = value;
  }
  if (out.job == 0) out.job = ParseInt<uint64_t>(old_id).value_or(0);
  if (out.job == 0) return std::nullopt;
  if (!gpus.empty()) out.facts.gpus = ParseIndices(gpus);
  return out;
}

std::optional<ProcessJob> JobOfProcess(const std::string& root, int64_t pid) {
  const std::string folder = (root == "/" ? "" : root) + "/proc/" + std::to_string(pid);
  std::string text;
  std::optional<ProcessJob> by_cgroup, by_environment;
  if (ReadFile((folder + "/cgroup").c_str(), text, kMostCgroup)) by_cgroup = JobOfCgroup(text);
  if (ReadProcessFile(folder + "/environ", text, kMostEnvironment)) by_environment = JobOfEnvironment(text);
  if (!by_cgroup) return by_environment;
  if (by_environment && by_environment->job == by_cgroup->job) by_cgroup->facts = by_environment->facts;
  return by_cgroup;
}

std::vector<uint64_t> LocalJobs(const std::string& root) {
  std::vector<uint64_t> out;
  const std::string top = (root == "/" ? "" : root) + "/sys/fs/cgroup";
  for (const std::string& name : NamesIn(top + "/system.slice")) {
    if (name.ends_with("slurmstepd.scope")) JobsIn(top + "/system.slice/" + name, out);
  }
  for (const char* controller : {"memory", "cpuset", "freezer", "devices"}) {
    const std::string below = top + "/" + controller;
    for (const std::string& name : NamesIn(below)) {
      if (IsOfSlurm(name)) JobsOfUsersIn(below + "/" + name, out);
    }
  }
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

std::optional<std::map<int, std::vector<std::string>>> ReadJobMapping(const std::string& folder) {
  std::map<int, std::vector<std::string>> out;
  std::string text;
  size_t count = 0;
  auto read = [&](std::string_view name) {
    const bool more = ++count < kMostEntries;
    std::optional<uint16_t> index = ParseInt<uint16_t>(name);
    if (!index || !ReadFile((folder + "/" + std::string(name)).c_str(), text, kMostMapping)) return more;
    std::vector<std::string> ids;
    for (std::string_view rest = text; !rest.empty() && ids.size() < kMostIds;) {
      std::string_view id = Trim(TakeUntil(rest, '\n'));
      if (!id.empty()) ids.push_back(CleanText(id.substr(0, kMostIdText)));
    }
    std::ranges::sort(ids);
    ids.erase(std::ranges::unique(ids).begin(), ids.end());
    if (!ids.empty()) out[*index] = std::move(ids);
    return more;
  };
  if (!ForEachName(folder, read)) return std::nullopt;
  return out;
}

}  // namespace gpulens::slurm
