// Faults drawn by the fuzzer: a faulty GPU is never reported as healthy.
// Fuzz inputs: 20000

#include <cstdlib>

#include "plugins/analyzers/fleet_health/health_random_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  using namespace gpulens::health_world;
  size_t at = 0;
  Draw draw = [&](size_t limit) { return at < size ? data[at++] % limit : 0; };
  World world(2);
  std::vector<Truth> truths(world.size());
  std::vector<int> lasted(world.size());
  while (at < size) {
    size_t changed = draw(world.size());
    ChangeTruth(truths[changed], draw);
    lasted[changed] = 0;
    for (size_t ticks = draw(40) + 1; ticks > 0; --ticks) {
      for (size_t gpu = 0; gpu < world.size(); ++gpu) Show(world, gpu, truths[gpu]);
      world.Tick(std::chrono::seconds(1));
      for (size_t gpu = 0; gpu < world.size(); ++gpu) {
        if (!FalseClear(truths[gpu], world.result(gpu), lasted[gpu]++).empty()) std::abort();
      }
    }
  }
  return 0;
}
