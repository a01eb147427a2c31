// Parsers of the frame around a kernel message: records of /dev/kmsg, and the lines that dmesg, syslog and
// journalctl make of them. Pure functions; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpulens::kernel_log {

// Longer lines are cut: the kernel's own limit is lower.
inline constexpr size_t kMaxLine = 4096;

struct LogLine {
  enum class Stamp : uint8_t {
    kNone,
    kSinceBoot,  // nanoseconds; by a clock of the kernel that drifts from others
    kUnix,       // nanoseconds
  };
  Stamp stamp = Stamp::kNone;
  int64_t stamp_ns = 0;
  uint64_t sequence = 0;  // of a record of /dev/kmsg
  std::string_view text;  // the message
};

// Parses a record of /dev/kmsg: "6,339,5140900,-;message". The kernel's escapes \x0a are decoded in
// `scratch`, where `text` may then lie. False for a malformed record and for one that a program wrote;
// `sequence` is set even then.
bool ParseKmsgRecord(std::string_view record, std::string& scratch, LogLine& out);

// Parses a line of a file or of journalctl: a record of /dev/kmsg, "[ 12.345] message" (dmesg), "kern :warn :
// TIME message" (dmesg -x), "Jan  2 03:04:05 host kernel: message" and "2026-01-02T03:04:05+00:00 host
// kernel: message" (syslog), "1767322800.123 host kernel: message" (journalctl -o short-unix), or an entry of
// journalctl -o json, whose message then lies in `scratch`. False for other lines and lines of other
// programs.
bool ParseLogLine(std::string_view line, std::string& scratch, LogLine& out);

}  // namespace gpulens::kernel_log
