// Keeps the requests of a load run as records in a store of inference calls (docs/telemetry.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <gpulens/energy.h>
#include <gpulens/inference.h>

#include "cli/bench/load_run.h"
#include "wire/json/json_object.h"

namespace gpulens {

// Energy of a run. A plain value. Unknown joules are NaN; the result has the reason.
struct BenchEnergy {
  EnergyResult run;
  // Includes the energy of prompts: devices do not separate it from that of answers.
  double joules_per_output_token = kNotMeasured;
  double joules_per_request = kNotMeasured;
};

// Measures the energy of this machine's devices from its construction on. Used by one thread.
class BenchMeter {
 public:
  // Reads energy only when the server is on this machine; `always` reads it for any address.
  BenchMeter(const LoadPlan& plan, bool always);
  // Returns the energy from the first due request after the warm-up to the end of the last one.
  BenchEnergy Measure(const LoadRecord& record, const LoadSummary& summary);
  // Null when the server's energy cannot be read here.
  EnergyMonitor* monitor() noexcept { return monitor_ ? &*monitor_ : nullptr; }

 private:
  std::optional<EnergyMonitor> monitor_;
  std::string why_;
};

// Whether a name or address of a URL is this machine's own.
bool IsLocalHost(std::string_view host) noexcept;

std::string EnergyText(const BenchEnergy& energy);
void AddEnergy(JsonObject& parent, const BenchEnergy& energy);

// How many records of a run were stored. A plain value.
struct BenchStored {
  std::string path, batch_id;
  uint64_t stored = 0, lost = 0;
  Status status = {};  // why some are lost
};

// Stores a record for each request after the warm-up under one batch id. Failed and cancelled requests have a
// reason, and neither times nor tokens, as in the run's figures.
class BenchStore final : public LoadObserver {
 public:
  // With a `monitor`, which outlives the store, each record has its request's share of the devices' energy.
  // Errors as of InferenceStore::Open.
  static Result<std::unique_ptr<BenchStore>> Open(const std::string& path_or_url, const LoadPlan& plan,
                                                  std::string engine, EnergyMonitor* monitor);

  void OnSent(const LoadRequest& request) override;
  void OnFirstToken(const LoadRequest& request) override;
  void OnEnded(const LoadRequest& request, std::span<const double> gap_seconds) override;

  // Called once, after the run's loop has stopped.
  BenchStored Close();

 private:
  BenchStore(InferenceStore store, const LoadPlan& plan, std::string engine, EnergyMonitor* monitor);

  InferenceStore store_;
  EnergyMonitor* const monitor_;
  const std::string model_, engine_, batch_id_;
  const bool stream_;
  const uint64_t warmup_;
  uint64_t given_ = 0;
  std::unordered_map<uint64_t, EnergyWindow> windows_;  // of the requests in flight, by their numbers
};

std::string StoredText(const BenchStored& stored);
void AddStored(JsonObject& parent, const BenchStored& stored);
// Adds a number with nine digits, or null for an unknown value.
void AddFigure(JsonObject& object, std::string_view key, double value);

}  // namespace gpulens
