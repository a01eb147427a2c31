// Any bytes as a page: quantiles ascend, and none is infinite.
#include <cmath>
#include <cstdlib>

#include "src/compat/vllm_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  for (const char* type : {"", "application/openmetrics-text; version=1.0.0; charset=utf-8"}) {
    const auto read = ReadVllmPage(page, type);
    if (!read) continue;
    const double values[] = {read->ttft_p50_seconds, read->ttft_p95_seconds, read->ttft_p99_seconds,
                             read->e2e_p50_seconds, read->e2e_p95_seconds};
    for (double value : values) {
      if (std::isinf(value)) std::abort();
    }
    const double rounding = 1e-9 * std::abs(values[1]);
    if (values[0] > values[1] + rounding || values[1] > values[2] + 1e-9 * std::abs(values[2])) std::abort();
  }
  return 0;
}
