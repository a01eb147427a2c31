#include "sources/host/parse/process.h"

#include <array>
#include <span>

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

constexpr std::string_view kStatFile = "proc/pid/stat";

constexpr UintKey<ProcessMemory> kSmaps[] = {
    {"Rss:", &ProcessMemory::resident, 1024},
    {"Pss:", &ProcessMemory::proportional, 1024},
};
// Takes the state that follows the program's name; returns the text behind it. The name is in parentheses and
// may hold anything, also ") R 1".
Result<std::string_view> TakeState(std::string_view text, char& out) {
  if (text.empty()) return BadText(kStatFile, "empty");
  size_t close = text.rfind(')');
  if (!IsDigit(text.front()) || close == std::string_view::npos || text.back() != '\n' ||
      text.ends_with("\r\n")) {
    return BadText(kStatFile, "not a process", text);
  }
  std::string_view rest = text.substr(close + 1, text.size() - close - 2);
  std::string_view state = NextField(rest);
  bool known = state.size() == 1 && std::string_view("RSDTtZXxKWPI").find(state[0]) != std::string_view::npos;
  if (!known) return BadText(kStatFile, "unknown state", state);
  out = state[0];
  return rest;
}

}  // namespace

Status ParseProcessStat(std::string_view text, ProcessStat& out) {
  ASSIGN_OR_RETURN(std::string_view rest, TakeState(text, out.state));
  // Fields 4 to 24 of proc(5). Some of those that are skipped (null) may be negative.
  std::array<uint64_t*, 25> fields{};
  fields[4] = &out.parent, fields[12] = &out.major_faults, fields[20] = &out.threads;
  fields[14] = &out.user_ticks, fields[15] = &out.system_ticks;
  fields[16] = &out.children_user_ticks, fields[17] = &out.children_system_ticks;
  fields[22] = &out.start_ticks, fields[23] = &out.virtual_bytes, fields[24] = &out.resident_pages;
  for (uint64_t* field : std::span(fields).subspan(4)) {
    std::string_view number = NextField(rest);
    auto value = ParseInt<uint64_t>(number);
    if (number.empty() || (field != nullptr && !value)) return BadText(kStatFile, "not a number", number);
    if (field != nullptr) *field = *value;
  }
  return Ok();
}

Status ParseProcessState(std::string_view text, char& out) {
  auto rest = TakeState(text, out);
  return rest ? Ok() : rest.error();
}

Status ParseSmapsRollup(std::string_view text, ProcessMemory& out) {
  constexpr std::string_view kFile = "smaps_rollup";
  out = {};
  LineScanner lines(kFile, text, 256);
  std::string_view line;
  if (!lines.Next(line)) return lines.status();
  if (line.find("[rollup]") == std::string_view::npos) return BadText(kFile, "no [rollup]", line);
  while (lines.Next(line)) {
    std::string_view rest = line;
    const UintKey<ProcessMemory>* row = FindKey<ProcessMemory>(kSmaps, NextField(rest));
    if (row == nullptr) continue;
    uint64_t value = 0;
    if (!NextUint(rest, value) || NextField(rest) != "kB") return BadText(kFile, "not a size", line);
    if (!Scale(value, row->factor, value)) return BadText(kFile, "number too large", line);
    out.*(row->member) = value;
  }
  RETURN_IF_ERROR(lines.status());
  return out.resident && out.proportional ? Ok() : BadText(kFile, "no Rss or no Pss");
}

Status ParseOpenFileLimit(std::string_view text, std::optional<uint64_t>& out) {
  constexpr std::string_view kFile = "proc/pid/limits";
  constexpr std::string_view kKey = "Max open files";
  out.reset();
  LineScanner lines(kFile, text, 64);
  for (std::string_view line; lines.Next(line);) {
    if (!line.starts_with(kKey)) continue;
    std::string_view rest = line.substr(kKey.size());
    std::string_view soft = NextField(rest);
    if (soft == "unlimited") return Ok();
    out = ParseInt<uint64_t>(soft);
    return out ? Ok() : BadText(kFile, "not a limit", line);
  }
  RETURN_IF_ERROR(lines.status());
  return BadText(kFile, "no line \"Max open files\"");
}

Status ParseCgroupPath(std::string_view text, std::string& out) {
  constexpr std::string_view kFile = "proc/self/cgroup";
  out.clear();
  LineScanner lines(kFile, text, 256);
  for (std::string_view line; lines.Next(line);) {
    if (!line.starts_with("0::")) continue;
    std::string_view path = line.substr(3);
    if (!path.starts_with('/') || path.size() > 4096) return BadText(kFile, "not a path", line);
    out.assign(path);
  }
  RETURN_IF_ERROR(lines.status());
  return out.empty() ? Status{Code::kUnavailable, "proc/self/cgroup: no cgroup v2 here"} : Ok();
}

Status ParseCgroupCpuMax(std::string_view text, CgroupCpuMax& out) {
  constexpr std::string_view kFile = "cpu.max";
  std::string_view rest = text.ends_with('\n') ? text.substr(0, text.size() - 1) : text;
  std::string_view quota = NextField(rest);
  uint64_t period = 0;
  if (!NextUint(rest, period) || period == 0 || !NextField(rest).empty()) {
    return BadText(kFile, "not quota and period", text);
  }
  out = {ParseInt<uint64_t>(quota), period};
  return out.quota_us || quota == "max" ? Ok() : BadText(kFile, "not a quota", text);
}

Status ParseCgroupLimit(std::string_view file, std::string_view text, std::optional<uint64_t>& out) {
  out.reset();
  if (text == "max\n" || text == "max") return Ok();
  uint64_t value = 0;
  RETURN_IF_ERROR(ParseScalar(file, text, value));
  out = value;
  return Ok();
}

}  // namespace gpulens
