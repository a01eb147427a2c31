// Keeps the requests of a load run as records in a store of inference calls (docs/telemetry.md).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include <gpulens/energy.h>
#include <gpulens/inference.h>

#include "cli/bench/load_observer.h"
#include "cli/bench/load_plan.h"

namespace gpulens {

// What became of them. A plain value.
struct BenchStored {
  std::string path, batch_id;
  uint64_t stored = 0, lost = 0;
  Status status = {};  // why some are lost
};

// A record for each request after the warm-up, failed and cut-off ones included: these say why, and have
// neither times nor tokens, as in the run's figures. One batch id for the run.
class BenchStore final : public LoadObserver {
 public:
  // `monitor` may be null: then joules are not known; else a record has its request's share of the devices.
  // It outlives the store. Errors as of InferenceStore::Open.
  static Result<std::unique_ptr<BenchStore>> Open(const std::string& path_or_url, const LoadPlan& plan,
                                                  std::string engine, EnergyMonitor* monitor);

  void OnSent(const LoadRequest& request) override;
  void OnFirstToken(const LoadRequest& request) override;
  void OnEnded(const LoadRequest& request, std::span<const double> gap_seconds) override;

  // Once, after the run's loop has stopped.
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
void AppendStoredJson(std::string& out, const BenchStored& stored);

}  // namespace gpulens
