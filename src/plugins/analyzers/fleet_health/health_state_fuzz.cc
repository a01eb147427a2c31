// The state file may be of another version, cut, or damaged. Accepted values are equal after they are written
// and read again.

#include <cstdlib>

#include "plugins/analyzers/fleet_health/health_window.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  auto gpus = DecodeHealthFile(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!gpus) return 0;
  for (const SavedGpu& gpu : *gpus) {
    if (gpu.key.empty() || gpu.moments.size() > HealthWindow::kMoments) std::abort();
  }
  std::string text = EncodeHealthFile(*gpus);
  auto again = DecodeHealthFile(text);
  if (!again || again->size() != gpus->size() || EncodeHealthFile(*again) != text) std::abort();
  return 0;
}
