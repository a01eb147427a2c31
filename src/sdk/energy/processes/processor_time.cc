#include "sdk/energy/processes/processor_time.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/files.h"
#include "base/parse.h"
#include "base/process_files.h"
#include "base/result.h"
#include "sources/host/parse/process.h"

namespace gpulens::sdk {
namespace {

constexpr size_t kMostProcesses = 65'536;

// Fixed number of the kernel's initial namespace of process ids.
constexpr std::string_view kFirstNamespace = "pid:[4026531836]";
constexpr std::string_view kVariable = "GPULENS_RUN_ID=";
constexpr size_t kStatBytes = 4096, kEnvironmentBytes = 1 << 20;
// Deeper trees are loops of a broken file system.
constexpr int kMostAncestors = 64;

}  // namespace

Status ProcessorTime::Open() {
  system_.reset();
  members_.clear();
  ASSIGN_OR_RETURN(files_, HostFiles::Open(root_));
  system_.emplace(*files_);
  RETURN_IF_ERROR(ReadBusy(busy_));
  return ReadMembers(members_);
}

Status ProcessorTime::ReadBusy(uint64_t& ticks) {
  RETURN_IF_ERROR(system_->ReadCpuTimes(times_));
  const CpuModeTicks& all = times_.total;
  ticks = all.user + all.nice + all.system + all.irq.value_or(0) + all.softirq.value_or(0);
  return {};
}

Status ProcessorTime::ReadMembers(Members& out) {
  RETURN_IF_ERROR(files_->List("proc", "", names_, kMostProcesses));
  Members all;
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto pid = ParseInt<uint64_t>(names_[i]);
    std::string_view text;
    ProcessStat stat;
    if (!pid || !files_->Find(files_->Path({"proc/", names_[i], "/stat"}), text) ||
        !ParseProcessStat(text, stat).ok())
      continue;
    const uint64_t ticks =
        stat.user_ticks + stat.system_ticks + stat.children_user_ticks + stat.children_system_ticks;
    all.emplace(*pid, Member{stat.parent, stat.start_ticks, ticks});
  }
  const uint64_t first = first_ != 0 ? first_ : static_cast<uint64_t>(::getpid());
  // Processes remain members when their parent ends.
  const auto known = [&](uint64_t pid, const Member& one) {
    const auto before = members_.find(pid);
    return pid == first || (before != members_.end() && before->second.start_ticks == one.start_ticks);
  };
  out.clear();
  for (const auto& [pid, one] : all) {
    const Member* at = &one;
    uint64_t number = pid;
    for (size_t steps = 0; steps < all.size(); ++steps) {
      if (known(number, *at)) {
        out.emplace(pid, one);
        break;
      }
      const auto parent = all.find(at->parent);
      if (parent == all.end()) break;
      number = parent->first, at = &parent->second;
    }
  }
  return {};
}

Status ProcessorTime::SinceLast(EnergyProcesses& out) {
  out = {.list = {}, .since_last = true};
  if (!system_) return {Code::kUnavailable, "/proc could not be opened"};
  uint64_t busy = 0;
  RETURN_IF_ERROR(ReadBusy(busy));
  if (busy <= busy_) return {};
  Members now;
  RETURN_IF_ERROR(ReadMembers(now));
  uint64_t after = 0, before = 0;
  for (const auto& [pid, one] : now) after += one.ticks;
  for (const auto& [pid, one] : members_) {
    // The time of an ended process is added to its parent's, if the parent waited for it.
    const auto still = now.find(pid);
    const bool lasts = still != now.end() && still->second.start_ticks == one.start_ticks;
    if (lasts || now.contains(one.parent) || members_.contains(one.parent)) before += one.ticks;
  }
  const double all = static_cast<double>(busy - busy_);
  const double own = std::min(1.0, after > before ? static_cast<double>(after - before) / all : 0);
  out.list = {{.own = true, .utilization_ratio = own}, {.own = false, .utilization_ratio = 1 - own}};
  busy_ = busy;
  members_ = std::move(now);
  return {};
}

RunFamily::RunFamily(std::string root) : root_(root == "/" ? "" : std::move(root)) {
  std::array<char, 64> target;
  const ssize_t size = ::readlink((root_ + "/proc/self/ns/pid").c_str(), target.data(), target.size());
  sees_host_ = size > 0 && std::string_view(target.data(), static_cast<size_t>(size)) == kFirstNamespace;
}

bool RunFamily::Read(uint32_t pid, const char* file, size_t limit) {
  path_ = root_ + "/proc/" + std::to_string(pid) + "/" + file;
  return ReadFile(path_.c_str(), text_, limit).ok();
}

bool RunFamily::Descends(uint32_t pid, uint32_t first) {
  ProcessStat stat;
  for (int i = 0; i < kMostAncestors && pid > 1; ++i) {
    if (pid == first) return true;
    if (!Read(pid, "stat", kStatBytes) || !ParseProcessStat(text_, stat).ok()) return false;
    pid = static_cast<uint32_t>(stat.parent);
  }
  return false;
}

// Whether the initial environment of the process has the run id. Only its own user may read it.
bool RunFamily::Carries(uint32_t pid, std::string_view run_id) {
  if (run_id.empty()) return false;
  path_ = root_ + "/proc/" + std::to_string(pid) + "/environ";
  if (!ReadProcessFile(path_, text_, kEnvironmentBytes)) return false;
  for (std::string_view rest = text_; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry.starts_with(kVariable) && entry.substr(kVariable.size()) == run_id) return true;
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
  }
  return false;
}

bool RunFamily::Has(uint32_t pid, uint32_t first, std::string_view run_id) {
  if (run_id != run_id_ || kept_.size() >= kMostKept) kept_.clear();
  run_id_ = run_id;
  const auto key = std::pair(first, pid);
  ProcessStat stat;
  if (!Read(pid, "stat", kStatBytes) || !ParseProcessStat(text_, stat).ok()) {
    kept_.erase(key);
    return false;
  }
  if (auto kept = kept_.find(key); kept != kept_.end() && kept->second.start_ticks == stat.start_ticks)
    return kept->second.ours;
  const bool ours = Descends(pid, first) || Carries(pid, run_id);
  kept_[key] = {stat.start_ticks, ours};
  return ours;
}

std::string OwnRunId() {
  const char* id = std::getenv("GPULENS_RUN_ID");
  return id ? id : "";
}

}  // namespace gpulens::sdk
