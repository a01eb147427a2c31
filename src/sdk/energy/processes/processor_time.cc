#include "sdk/energy/processes/processor_time.h"

#include <unistd.h>

#include <algorithm>

#include "base/parse.h"
#include "base/result.h"

namespace gpulens::sdk {
namespace {

constexpr size_t kMostProcesses = 65'536;

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
  // Whoever was one of the family stays it when its parent ends.
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
    // The time of one that has ended is its parent's, if that has waited for it.
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

}  // namespace gpulens::sdk
