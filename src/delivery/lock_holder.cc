#include "delivery/lock_holder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "delivery/log_folder.h"

namespace gpulens {
namespace {

constexpr size_t kLocksLimit = 4 << 20;

// "1: FLOCK  ADVISORY  WRITE 4711 fe:00:11722774 0 EOF"
struct LockLine {
  int64_t pid = 0;
  uint64_t device = 0, inode = 0;
};

std::optional<LockLine> ParseLockLine(std::string_view line) {
  std::string_view words[6];
  for (std::string_view& word : words) {
    line = Trim(line);
    word = line.substr(0, line.find(' '));
    line.remove_prefix(word.size());
  }
  if (words[1] != "FLOCK" || words[3] != "WRITE") return std::nullopt;
  const size_t first = words[5].find(':'), last = words[5].rfind(':');
  if (first == words[5].npos || first == last) return std::nullopt;
  const auto pid = ParseInt<int64_t>(words[4]);
  const auto major = ParseInt<uint32_t>(words[5].substr(0, first), 16);
  const auto minor = ParseInt<uint32_t>(words[5].substr(first + 1, last - first - 1), 16);
  const auto inode = ParseInt<uint64_t>(words[5].substr(last + 1));
  if (!pid || !major || !minor || !inode) return std::nullopt;
  return LockLine{*pid, makedev(*major, *minor), *inode};
}

}  // namespace

std::optional<int64_t> LockHolder(int folder) {
  UniqueFd lock(::openat(folder, kLockName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info{};
  if (!lock || ::fstat(lock.get(), &info) != 0) return std::nullopt;
  char text[24] = {};
  const ssize_t count = ::pread(lock.get(), text, sizeof text, 0);
  const auto named = ParseInt<int64_t>(Trim({text, static_cast<size_t>(std::max<ssize_t>(count, 0))}));
  const auto locks = ReadFile("/proc/locks", kLocksLimit);
  if (!locks) return std::nullopt;
  for (std::string_view rest = *locks; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto one = ParseLockLine(line);
    // Some file systems have another device in this list than in stat(2).
    if (!one || one->inode != info.st_ino || (one->device != info.st_dev && one->pid != named)) continue;
    return std::max<int64_t>(one->pid, 0);
  }
  return std::nullopt;
}

}  // namespace gpulens
