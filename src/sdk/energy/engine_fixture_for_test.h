// An engine that is driven by hand: time passes when it is told to, and readings are taken then.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include <gpulens/energy.h>

#include "sdk/energy/engine.h"
#include "sdk/energy/fake_source_for_test.h"

namespace gpulens::sdk {

class Rig {
 public:
  explicit Rig(EnergyVendor vendor = EnergyVendor::kNvidia)
      : source(std::make_shared<FakeSource>(clock, vendor)) {}

  // Of another source than `source`, when one is given.
  Book* Start(const EnergyOptions& options = {}, std::shared_ptr<EnergySource> other = {}) {
    engine = std::make_unique<Engine>(other ? Sources{std::move(other)} : Sources{source}, clock);
    engine->Open();
    book = engine->AddBook(options);
    engine->Round(true);
    return book;
  }
  void Pass(Duration time, Duration every = std::chrono::milliseconds(50)) {
    for (Duration gone{0}; gone < time; gone += every) {
      clock.Advance(std::min(every, time - gone));
      engine->Round(true);
    }
  }
  WindowSlot* Begin(bool shares = false) { return engine->pool().Begin(book, shares, engine->Now()); }
  EnergyResult End(WindowSlot* slot) {
    slot->End(engine->Now());
    EnergyResult result = engine->ResultOf(*slot, 0);
    engine->pool().Release(slot);
    return result;
  }

  ManualClock clock{{1'000'000'000'000, 0}};
  std::shared_ptr<FakeSource> source;
  std::unique_ptr<Engine> engine;
  Book* book = nullptr;
};

}  // namespace gpulens::sdk
