#include "sources/host/parse/cpu.h"

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
  for (auto* mode : {&out.iowait, &out.irq, &out.softirq, &out.steal, &out.owner, &out.guest_nice}) {
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
    {"softirq", &CpuTimes::soft_interrupts},
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
  auto runnable = ParseInt<uint64_t>(TakeUntil(threads, '/'));
  auto all = ParseInt<uint64_t>(threads);
  if (!runnable || !all) return BadText(kFile, "not counts of threads", line);
  uint64_t last_process = 0;
  if (!NextUint(rest, last_process)) return BadText(kFile, "not a process", line);
  out.threads_runnable = *runnable;
  out.threads = *all;
  return lines.Next(line) ? BadText(kFile, "more than one line") : lines.status();
}

Status ParseUptime(std::string_view text, Uptime& out) {
  constexpr std::string_view kFile = "proc/uptime";
  LineScanner lines(kFile, text, 2);
  std::string_view line;
  if (!lines.Next(line)) return lines.status();
  std::string_view rest = line;
  auto up = ParseDecimal(NextField(rest));
  auto idle = ParseDecimal(NextField(rest));
  if (!up || !idle || !NextField(rest).empty()) return BadText(kFile, "not two times", line);
  out = {*up, *idle};
  return lines.Next(line) ? BadText(kFile, "more than one line") : lines.status();
}

Status ParsePressure(std::string_view file, std::string_view text, Pressure& out) {
  out = {};
  LineScanner lines(file, text, 8);
  for (std::string_view line; lines.Next(line);) {
    std::string_view rest = line;
    std::string_view name = NextField(rest);
    if (name != "some" && name != "full") return BadText(file, "not a pressure level", line);
    Pressure::Level level;
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

}  // namespace gpulens
