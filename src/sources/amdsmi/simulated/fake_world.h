// The simulated machine: which profile holds now, what each GPU shows at a moment, and the gate that every
// call passes, where errors and hangs are put in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "sources/amdsmi/simulated/fake_profile.h"

namespace gpulens::amdsmi {

// One GPU, or one partition of it, at one moment.
struct FakeView {
  std::shared_ptr<const FakeProfile> profile;
  const FakeModel* model = nullptr;
  unsigned gpu = 0, partition = 0;
  double busy = 0;
  double since_open = 0;  // Seconds: what rules go by.
  double seconds = 0;     // Since the machine was started.
  unsigned power_w = 0, temperature = 0, clock = 0;
  uint64_t total = 0, used = 0;
  double joules = 0, link_kib = 0;  // Of one link, in one direction.
  std::vector<FakeProcess> processes;

  // Seconds for which the cause has held the clock down; now, whether it does.
  double Throttled(FakeThrottle::Cause cause) const noexcept;
  bool Throttles(FakeThrottle::Cause cause) const noexcept;
  uint64_t Errors(unsigned block, FakeErrors::Type type) const noexcept;
};

// Thread-safe. A hang sleeps without the lock.
class FakeWorld final : public reader::FakeMachine<FakeProfile, kMaxFakeGpus> {
 public:
  static FakeWorld& Get();

  // In place of GPULENS_FAKE_AMDSMI, for tests in this process. `clock` outlives its use; null: the
  // machine's.
  Status Use(const std::string& yaml, const Clock* clock);

  // amdsmi_init: reads the profile that GPULENS_FAKE_AMDSMI names, else the default; starts the time of
  // rules. The library's code.
  int Open();

  // Counts the call; then waits while it is to hang, and answers the code it is to fail with. `gpu` -1: a
  // call that takes none.
  int Enter(const char* call, int gpu);
  FakeView View(unsigned gpu, unsigned partition);

 private:
  FakeWorld();
};

// A SymbolLookup. Null for a symbol it does not have, or that the profile lists as missing.
void* FakeAmdsmiLookup(const char* name);

}  // namespace gpulens::amdsmi
