#include "base/memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"

namespace gpulens {
namespace {

constexpr int64_t kCheckEvery = 100'000'000, kTrimEvery = 1'000'000'000;
// Series of some hundred kilobytes together.
constexpr uint64_t kCallsPerCheck = 256;
constexpr double kMiB = 1 << 20;

std::string MiB(uint64_t bytes) {
  return std::to_string(static_cast<int>(static_cast<double>(bytes) / kMiB)) + " MiB";
}

}  // namespace

bool MemoryWatch::HasRoom() {
  if (limit_ == 0) return true;
  const bool turn = calls_.fetch_add(1, std::memory_order_relaxed) % kCallsPerCheck == 0;
  const int64_t now = clock_.Now().boot_ns, checked = checked_ns_;
  if (turn || checked == INT64_MIN || now - checked >= kCheckEvery) Check(now);
  return room_;
}

void MemoryWatch::Check(int64_t now) {
  std::unique_lock lock(checking_, std::try_to_lock);
  if (!lock) return;  // another thread checks
  checked_ns_ = now;
  uint64_t used = used_();
  // Freed memory that was not returned to the system does not count.
  if (used > limit_ && (trimmed_ns_ == INT64_MIN || now - trimmed_ns_ >= kTrimEvery)) {
    trimmed_ns_ = now;
    ::malloc_trim(0);
    used = used_();
  }
  const bool room = used <= limit_;
  if (room_.exchange(room) == room) return;
  if (room)
    Log(LogLevel::kInfo, "agent", "memory_below_limit", "series of pages and programs are accepted again.");
  else
    Log(LogLevel::kWarn, "agent", "memory_limit",
        MiB(used) + " are in use, above limits.memory of " + MiB(limit_) +
            ": new series of pages and programs are refused and counted.");
}

uint64_t ResidentBytes(pid_t pid, bool shared) {
  const auto text = ReadFile("/proc/" + (pid == 0 ? "self" : std::to_string(pid)) + "/statm", 256);
  if (!text) return 0;
  std::string_view rest = *text;
  TakeUntil(rest, ' ');
  const auto resident = ParseInt<uint64_t>(TakeUntil(rest, ' '));
  const auto of_files = ParseInt<uint64_t>(TakeUntil(rest, ' '));
  if (!resident || !of_files) return 0;
  const uint64_t pages = shared ? *resident : *resident - std::min(*resident, *of_files);
  return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void ReleaseStartPages() noexcept {
  ::malloc_trim(0);
  // The first object is the program. Writable pages, also those that relocation has written, stay.
  auto release = [](dl_phdr_info* object, size_t, void*) {
    const auto page = static_cast<uintptr_t>(::getpagesize());
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = object->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
      uintptr_t from = object->dlpi_addr + part.p_vaddr, to = from + part.p_filesz;
      from = (from + page - 1) & ~(page - 1);  // whole pages, none shared with a neighbour
      to &= ~(page - 1);
      if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
    }
    return 1;
  };
  ::dl_iterate_phdr(release, nullptr);
}

}  // namespace gpulens
