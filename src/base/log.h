// What the program says about itself: one line per changed state, on stderr.
//
// A line has a level, the part that speaks ("nvidia"), a stable id ("gpu_lost") that people alert
// on, and a sentence. The same (id, subject) is written at most once in 60 s, and at most 100 lines
// a second over all; the next line of the id tells how many were held back. Thread-safe.
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

// "info" or "info,nvidia=debug". kInvalidArgument names the word that is wrong. The format is kept.
Status SetLogLevels(std::string_view levels);
// Call once at start, before threads. Text on a terminal is local time, elsewhere UTC.
void SetLogOptions(const LogOptions& options);
// True when a line of this level and part would be written: guard costly messages with it.
bool LogEnabled(LogLevel level, std::string_view part) noexcept;
// `subject` is what the line is about when several may be in the same state: a target, a GPU.
void Log(LogLevel level, std::string_view part, std::string_view id, std::string_view message,
         std::string_view subject = {});

struct LogCounts {
  uint64_t written[5] = {};  // by level, kTrace first
  uint64_t suppressed[5] = {};
};
LogCounts CurrentLogCounts() noexcept;

}  // namespace gpulens
