#include "base/check.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace gpulens {

void CheckFailed(const char* condition, const char* file, int line) noexcept {
  char text[512];
  int size = std::snprintf(text, sizeof text, "gpulens: CHECK failed: %s at %s:%d\n", condition, file, line);
  if (size > 0) {
    size_t length = static_cast<size_t>(size) < sizeof text ? static_cast<size_t>(size) : sizeof text - 1;
    [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, length);
  }
  std::abort();
}

}  // namespace gpulens
