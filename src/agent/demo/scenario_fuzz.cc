#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/demo/demo_node.h"
#include "agent/demo/engine_pages.h"
#include "sources/nvml/simulated/fake_profile.h"

// Any text is a scenario or an error; of a scenario the simulated library takes the profile, also with
// changes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  constexpr int64_t kNow = 1'234'567'890'123'456;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto scenario = demo::ParseScenario(text);
  if (!scenario) return 0;
  demo::DemoNode node(*std::move(scenario), {});
  static_cast<void>(node.Set("engine=all load=1.2 for=10s", kNow));
  if (!nvml::ParseFakeProfile(node.Profile(kNow))) std::abort();
  for (size_t i = 0; i < node.scenario().workloads.size(); ++i) demo::EnginePage(node, i, kNow);
  return 0;
}
