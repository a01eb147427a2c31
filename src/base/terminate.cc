#include "base/terminate.h"

#include <unistd.h>
#include <unwind.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

// Where the file of this code is in memory; the linker defines it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" [[gnu::visibility("hidden")]] const char __ehdr_start;

namespace gpulens {
namespace {

void WriteError(const char* text, size_t size) noexcept {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, size);
}

void PrintReason(const char* what) noexcept {
  char text[256];
  const int size =
      std::snprintf(text, sizeof text, "gpulens: terminated by %.150s; calls, for addr2line -e:", what);
  if (size > 0) WriteError(text, static_cast<size_t>(size));
}

_Unwind_Reason_Code PrintFrame(_Unwind_Context* context, void* left) {
  const auto at = static_cast<uintptr_t>(_Unwind_GetIP(context));
  const auto begin = reinterpret_cast<uintptr_t>(&__ehdr_start);
  char text[32];
  // The call is before the address to which it returns.
  const int size = std::snprintf(text, sizeof text, " %#zx", static_cast<size_t>(at - begin - 1));
  if (size > 0) WriteError(text, static_cast<size_t>(size));
  return --*static_cast<int*>(left) > 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

}  // namespace

void PrintStackAndAbort() noexcept {
  try {
    if (std::current_exception()) throw;
    PrintReason("no exception");
  } catch (const std::exception& thrown) {
    PrintReason(thrown.what());
  } catch (...) {
    PrintReason("an exception of another type");
  }
  int left = 48;
  _Unwind_Backtrace(PrintFrame, &left);
  WriteError("\n", 1);
  std::abort();
}

}  // namespace gpulens
