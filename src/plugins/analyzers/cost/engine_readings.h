// The work of LLM engines that the ledger is given, from the inference.* series of a tick.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame.h"
#include "ledger/observation.h"
#include "plugins/analyzers/cost/engine_binding.h"

namespace gpulens::cost {

// Follows the layouts of a tick's frames. Not thread-safe. Does not allocate while layouts stay.
//
// Only what computes tokens counts: of the layers of a page, "engine" (else "worker"), never a router or a
// gateway, which count the same tokens. Series of tensor and pipeline ranks are copies: the lowest counts.
// While a series of the page is stale there is no reading: a part would pass for the whole.
class EngineReadings {
 public:
  // Further pages are not read, nor further models of one.
  static constexpr size_t kMostEngines = 256, kMostModels = 64;

  // Follows the frames. True: an engine came, went, or has another identity.
  bool Follow(const Snapshot& snapshot);
  const std::vector<EngineIdentity>& engines() const noexcept { return engines_; }
  // The entity of an engine's page in the last tick; null: none.
  EntityRef EngineEntity(std::string_view engine) const;
  // Returns what is new since the last call. Valid until the next Follow.
  std::span<const ledger::EngineReading* const> Take(const Snapshot& snapshot);

 private:
  struct Input {
    uint32_t cell = 0, slot = 0;
    double ledger::EngineWork::* number = nullptr;
    double sign = 1;
    size_t work = 0;  // in the reading
  };
  struct Engine {
    EngineIdentity identity;
    EntityRef entity;
    std::vector<Input> inputs;
    ledger::EngineReading reading;
    int64_t last_at_ns = 0;
  };
  struct Source {
    std::string name;
    uint64_t layout_id = 0, run = 0;
    bool seen = false, fresh = false;
    std::vector<Engine> engines;
  };

  static void Plan(const Frame& frame, Source& source);
  static bool Read(const Frame& frame, Engine& engine);
  void List();

  std::vector<Source> sources_;
  std::vector<EngineIdentity> engines_;
  std::vector<const ledger::EngineReading*> out_;
};

}  // namespace gpulens::cost
