// The metrics of money, energy for tokens, idleness and carbon by the names of l9gpu (catalog/cost.def), from
// the readings that the ledger is given. docs/ledger.md has the formulas.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "catalog/cost.h"
#include "core/frame_writer.h"
#include "ledger/observation.h"
#include "plugins/analyzers/cost/cost_options.h"

namespace gpulens::cost {

// Whether a GPU is idle. Unknown until its utilization was below the threshold for the hold time, or once not
// below it. Idle ends when the utilization reaches twice the threshold, or was at or above it for the hold
// time, so that a GPU near the threshold does not change all the time.
class IdleState {
 public:
  // `utilization` from 0 to 1; none: the use is unknown, and so is the state from now on. Times on one clock.
  void Observe(std::optional<double> utilization, int64_t at_ns, double below, Duration hold) noexcept;
  std::optional<bool> idle() const noexcept { return idle_; }

 private:
  std::optional<bool> idle_;
  int64_t since_ns_ = 0;  // of the use that contradicts idle_; 0: none
};

// Money of one stretch divided by its tokens. N_p x per_prompt + N_g x per_generation = cost.
struct TokenPrices {
  std::optional<double> per_prompt, per_generation;
};
// `prefill_share`: of the time in prefill and decode, 0 to 1. Where one kind of token has none, the other one
// has the whole cost. Empty without tokens, or when both have some and the share is unknown.
TokenPrices PricesOf(double cost, double prompt_tokens, double generated_tokens,
                     std::optional<double> prefill_share) noexcept;

// Not thread-safe. Does not allocate while GPUs and engines stay.
class CostMetrics {
 public:
  struct Options {
    double idle_below = 0.05;  // utilization
    Duration idle_hold = std::chrono::seconds(60);
    Duration window = std::chrono::seconds(60);  // of what is divided by tokens
    bool price_expected = true;                  // a price that is not known is a warning, not a note
  };

  explicit CostMetrics(const Options& options) : options_(options) {}

  // New readings of a tick. `entity` is that of the GPU, or of the engine's page; null: no series.
  void Observe(const ledger::GpuReading& reading, const EntityRef& entity);
  void Observe(const ledger::EngineReading& reading, const EntityRef& entity);
  // Once a tick, after its readings. Series of GPUs and engines end that were not read for two windows and
  // two of their intervals.
  void Write(Instant now, const LiveRates& rates, FrameWriter& out);

 private:
  struct Knot {
    int64_t at_ns = 0;
    int64_t energy_uj = 0;
  };
  struct Held {  // by an engine
    std::string engine;
    int64_t memory_bytes = 0;
    bool memory_known = true;
  };
  struct Gpu {
    std::string key, model;
    EntityRef entity;
    int64_t at_ns = 0, interval_ns = 0;
    std::optional<double> power_watts;
    IdleState idle;
    std::vector<Knot> knots;  // of the energy counter, oldest first; over the window
    std::vector<Held> held;
    std::array<Series, 6> series;
    bool renamed = false;        // the series are of an entity that was
    uint64_t rates_version = 0;  // whose price was logged
  };
  struct Work {
    int64_t at_ns = 0;
    double prompt = 0, generated = 0, prefill_s = 0, decode_s = 0;  // NaN: unknown
    double running = 0;
    double decoding_s = 0;  // decode_s by how many decoded at once, since the first page of `work`
  };
  struct Engine {
    std::string name;
    EntityRef entity;
    int64_t at_ns = 0, interval_ns = 0;
    std::vector<Work> work;  // oldest first; over the window
    std::string binding;     // of the series
    std::array<Series, 4> series;
    bool renamed = false;
  };
  // What an engine has of a GPU.
  struct Part {
    const Gpu* gpu = nullptr;
    double share = 1;
  };

  void WriteGpu(Gpu& gpu, Instant now, const LiveRates& rates, FrameWriter& out);
  void WriteEngine(Engine& engine, Instant now, const LiveRates& rates, FrameWriter& out);
  // Fills parts_ and returns by what they are the engine's; empty: nothing is known of them.
  std::string_view BindGpus(const Engine& engine);
  static std::optional<double> EnergyAt(const Gpu& gpu, int64_t at_ns) noexcept;  // joules
  void LogPrice(Gpu& gpu, const ledger::Rates& in_force, Instant now, const LiveRates& rates);

  const Options options_;
  std::vector<Gpu> gpus_;
  std::vector<Engine> engines_;
  std::vector<Part> parts_;                                  // of the engine that is written
  std::vector<std::pair<std::string, std::string>> logged_;  // by model: the origin of its price
  uint64_t writes_ = 0;
};

}  // namespace gpulens::cost
