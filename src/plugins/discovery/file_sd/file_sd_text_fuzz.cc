// Any bytes as a file of targets.

#include <cstddef>

#include "base/check.h"
#include "plugins/discovery/file_sd/file_sd.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::file_sd;
  auto groups = ParseGroups({reinterpret_cast<const char*>(data), size});
  if (!groups) {
    CHECK(!groups.error().detail.empty());
    return 0;
  }
  auto targets = ToTargets(*groups, "engine");
  if (!targets) return 0;
  CHECK(targets->size() <= kFileTargets);
  for (const gpulens::FoundTarget& target : *targets) {
    CHECK(target.url.starts_with("http://") || target.url.starts_with("https://"));
    CHECK(!target.name.empty());
    for (const auto& [key, value] : target.attributes) CHECK(!key.starts_with("__"));
  }
  return 0;
}
