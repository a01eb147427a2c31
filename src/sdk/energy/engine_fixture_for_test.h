// An engine whose time and readings a test controls.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include <gpulens/energy.h>

#include "sdk/energy/engine.h"
#include "sdk/energy/fake_source_for_test.h"

namespace gpulens::sdk {

class Fixture {
 public:
  explicit Fixture(EnergyVendor vendor = EnergyVendor::kNvidia)
      : source(std::make_shared<FakeSource>(clock, vendor)) {}

  // Reads `other` instead of `source`, if given.
  DeviceLedger* Start(const EnergyOptions& options = {}, std::shared_ptr<EnergySource> other = {}) {
    engine = std::make_unique<EnergyEngine>(other ? EnergySources{std::move(other)} : EnergySources{source},
                                            clock);
    engine->Open();
    ledger = engine->AddLedger(options);
    engine->Round(true);
    return ledger;
  }
  void Pass(Duration time, Duration every = std::chrono::milliseconds(50)) {
    for (Duration gone{0}; gone < time; gone += every) {
      clock.Advance(std::min(every, time - gone));
      engine->Round(true);
    }
  }
  WindowSlot* Begin(bool shares = false) { return engine->pool().Begin(ledger, shares, engine->Now()); }
  EnergyResult End(WindowSlot* slot) {
    slot->End(engine->Now());
    EnergyResult result = engine->ResultOf(*slot, 0);
    engine->pool().Release(slot);
    return result;
  }

  ManualClock clock{{1'000'000'000'000, 0}};
  std::shared_ptr<FakeSource> source;
  std::unique_ptr<EnergyEngine> engine;
  DeviceLedger* ledger = nullptr;
};

}  // namespace gpulens::sdk
