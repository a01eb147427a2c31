#include "base/testing/allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "base/sanitizers.h"

namespace {

thread_local uint64_t of_thread = 0;
std::atomic<uint64_t> of_all{0};

#ifndef GPULENS_THREAD_SANITIZER
void* Allocate(size_t size) noexcept {
  ++of_thread;
  of_all.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size ? size : 1);
}

void* AllocateOrThrow(size_t size) {
  void* block = Allocate(size);
  if (!block) throw std::bad_alloc();
  return block;
}
#endif

}  // namespace

#ifndef GPULENS_THREAD_SANITIZER
void* operator new(size_t size) { return AllocateOrThrow(size); }
void* operator new[](size_t size) { return AllocateOrThrow(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t) noexcept { std::free(block); }
void operator delete[](void* block, size_t) noexcept { std::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { std::free(block); }
#endif

namespace gpulens {

bool AllocationsAreCounted() noexcept {
#ifdef GPULENS_THREAD_SANITIZER
  return false;
#else
  return true;
#endif
}

uint64_t ThreadAllocations() noexcept { return of_thread; }
uint64_t AllAllocations() noexcept { return of_all.load(std::memory_order_relaxed); }

}  // namespace gpulens
