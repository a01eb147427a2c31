// What the allocator keeps of memory that was freed.
#pragma once

namespace gpulens {

// Gives whole pages of freed memory back to the machine. For after rare, large work (a page read for the
// first time, texts made anew); costs up to a millisecond. Thread-safe.
void ReturnFreedMemory() noexcept;

}  // namespace gpulens
