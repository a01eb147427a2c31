// Log of the program on stderr: one line per change of state. Thread-safe.
//
// A line has a level, a component ("nvidia"), a stable id ("gpu_lost") for alerts, and a sentence. A line of
// the same component, id and subject is written at most once in 60 s, and at most 100 lines a second overall;
// the next line has the number of suppressed ones.
#pragma once

#include <cstdint>
#include <string_view>

#include <gpulens/status.h>

namespace gpulens {

enum class LogLevel : uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class LogFormat : uint8_t { kText, kJournal, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  bool utc = true;
};

// Parses "info" or "info,nvidia=debug". kInvalidArgument names the wrong word. Keeps the format.
Status SetLogLevels(std::string_view levels);
// Call once at start, before threads. Text on a terminal is local time, elsewhere UTC.
void SetLogOptions(const LogOptions& options);
// Whether a line of this level and component would be written: a guard for costly messages.
bool LogEnabled(LogLevel level, std::string_view part) noexcept;
// `subject` distinguishes lines of one id: a target, a GPU.
void Log(LogLevel level, std::string_view part, std::string_view id, std::string_view message,
         std::string_view subject = {});

struct LogCounts {
  uint64_t written[5] = {};  // by level, kTrace first
  uint64_t suppressed[5] = {};
};
LogCounts CurrentLogCounts() noexcept;

// Call HoldLog before a fork, and ReleaseLog after it in parent and child: else the child's log may stay
// locked for ever.
void HoldLog() noexcept;
void ReleaseLog() noexcept;

}  // namespace gpulens
