// Counts heap allocations of a whole process, for tools/bench.py: preloaded (LD_PRELOAD), it comes before
// the C library's functions and counts each call by thread into the file $GPULENS_BENCH_ALLOCATIONS.PID,
// which the bench reads while the process runs. Does nothing without that variable. Only glibc has the
// functions that it hands on to.
//
// The file: kSlots pairs of little-endian 64-bit numbers, {thread id, calls}; the last is for all
// threads that come after the others.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cerrno>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* at, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

constexpr size_t kSlots = 256;

struct Slot {
  std::atomic<uint64_t> thread, calls;
};

std::atomic<Slot*> g_slots = nullptr;
std::atomic<size_t> g_used = 0;
// Of a kind that needs no allocation itself.
__attribute__((tls_model("initial-exec"))) thread_local Slot* t_slot = nullptr;

__attribute__((constructor)) void Open() {
  const char* prefix = std::getenv("GPULENS_BENCH_ALLOCATIONS");
  if (!prefix) return;
  char path[4096];
  std::snprintf(path, sizeof path, "%s.%d", prefix, static_cast<int>(::getpid()));
  int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  constexpr size_t kBytes = kSlots * sizeof(Slot);
  void* at = MAP_FAILED;
  if (::ftruncate(file, kBytes) == 0)
    at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (at != MAP_FAILED) g_slots = static_cast<Slot*>(at);
}

void Count() noexcept {
  Slot* slots = g_slots.load(std::memory_order_acquire);
  if (!slots) return;
  if (!t_slot) {
    size_t mine = g_used.fetch_add(1);
    t_slot = &slots[mine < kSlots ? mine : kSlots - 1];
    t_slot->thread = static_cast<uint64_t>(::gettid());
  }
  t_slot->calls.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" {

void* malloc(size_t size) {
  Count();
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  Count();
  return __libc_calloc(count, size);
}

void* realloc(void* at, size_t size) {
  Count();
  return __libc_realloc(at, size);
}

void* memalign(size_t alignment, size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** at, size_t alignment, size_t size) {
  *at = memalign(alignment, size);
  return *at ? 0 : ENOMEM;
}
}
