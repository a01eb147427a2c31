// Checks on any page do not crash, and every reading is of a known GPU.
#include <cstdlib>

#include "cli/check/check_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  auto read = ReadPage(std::string_view(reinterpret_cast<const char*>(data), size), AllCheckMetrics());
  if (!read) return 0;
  for (const CheckReading& reading : read->readings) {
    if (reading.gpu >= read->gpus.size()) std::abort();
  }
  for (const CheckSpec& check : AllChecks()) {
    CheckResult result = Evaluate(check, *read, {});
    if (result.text.empty() || static_cast<int>(result.code) > 3) std::abort();
  }
  return 0;
}
