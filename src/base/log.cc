#include "base/log.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr std::array<std::string_view, 6> kLevelNames = {"trace", "debug", "info", "warn", "error", "off"};
constexpr std::array<std::string_view, 5> kShownLevels = {"TRACE", "DEBUG", "INFO", "WARN", "ERROR"};
// syslog severities, as systemd reads them at the start of a line.
constexpr std::array<std::string_view, 5> kJournalPriority = {"<7>", "<7>", "<6>", "<4>", "<3>"};
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kRepeatWindow = 60 * kSecond;
constexpr int kLinesPerSecond = 100;
constexpr size_t kRememberedLines = 1024;

struct Held {
  int64_t since = 0;
  uint64_t count = 0;
};

struct LogState {
  std::mutex mutex;
  LogOptions options;
  std::vector<std::pair<std::string, LogLevel>> per_part;
  std::unordered_map<std::string, Held> recent;
  int64_t second = 0;
  int lines_this_second = 0;
  uint64_t dropped_over_rate = 0;
  LogCounts counts;
};

// Read without the lock, so that a disabled debug line costs one load.
std::atomic<LogLevel> lowest_level{LogLevel::kInfo};

LogState& TheState() {
  static LogState* state = new LogState;  // Never destroyed: threads may log while the process exits.
  return *state;
}

bool ParseLevel(std::string_view word, LogLevel& level) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == word) return level = static_cast<LogLevel>(i), true;
  }
  return false;
}

LogLevel LevelOf(const LogState& state, std::string_view part) {
  for (const auto& [name, level] : state.per_part) {
    if (name == part) return level;
  }
  return state.options.level;
}

void StoreLowestLevel(const LogState& state) {
  LogLevel lowest = state.options.level;
  for (const auto& [name, level] : state.per_part) lowest = level < lowest ? level : lowest;
  lowest_level.store(lowest, std::memory_order_relaxed);
}

std::string Timestamp(const LogOptions& options, int64_t unix_ns) {
  time_t seconds = static_cast<time_t>(unix_ns / kSecond);
  int ms = static_cast<int>(unix_ns / 1'000'000 % 1000);
  tm parts{};
  bool local = options.format == LogFormat::kText && !options.utc;
  local ? ::localtime_r(&seconds, &parts) : ::gmtime_r(&seconds, &parts);
  char day[32];
  size_t size = std::strftime(day, sizeof day, local ? "%H:%M:%S" : "%Y-%m-%dT%H:%M:%S", &parts);
  char out[48];
  std::snprintf(out, sizeof out, "%.*s.%03d%s", static_cast<int>(size), day, ms, local ? "" : "Z");
  return out;
}

struct LineParts {
  int64_t unix_ns;
  LogLevel level;
  std::string_view part, id, message;
  uint64_t held_back;
};

std::string Render(const LogOptions& options, const LineParts& line_parts) {
  const auto& [unix_ns, level, part, id, message, held_back] = line_parts;
  size_t l = static_cast<size_t>(level);
  std::string again = held_back ? " (+" + std::to_string(held_back) + " in 60 s)" : "";
  std::string line;
  if (options.format == LogFormat::kJson) {
    line = "{\"ts\":\"" + Timestamp(options, unix_ns) + "\",\"level\":\"" + std::string(kLevelNames[l]) +
           "\",\"part\":";
    AppendJsonString(line, part);
    line += ",\"id\":";
    AppendJsonString(line, id);
    line += ",\"msg\":";
    AppendJsonString(line, message);
    if (held_back) line += ",\"held_back\":" + std::to_string(held_back);
    return line + "}\n";
  }
  if (options.format == LogFormat::kJournal) {
    line = kJournalPriority[l];
  } else {
    line = Timestamp(options, unix_ns) + " ";
    line += kShownLevels[l];
    line.append(6 - kShownLevels[l].size(), ' ');
  }
  line += part;
  line.append(part.size() < 8 ? 9 - part.size() : 1, ' ');
  AppendPrintable(line, message);
  line += " [" + std::string(id) + "]" + again + "\n";
  return line;
}

// Whether a line is written; sets `held_back` to the number of suppressed ones before it.
bool Admit(LogState& state, int64_t now, const std::string& key, uint64_t& held_back) {
  if (state.recent.size() >= kRememberedLines) state.recent.clear();
  Held& held = state.recent[key];
  if (held.since != 0 && now - held.since < kRepeatWindow) return ++held.count, false;
  if (now / kSecond != state.second) {
    state.second = now / kSecond;
    state.lines_this_second = 0;
  }
  if (++state.lines_this_second > kLinesPerSecond) return ++state.dropped_over_rate, false;
  held_back = std::exchange(held.count, 0);
  held.since = now;
  return true;
}

void WriteLine(const std::string& line) noexcept {
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

Status SetLogLevels(std::string_view levels) {
  LogLevel common = LogLevel::kInfo;
  std::vector<std::pair<std::string, LogLevel>> per_part;
  while (!levels.empty()) {
    std::string_view word = Trim(TakeUntil(levels, ','));
    size_t equals = word.find('=');
    LogLevel level{};
    if (!ParseLevel(equals == word.npos ? word : word.substr(equals + 1), level)) {
      return {Code::kInvalidArgument, "log level \"" + std::string(word) +
                                          "\": expected trace debug info warn error off, or component=level"};
    }
    if (equals == word.npos) common = level;
    else per_part.emplace_back(word.substr(0, equals), level);
  }
  LogState& state = TheState();
  std::lock_guard lock(state.mutex);
  state.options.level = common;
  state.per_part = std::move(per_part);
  StoreLowestLevel(state);
  return Ok();
}

void SetLogOptions(const LogOptions& options) {
  LogState& state = TheState();
  std::lock_guard lock(state.mutex);
  state.options = options;
  StoreLowestLevel(state);
}

bool LogEnabled(LogLevel level, std::string_view part) noexcept {
  if (level < lowest_level.load(std::memory_order_relaxed)) return false;
  LogState& state = TheState();
  std::lock_guard lock(state.mutex);
  return level >= LevelOf(state, part);
}

void Log(LogLevel level, std::string_view part, std::string_view id, std::string_view message,
         std::string_view subject) {
  if (level < lowest_level.load(std::memory_order_relaxed) || level >= LogLevel::kOff) return;
  LogState& state = TheState();
  std::lock_guard lock(state.mutex);
  if (level < LevelOf(state, part)) return;
  Instant now = RealClock().Now();
  uint64_t held_back = 0;
  std::string key = std::string(part) + '\0' + std::string(id) + '\0' + std::string(subject);
  size_t l = static_cast<size_t>(level);
  if (level > LogLevel::kDebug && !Admit(state, now.boot_ns, key, held_back)) {
    ++state.counts.suppressed[l];
    return;
  }
  if (uint64_t dropped = std::exchange(state.dropped_over_rate, 0)) {
    std::string text = std::to_string(dropped) + " lines dropped: more than 100 in one second.";
    WriteLine(Render(state.options, {now.unix_ns, LogLevel::kWarn, "log", "log_dropped", text, 0}));
  }
  ++state.counts.written[l];
  WriteLine(Render(state.options, {now.unix_ns, level, part, id, message, held_back}));
}

void HoldLog() noexcept { TheState().mutex.lock(); }
void ReleaseLog() noexcept { TheState().mutex.unlock(); }

LogCounts CurrentLogCounts() noexcept {
  LogState& state = TheState();
  std::lock_guard lock(state.mutex);
  return state.counts;
}

}  // namespace gpulens
