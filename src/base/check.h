// CHECK: aborts with the location when the program itself is wrong; also in release builds. What input or the
// machine can cause is a Status instead.
#pragma once

namespace gpulens {

// Prints `condition` and the location to stderr and aborts. Async-signal-safe.
[[noreturn]] void CheckFailed(const char* condition, const char* file, int line) noexcept;

}  // namespace gpulens

#define CHECK(condition)                                \
  (__builtin_expect(static_cast<bool>(condition), true) \
       ? static_cast<void>(0)                           \
       : ::gpulens::CheckFailed(#condition, __FILE__, __LINE__))
