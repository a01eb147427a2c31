#include "sources/host/process.h"

#include <utility>

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

template <class T>
void KeepLower(std::optional<T>& out, T value) {
  if (!out || value < *out) out = value;
}

void CountState(char state, ProcessCounts& counts) noexcept {
  switch (state) {
    case 'R': ++counts.running; break;
    case 'S': ++counts.sleeping; break;
    case 'D': ++counts.blocked; break;
    case 'T':
    case 't': ++counts.stopped; break;
    case 'Z':
    case 'X':
    case 'x': ++counts.zombie; break;
    case 'I': ++counts.idle; break;
    default: ++counts.other;
  }
}

}  // namespace

ProcessReader::ProcessReader(HostFiles& files) : ProcessReader(files, "proc/self", true) {}

ProcessReader::ProcessReader(HostFiles& files, int32_t pid)
    : ProcessReader(files, "proc/" + std::to_string(pid), false) {}

ProcessReader::ProcessReader(HostFiles& files, const std::string& folder, bool is_self)
    : files_(files),
      stat_(folder + "/stat"),
      memory_path_(folder + "/smaps_rollup"),
      limits_path_(folder + "/limits"),
      descriptors_path_(folder + "/fd"),
      is_self_(is_self) {}

Status ProcessReader::ReadStat(ProcessStat& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(stat_, text));
  return ParseProcessStat(text, out);
}

Status ProcessReader::ReadMemory(ProcessMemory& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(memory_path_.c_str(), text));
  return ParseSmapsRollup(text, out);
}

Status ProcessReader::ReadDescriptors(Descriptors& out) {
  out = {};
  std::string_view text;
  RETURN_IF_ERROR(files_.Count(descriptors_path_.c_str(), out.open));
  // The listing of our own descriptors holds the one that it is made with.
  if (is_self_ && out.open > 0) --out.open;
  RETURN_IF_ERROR(files_.Read(limits_path_.c_str(), text));
  return ParseOpenFileLimit(text, out.limit);
}

Status ReadProcessCounts(HostFiles& files, NameList& names, ProcessCounts& out, size_t max_processes) {
  // /proc has some 60 names that are no processes.
  RETURN_IF_ERROR(files.List("proc", "", names, max_processes + 256));
  ProcessCounts counts;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!AllDigits(names[i])) continue;
    std::string_view text;
    if (!files.Find(files.Path({"proc/", names[i], "/stat"}), text)) continue;
    char state = 0;
    RETURN_IF_ERROR(ParseProcessState(text, state));
    CountState(state, counts);
  }
  out = counts;
  return Ok();
}

Status ReadCgroupLimits(HostFiles& files, CgroupLimits& out) {
  out = {};
  std::string_view text;
  RETURN_IF_ERROR(files.Read("proc/self/cgroup", text));
  RETURN_IF_ERROR(ParseCgroupPath(text, out.path));
  // "unified" is where systemd mounts version 2 on machines that run both.
  std::string base;
  for (const char* mount : {"sys/fs/cgroup", "sys/fs/cgroup/unified"}) {
    if (base.empty() && files.Exists(files.Path({mount, "/cgroup.controllers"}))) base = mount;
  }
  if (base.empty()) return {Code::kUnavailable, "cgroup v2 is not mounted at sys/fs/cgroup"};
  // Inside a namespace, a cgroup outside of it has "/.." in its path.
  std::string full = base;
  if (out.path != "/" && !out.path.starts_with("/..")) full += out.path;
  if (!files.Exists(full.c_str())) full = base;
  Status first;
  for (std::string_view folder = full; folder.size() >= base.size();) {
    if (auto max = files.FindText(files.Path({folder, "/cpu.max"}))) {
      CgroupCpuMax limit;
      Status parsed = ParseCgroupCpuMax(*max, limit);
      if (parsed && limit.quota_us)
        KeepLower(out.cpus, static_cast<double>(*limit.quota_us) / static_cast<double>(limit.period_us));
      KeepFirst(first, std::move(parsed));
    }
    if (auto max = files.FindText(files.Path({folder, "/memory.max"}))) {
      std::optional<uint64_t> limit;
      KeepFirst(first, ParseCgroupLimit("memory.max", *max, limit));
      if (limit) KeepLower(out.memory_bytes, *limit);
    }
    size_t slash = folder.rfind('/');
    if (folder.size() == base.size() || slash == std::string_view::npos) break;
    folder = folder.substr(0, slash);
  }
  return first;
}

}  // namespace gpulens
