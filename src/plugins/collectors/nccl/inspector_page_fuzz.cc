// Whatever a page of NCCL Inspector has: no crash, and numbers that can be true.
// Fuzz inputs: 20'000
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/text.h"
#include "plugins/collectors/nccl/inspector_pages.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using gpulens::InspectorPageContent;
  const auto content =
      gpulens::ParseInspectorPage(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!content.ok()) return 0;
  CHECK(content->means.size() <= InspectorPageContent::kMost);
  for (const gpulens::InspectorMeans& means : content->means) {
    CHECK(!means.operation.empty() && gpulens::IsUtf8(means.operation) && means.operation.size() <= 1024);
    CHECK(gpulens::IsUtf8(means.algorithm) && gpulens::IsUtf8(means.protocol));
    CHECK(means.rank >= -1 && means.ranks >= -1 && means.nodes >= -1);
    for (const double value : {means.duration_s, means.bandwidth, means.bus_bandwidth})
      CHECK(std::isnan(value) || (value > 0 && std::isfinite(value)));
  }
  return 0;
}
