#include "sources/host/process.h"

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

template <class T>
void KeepLower(std::optional<T>& out, std::optional<T> value) {
  if (value && (!out || *value < *out)) out = value;
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

CgroupReader::CgroupReader(HostFiles& files) : files_(files), self_("proc/self/cgroup") {}

std::optional<std::string_view> CgroupReader::Find(std::string_view folder, std::string_view name) {
  return files_.FindText(files_.Path({folder, "/", name}));
}

// "unified" is where systemd puts version 2 on machines that run both.
Status CgroupReader::FindFolder(CgroupInfo& out) {
  std::string_view text;
  RETURN_IF_ERROR(files_.Read(self_, text));
  RETURN_IF_ERROR(ParseCgroupPath(text, out.path));
  base_.clear();
  for (const char* mount : {"sys/fs/cgroup", "sys/fs/cgroup/unified"}) {
    if (base_.empty() && files_.Exists(files_.Path({mount, "/cgroup.controllers"}))) base_ = mount;
  }
  if (base_.empty()) return {Code::kUnavailable, "cgroup v2 is not mounted at sys/fs/cgroup"};
  folder_ = base_;
  // Seen from inside a namespace a cgroup outside of it has "/.." in its path.
  if (out.path != "/" && !out.path.starts_with("/..")) folder_ += out.path;
  if (!files_.Exists(folder_.c_str())) folder_ = base_;
  return Ok();
}

Status CgroupReader::ReadLimits(CgroupInfo& out) {
  Status first;
  for (std::string_view folder = folder_; folder.size() >= base_.size();) {
    if (auto text = Find(folder, "cpu.max")) {
      CgroupCpuMax limit;
      Status parsed = ParseCgroupCpuMax(*text, limit);
      if (parsed && limit.quota_us) {
        KeepLower(out.cpu_limit,
                  std::optional(static_cast<double>(*limit.quota_us) / static_cast<double>(limit.period_us)));
      }
      KeepFirst(first, std::move(parsed));
    }
    const std::pair<std::string_view, std::optional<uint64_t>*> limits[] = {
        {"memory.max", &out.memory_limit_bytes}, {"pids.max", &out.processes_limit}};
    for (const auto& [name, lowest] : limits) {
      auto text = Find(folder, name);
      if (!text) continue;
      std::optional<uint64_t> limit;
      KeepFirst(first, ParseCgroupLimit(name, *text, limit));
      KeepLower(*lowest, limit);
    }
    size_t slash = folder.rfind('/');
    if (folder.size() == base_.size() || slash == std::string_view::npos) break;
    folder = folder.substr(0, slash);
  }
  return first;
}

Status CgroupReader::Read(CgroupInfo& out) {
  out.cpu_limit.reset();
  out.memory_limit_bytes.reset();
  out.processes_limit.reset();
  out.cpu = {};
  out.memory = {};
  RETURN_IF_ERROR(FindFolder(out));
  Status first = ReadLimits(out);

  const std::pair<std::string_view, std::optional<uint64_t>*> numbers[] = {
      {"/memory.current", &out.memory_bytes},
      {"/memory.peak", &out.memory_peak_bytes},
      {"/memory.swap.current", &out.swap_bytes},
      {"/pids.current", &out.processes}};
  for (const auto& [name, value] : numbers) {
    KeepFirst(first, files_.FindNumber(files_.Path({folder_, name}), *value));
  }

  using Parser = Status (*)(std::string_view, CgroupInfo&);
  const std::pair<std::string_view, Parser> files[] = {
      {"/cpu.stat", [](std::string_view text, CgroupInfo& info) { return ParseCgroupCpu(text, info.cpu); }},
      {"/memory.stat",
       [](std::string_view text, CgroupInfo& info) { return ParseCgroupMemoryStat(text, info.memory); }},
      {"/memory.events",
       [](std::string_view text, CgroupInfo& info) { return ParseCgroupMemoryEvents(text, info.memory); }},
      {"/io.stat", [](std::string_view text, CgroupInfo& info) { return ParseCgroupIo(text, info.io); }},
  };
  bool has_io = false;
  for (const auto& [name, parse] : files) {
    const char* path = files_.Path({folder_, name});
    std::string_view text;
    if (!files_.Find(path, text)) continue;
    Status parsed = parse(text, out);
    has_io = has_io || (parsed.ok() && name == "/io.stat");
    KeepFirst(first, std::move(parsed));
  }
  if (!has_io) out.io.clear();
  return first;
}

}  // namespace gpulens
