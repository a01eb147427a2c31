#include "sources/host/parse/identity.h"

#include "base/result.h"
#include "sources/host/parse/scan.h"

namespace gpulens {
namespace {

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

std::string CleanText(std::string_view text) {
  std::string out;
  AppendPrintable(out, Trim(text).substr(0, 64));
  return out;
}

Status ParseOsRelease(std::string_view text, OsRelease& out) {
  constexpr std::string_view kFile = "os-release";
  out = {};
  LineScanner lines(kFile, text, kMaxHostKeys);
  for (std::string_view line; lines.Next(line);) {
    std::string_view value = Trim(line);
    if (value.empty() || value.front() == '#') continue;
    if (value.find('=') == std::string_view::npos) return BadText(kFile, "not NAME=value", line);
    std::string_view key = TakeUntil(value, '=');
    if (key == "ID") out.id = Unquote(value);
    if (key == "VERSION_ID") out.version = Unquote(value);
    if (key == "PRETTY_NAME") out.name = Unquote(value);
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
    if (key == "vendor_id") out.vendor = CleanText(value);
    if (key == "model name") out.model = CleanText(value);
    if (key == "CPU implementer") out.implementer = CleanText(value);
    if (key == "CPU part") out.part = CleanText(value);
    if (key != "flags") continue;
    for (std::string_view flag = NextField(value); !flag.empty(); flag = NextField(value)) {
      if (flag == "hypervisor") out.under_hypervisor = true;
    }
  }
  RETURN_IF_ERROR(lines.status());
  return known ? Ok() : BadText(kFile, "no processor");
}

}  // namespace gpulens
