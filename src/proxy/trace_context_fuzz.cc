#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "proxy/trace_context.h"

// What is read is written so that it is read again as the same.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::proxy;
  const auto read = ParseTraceparent({reinterpret_cast<const char*>(data), size});
  if (!read) return 0;
  std::string written;
  AppendTraceparent(written, *read);
  CHECK(ParseTraceparent(written) == read);
  return 0;
}
