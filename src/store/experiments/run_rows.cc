#include "store/experiments/run_rows.h"

#include <unistd.h>

#include <algorithm>
#include <climits>

#include "base/clock.h"
#include "base/files.h"
#include "base/parse.h"
#include "wire/json/json_text.h"

namespace gpulens::experiments {
namespace {

// Field 22 of /proc/PID/stat. The name of the program, field 2, may hold anything, blanks and brackets too.
std::optional<int64_t> StartTicks(int64_t pid) {
  auto text = ReadFile("/proc/" + std::to_string(pid) + "/stat", 4096);
  if (!text) return std::nullopt;
  size_t close = text->rfind(')');
  if (close == std::string::npos) return std::nullopt;
  std::string_view rest = Trim(std::string_view(*text).substr(close + 1));
  std::string_view state = TakeUntil(rest, ' ');
  if (state == "Z" || state == "X") return std::nullopt;
  for (int field = 4; field < 22; ++field) TakeUntil(rest, ' ');
  return ParseInt<int64_t>(TakeUntil(rest, ' '));
}

std::string LinkOf(const char* path) {
  char target[256];
  ssize_t size = ::readlink(path, target, sizeof target);
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : std::string();
}

}  // namespace

double RunRow::duration_seconds(int64_t now_ns) const noexcept {
  if (!ended_ns && status != kRunning) return kNotMeasured;
  return static_cast<double>(std::max<int64_t>(0, ended_ns.value_or(now_ns) - started_ns)) / 1e9;
}

std::string ValueText(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* yes = std::get_if<bool>(&value)) return *yes ? "true" : "false";
  std::string out;
  if (const auto* whole = std::get_if<int64_t>(&value)) {
    AppendJsonInt(out, *whole);
    return out;
  }
  const double number = std::get<double>(value);
  if (number != number) return "nan";
  if (number == std::numeric_limits<double>::infinity()) return "inf";
  if (number == -std::numeric_limits<double>::infinity()) return "-inf";
  AppendJsonNumber(out, number);
  return out;
}

Observer HereAndNow() {
  Observer here;
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) == 0) here.host = name;
  auto boot = ReadFile(std::string("/proc/sys/kernel/random/boot_id"), 128);
  std::string space = LinkOf("/proc/self/ns/pid");
  if (boot && !space.empty()) here.place = std::string(Trim(*boot)) + " " + space;
  here.now_ns = RealClock().Now().unix_ns;
  here.start_of = &StartTicks;
  return here;
}

ProcessRow ThisProcess(const Observer& here) {
  ProcessRow row;
  row.host = here.host;
  row.place = here.place;
  row.pid = ::getpid();
  row.start_ticks = here.start_of(row.pid).value_or(0);
  row.started_ns = row.heartbeat_ns = here.now_ns;
  return row;
}

bool IsAlive(const ProcessRow& process, const Observer& observer) {
  if (process.ended_ns) return false;
  const bool ours = !process.place.empty() && process.place == observer.place && process.start_ticks > 0;
  if (ours) return observer.start_of(process.pid) == process.start_ticks;
  // A clock that is ahead of ours is no sign of death.
  const int64_t limit = std::max(kLeastHeartbeatLimitNs, kMissedHeartbeats * process.heartbeat_every_ns);
  return observer.now_ns - process.heartbeat_ns <= limit;
}

}  // namespace gpulens::experiments
