// CHECK: crash, with the place, when the program itself is wrong. Always compiled in.
// Never for anything that outside bytes or the machine can cause: that is a Status.
#pragma once

namespace gpulens {

// Prints `condition` and the place to stderr and aborts. Async-signal-safe.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line) noexcept;

}  // namespace gpulens

#define CHECK(condition)                                \
  (__builtin_expect(static_cast<bool>(condition), true) \
       ? static_cast<void>(0)                           \
       : ::gpulens::CheckFailed(#condition, __FILE__, __LINE__))
