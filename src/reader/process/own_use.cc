#include "reader/process/own_use.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/files.h"
#include "base/parse.h"

namespace gpulens::driver {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GPULENS_SANITIZED 1
#endif
#endif

#if !defined(GPULENS_SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void Lower(__rlimit_resource resource, rlim_t most) noexcept {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  static_cast<void>(::setrlimit(resource, &limit));
}
#endif

uint64_t EntriesOf(const char* folder) noexcept {
  DIR* open = ::opendir(folder);
  if (!open) return 0;
  uint64_t count = 0;
  while (const dirent* entry = ::readdir(open)) count += entry->d_name[0] != '.';
  ::closedir(open);
  return count;
}

}  // namespace

OwnUse ReadOwnUse() {
  OwnUse out;
  // "7000 6400 1200 …": pages in all, and of those in memory.
  const std::string text = ReadFile("/proc/self/statm", 256).value_or("");
  std::string_view rest = text;
  TakeUntil(rest, ' ');
  out.memory = ParseInt<uint64_t>(TakeUntil(rest, ' ')).value_or(0) * static_cast<uint64_t>(::getpagesize());
  out.files = EntriesOf("/proc/self/fd");
  if (out.files > 0) --out.files;  // The one by which they were counted.
  out.threads = EntriesOf("/proc/self/task");
  return out;
}

bool IsBeyond(const OwnUse& use, const OwnUse& most) noexcept {
  return use.memory > most.memory || use.files > most.files || use.threads > most.threads;
}

void LimitOwnUse() noexcept {
#if !defined(GPULENS_SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  Lower(RLIMIT_DATA, rlim_t{2} * kMostUse.memory);
  Lower(RLIMIT_NOFILE, rlim_t{2} * kMostUse.files);
#endif
}

}  // namespace gpulens::driver
