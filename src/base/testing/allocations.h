// Counts heap allocations of a test program: linking this and calling one of its functions replaces
// operator new. For tests that show that a steady run makes none. Thread-safe.
#pragma once

#include <cstdint>

namespace gpulens {

// False where a sanitizer insists on an operator new of its own (tsan): then both counts stay 0.
bool AllocationsAreCounted() noexcept;
// Allocations since the start: of the calling thread, and of all threads.
uint64_t ThreadAllocations() noexcept;
uint64_t AllAllocations() noexcept;

}  // namespace gpulens
