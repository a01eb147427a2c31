// What an engine's GPUs cost in an hour, divided among the requests of a proxy that ended in it. Pure.
//
// The ledger knows what the engine's GPUs drew and cost while it computed prompts, while it generated, and
// while no request was open. Prompts are divided by the prompt tokens that were computed (cached ones were
// not), generating by generated tokens. Tokens of the engine that no request of the proxy has are those of
// others, whose part is not divided among the proxy's. Where the engine's counters were not known nothing is
// divided.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ledger/request_split.h"

namespace gpulens {

// Money of the GPUs' time, by who had it, and energy.
struct EngineAmount {
  __int128 pico = 0, energy_uj = 0;

  EngineAmount& operator+=(const EngineAmount& other) noexcept {
    pico += other.pico, energy_uj += other.energy_uj;
    return *this;
  }
  bool operator==(const EngineAmount&) const = default;
};

// One engine, or several that serve the same provider, in one hour, as the ledger has it.
struct EngineHour {
  struct Class {
    EngineAmount amount;
    __int128 tokens = 0;
  };
  Class prefill, decode;
  EngineAmount held;     // no request was open
  EngineAmount unknown;  // its counters were not known
  __int128 time_ms = 0, priced_ms = 0;

  EngineAmount total() const noexcept {
    EngineAmount sum = prefill.amount;
    ((sum += decode.amount) += held) += unknown;
    return sum;
  }
};

// `requests`, `others`, `held` and `undivided` add up to EngineHour::total() exactly.
struct EngineParts {
  std::vector<EngineAmount> requests;  // in order
  EngineAmount others;                 // of tokens that are not the proxy's
  EngineAmount held;
  EngineAmount undivided;
};

EngineParts DivideHour(const EngineHour& hour, std::span<const ledger::RequestWork> requests);

}  // namespace gpulens
