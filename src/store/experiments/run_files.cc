#include "store/experiments/run_files.h"

#include <pwd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/text.h"
#include "wire/json/json_text.h"

namespace gpulens::experiments {
namespace {

std::string HomeFolder() {
  if (const char* home = std::getenv("HOME"); home && *home) return home;
  passwd entry{}, *found = nullptr;
  std::vector<char> room(16 << 10);
  bool known = ::getpwuid_r(::getuid(), &entry, room.data(), room.size(), &found) == 0 && found;
  return known && entry.pw_dir ? entry.pw_dir : "";
}

}  // namespace

Result<std::string> FindDatabase(std::string_view given) {
  std::string path(given);
  if (path.empty()) {
    const char* named = std::getenv("GPULENS_EXPERIMENTS_DB");
    path = named && *named ? named : "~/.gpulens/experiments.db";
  }
  if (!path.starts_with("~/")) return path;
  std::string home = HomeFolder();
  if (home.empty())
    return Status{Code::kInvalidArgument, "no home folder for " + path + "; set GPULENS_EXPERIMENTS_DB"};
  return home + path.substr(1);
}

std::string MakeRunId(int64_t unix_ns) {
  std::string time;
  AppendRfc3339(time, unix_ns);  // 2026-11-21T02:07:01.120Z
  uint32_t chance = 0;
  if (::getrandom(&chance, sizeof chance, 0) != sizeof chance)
    chance = static_cast<uint32_t>(unix_ns) ^ static_cast<uint32_t>(::getpid()) << 16;
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", chance);
  return "exp-" + time.substr(0, 4) + time.substr(5, 2) + time.substr(8, 2) + "-" + time.substr(11, 2) +
         time.substr(14, 2) + time.substr(17, 2) + "-" + digits;
}

bool IsRunId(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMostIdBytes || text.front() == '.') return false;
  for (char c : text) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                c == '_' || c == '-';
    if (!good) return false;
  }
  return true;
}

bool IsKey(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMostKeyBytes || !IsUtf8(text)) return false;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

std::string RunFolder(const std::string& database, std::string_view id, bool old) {
  size_t slash = database.rfind('/');
  std::string folder = slash == std::string::npos ? "." : database.substr(0, slash);
  return folder + (old ? "/" : "/runs/") + std::string(id);
}

std::string LogPath(const std::string& database, std::string_view id, bool old) {
  return RunFolder(database, id, old) + "/output.log";
}

}  // namespace gpulens::experiments
