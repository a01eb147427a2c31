#include "sources/host/parse/system.h"

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr size_t kMaxCpus = 8192;
constexpr std::string_view kStat = "proc/stat";

// Four modes are as old as Linux 2.4; each later one came at the end of the line.
bool ParseModes(std::string_view rest, CpuModeTicks& out) noexcept {
  if (!NextUint(rest, out.user) || !NextUint(rest, out.nice) || !NextUint(rest, out.system) ||
      !NextUint(rest, out.idle)) {
    return false;
  }
  for (auto* mode : {&out.iowait, &out.irq, &out.softirq, &out.steal, &out.guest, &out.guest_nice}) {
    mode->reset();
    std::string_view field = NextField(rest);
    if (field.empty()) continue;
    *mode = ParseInt<uint64_t>(field);
    if (!mode->has_value()) return false;
  }
  return true;
}

constexpr UintKey<CpuTimes> kCounters[] = {
    {"intr", &CpuTimes::interrupts},
    {"ctxt", &CpuTimes::context_switches},
    {"btime", &CpuTimes::boot_unix_s},
    {"processes", &CpuTimes::processes_created},
    {"procs_running", &CpuTimes::processes_running},
    {"procs_blocked", &CpuTimes::processes_blocked},
};

Status ParseCpuLine(std::string_view line, std::string_view number, std::string_view rest, size_t& count,
                    CpuTimes& out) {
  auto parsed = ParseInt<uint32_t>(number);
  if (!parsed) return BadText(kStat, "not a CPU number", line);
  if (count == kMaxCpus) return TooMany(kStat, "CPUs", kMaxCpus);
  CpuTimes::Cpu& cpu = SlotAt(out.cpus, count++);
  cpu.number = *parsed;
  return ParseModes(rest, cpu.ticks) ? Ok() : BadText(kStat, "not CPU times", line);
}

// The unit kB of these files means KiB. Rows without it have factor 1.
constexpr uint64_t kKib = 1024;

constexpr UintKey<MemoryInfo> kMemoryKeys[] = {
    {"MemTotal", &MemoryInfo::total, kKib},
    {"MemFree", &MemoryInfo::free, kKib},
    {"MemAvailable", &MemoryInfo::available, kKib},
    {"Buffers", &MemoryInfo::buffers, kKib},
    {"Cached", &MemoryInfo::cached, kKib},
    {"SwapTotal", &MemoryInfo::swap_total, kKib},
    {"SwapFree", &MemoryInfo::swap_free, kKib},
    {"Dirty", &MemoryInfo::dirty, kKib},
    {"Writeback", &MemoryInfo::writeback, kKib},
    {"Shmem", &MemoryInfo::shared, kKib},
    {"SReclaimable", &MemoryInfo::slab_reclaimable, kKib},
    {"SUnreclaim", &MemoryInfo::slab_unreclaimable, kKib},
    {"Committed_AS", &MemoryInfo::committed, kKib},
};

constexpr UintKey<NodeMemory> kNodeKeys[] = {
    {"MemTotal", &NodeMemory::total, kKib},
    {"MemFree", &NodeMemory::free, kKib},
    {"MemUsed", &NodeMemory::used, kKib},
};

constexpr UintKey<VmStat> kVmKeys[] = {
    {"pswpin", &VmStat::swapped_in},       {"pswpout", &VmStat::swapped_out}, {"pgfault", &VmStat::faults},
    {"pgmajfault", &VmStat::major_faults}, {"oom_kill", &VmStat::oom_kills},
};

constexpr UintKey<NodeAllocations> kNumaKeys[] = {
    {"numa_hit", &NodeAllocations::hit},         {"numa_miss", &NodeAllocations::miss},
    {"numa_foreign", &NodeAllocations::foreign}, {"local_node", &NodeAllocations::local},
    {"other_node", &NodeAllocations::other},
};

// One line "Key:   123 kB" or "Key:  123". The unit must be the one that the row expects.
template <class T>
Status ParseSizeLine(std::string_view file, std::string_view line, std::string_view rest,
                     std::span<const UintKey<T>> keys, T& out) {
  std::string_view key = NextField(rest);
  if (!key.ends_with(':')) return BadText(file, "no key", line);
  key.remove_suffix(1);
  uint64_t value = 0;
  if (!NextUint(rest, value)) return BadText(file, "not a number", line);
  std::string_view unit = NextField(rest);
  if ((!unit.empty() && unit != "kB") || !NextField(rest).empty()) return BadText(file, "unknown unit", line);
  const UintKey<T>* row = FindKey(keys, key);
  if (row == nullptr) return Ok();
  if (unit.empty() != (row->factor == 1)) return BadText(file, "another unit than expected", line);
  if (!Scale(value, row->factor, value)) return BadText(file, "number too large", line);
  out.*(row->member) = value;
  return Ok();
}

// Shell quoting as os-release(5) allows it: the whole value in one kind of quotes, backslash escapes
// inside double ones.
std::string Unquote(std::string_view value) {
  bool quoted =
      value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
  if (!quoted) return CleanText(value);
  bool escapes = value.front() == '"';
  std::string out;
  value = value.substr(1, value.size() - 2);
  for (size_t i = 0; i < value.size(); ++i) {
    if (escapes && value[i] == '\\' && i + 1 < value.size()) ++i;
    out += value[i];
  }
  return CleanText(out);
}

}  // namespace

Status ParseCpuTimes(std::string_view text, CpuTimes& out) {
  for (const UintKey<CpuTimes>& row : kCounters) (out.*(row.member)).reset();
  size_t cpus = 0;
  bool has_total = false;
  LineScanner lines(kStat, text, kMaxCpus + 64);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    std::string_view key = NextField(rest);
    if (key == "cpu") {
      if (!ParseModes(rest, out.total)) return BadText(kStat, "not CPU times", line);
      has_total = true;
    } else if (key.starts_with("cpu")) {
      RETURN_IF_ERROR(ParseCpuLine(line, key.substr(3), rest, cpus, out));
    } else if (const auto* row = FindKey<CpuTimes>(kCounters, key)) {
      // Interrupts by number follow the sum; the line can have thousands of fields.
      uint64_t value = 0;
      if (!NextUint(rest, value)) return BadText(kStat, "not a counter", line);
      out.*(row->member) = value;
    }
  }
  RETURN_IF_ERROR(lines.status());
  out.cpus.resize(cpus);
  return has_total ? Ok() : BadText(kStat, "no line \"cpu\"");
}

Status ParseLoadAverage(std::string_view text, LoadAverage& out) {
  constexpr std::string_view kFile = "proc/loadavg";
  LineScanner lines(kFile, text, 2);
  std::string_view line;
  if (!lines.Next(line)) return lines.status();
  std::string_view rest = line;
  for (double* average : {&out.one_minute, &out.five_minutes, &out.fifteen_minutes}) {
    auto value = ParseDecimal(NextField(rest));
    if (!value) return BadText(kFile, "not a load average", line);
    *average = *value;
  }
  std::string_view threads = NextField(rest);
  if (!ParseInt<uint64_t>(TakeUntil(threads, '/')) || !ParseInt<uint64_t>(threads))
    return BadText(kFile, "not counts of threads", line);
  uint64_t last_process = 0;
  if (!NextUint(rest, last_process)) return BadText(kFile, "not a process", line);
  return lines.Next(line) ? BadText(kFile, "more than one line") : lines.status();
}

Status ParseUptime(std::string_view text, SystemUptime& out) {
  constexpr std::string_view kFile = "proc/uptime";
  LineScanner lines(kFile, text, 2);
  std::string_view line;
  if (!lines.Next(line)) return lines.status();
  std::string_view rest = line;
  auto up = ParseDecimal(NextField(rest));
  auto idle = ParseDecimal(NextField(rest));
  if (!up || !idle || !NextField(rest).empty()) return BadText(kFile, "not two times", line);
  out = {*up};
  return lines.Next(line) ? BadText(kFile, "more than one line") : lines.status();
}

Status ParsePressure(std::string_view file, std::string_view text, PressureStall& out) {
  out = {};
  LineScanner lines(file, text, 8);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    std::string_view name = NextField(rest);
    if (name != "some" && name != "full") return BadText(file, "not a pressure level", line);
    PressureStall::Level level;
    const std::pair<std::string_view, double*> averages[] = {
        {"avg10", &level.percent_10s}, {"avg60", &level.percent_60s}, {"avg300", &level.percent_300s}};
    for (const auto& [key, value] : averages) {
      std::string_view field = NextField(rest);
      auto percent = TakeUntil(field, '=') == key ? ParseDecimal(field) : std::nullopt;
      if (!percent) return BadText(file, "not a pressure average", line);
      *value = *percent;
    }
    std::string_view total = NextField(rest);
    auto microseconds = TakeUntil(total, '=') == "total" ? ParseInt<uint64_t>(total) : std::nullopt;
    if (!microseconds || !NextField(rest).empty()) return BadText(file, "not a pressure total", line);
    level.total_us = *microseconds;
    (name == "some" ? out.some : out.full) = level;
  }
  return lines.status();
}

Status ParseFileHandles(std::string_view text, FileHandles& out) {
  constexpr std::string_view kFile = "proc/sys/fs/file-nr";
  LineScanner lines(kFile, text, 1);
  std::string_view line;
  if (!lines.Next(line)) return lines.status();
  std::string_view rest = line;
  // The second number counted unused handles until Linux 2.6 and is 0 since.
  uint64_t unused = 0;
  if (!NextUint(rest, out.used) || !NextUint(rest, unused) || !NextUint(rest, out.limit)) {
    return BadText(kFile, "not three numbers", line);
  }
  return Ok();
}

Status ParseCpuList(std::string_view file, std::string_view text, std::vector<uint32_t>& out) {
  out.clear();
  std::string_view rest = text.ends_with('\n') ? text.substr(0, text.size() - 1) : text;
  while (!rest.empty()) {
    std::string_view range = TakeUntil(rest, ',');
    std::string_view last_text = range;
    auto first = ParseInt<uint32_t>(TakeUntil(last_text, '-'));
    bool is_range = range.find('-') != std::string_view::npos;
    auto last = is_range ? ParseInt<uint32_t>(last_text) : first;
    if (!first || !last || *last < *first) return BadText(file, "not a list of CPUs", text);
    if (*last - *first >= kMaxCpus - out.size()) return TooMany(file, "CPUs", kMaxCpus);
    for (uint32_t cpu = *first; cpu <= *last; ++cpu) out.push_back(cpu);
  }
  return Ok();
}

Status ParseMemoryInfo(std::string_view text, MemoryInfo& out) {
  constexpr std::string_view kFile = "proc/meminfo";
  out = {};
  LineScanner lines(kFile, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    RETURN_IF_ERROR(ParseSizeLine<MemoryInfo>(kFile, line, line, kMemoryKeys, out));
  }
  RETURN_IF_ERROR(lines.status());
  if (!out.total || !out.free) return BadText(kFile, "no MemTotal or no MemFree");
  if (*out.total == 0 || *out.free > *out.total) return BadText(kFile, "MemFree is more than MemTotal");
  return Ok();
}

Status ParseVmStat(std::string_view text, VmStat& out) {
  return ParseKeyedUints<VmStat>("proc/vmstat", text, kVmKeys, out);
}

Status ParseNodeMemory(std::string_view text, NodeMemory& out) {
  constexpr std::string_view kFile = "node/meminfo";
  out = {};
  LineScanner lines(kFile, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    if (NextField(rest) != "Node" || !AllDigits(NextField(rest)))
      return BadText(kFile, "no \"Node N\"", line);
    RETURN_IF_ERROR(ParseSizeLine<NodeMemory>(kFile, line, rest, kNodeKeys, out));
  }
  RETURN_IF_ERROR(lines.status());
  if (!out.total || !out.free || !out.used) return BadText(kFile, "no MemTotal, MemFree or MemUsed");
  return Ok();
}

Status ParseNodeAllocations(std::string_view text, NodeAllocations& out) {
  return ParseKeyedUints<NodeAllocations>("node/numastat", text, kNumaKeys, out);
}

std::string CleanText(std::string_view text) {
  std::string out;
  AppendPrintable(out, Trim(text).substr(0, 64));
  return out;
}

Status ParseOsVersion(std::string_view text, std::string& out) {
  constexpr std::string_view kFile = "os-release";
  out.clear();
  LineScanner lines(kFile, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    std::string_view value = Trim(line);
    if (value.empty() || value.front() == '#') continue;
    if (value.find('=') == std::string_view::npos) return BadText(kFile, "not NAME=value", line);
    if (TakeUntil(value, '=') == "VERSION_ID") out = Unquote(value);
  }
  return lines.status();
}

Status ParseCpuInfo(std::string_view text, CpuInfo& out) {
  constexpr std::string_view kFile = "proc/cpuinfo";
  out = {};
  bool known = false;
  LineScanner lines(kFile, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    std::string_view value = line;
    std::string_view key = Trim(TakeUntil(value, ':'));
    if (key.empty() && known) break;  // The first processor ends at the first empty line.
    if (key.empty()) continue;
    known = true;
    if (key == "model name") out.model = CleanText(value);
    if (key == "CPU implementer") out.implementer = CleanText(value);
    if (key == "CPU part") out.part = CleanText(value);
  }
  RETURN_IF_ERROR(lines.status());
  return known ? Ok() : BadText(kFile, "no processor");
}

}  // namespace gpulens
