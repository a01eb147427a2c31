// Readings of GPUs by native name for `gpulens check`, from a running agent or from collectors in this
// process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame.h"
#include "plugins/config.h"

namespace gpulens {

// A metric, and the attributes that its series must have. An empty key matches all.
struct CheckInput {
  const MetricDesc* metric = nullptr;
  std::string_view key = {}, value = {};
  std::string_view key2 = {}, value2 = {};
};

struct CheckReading {
  const MetricDesc* metric = nullptr;
  size_t gpu = 0;  // index into CheckData::gpus
  std::map<std::string, std::string, std::less<>> attributes;
  double value = 0;
  bool stale = false;

  // Empty when absent.
  std::string_view Attribute(std::string_view name) const {
    auto at = attributes.find(name);
    return at == attributes.end() ? std::string_view{} : at->second;
  }
};

// Whether the reading is of the metric and has the attributes.
bool Fits(const CheckReading& reading, const CheckInput& input);

struct CheckGpu {
  std::string key;    // its uuid; without one, its index
  std::string label;  // "2"
};

// Plain values; made once, then only read. GPUs are sorted by label.
struct CheckData {
  std::string source;  // "the agent at http://127.0.0.1:9091", "NVML, read here"
  bool simulated = false;
  bool watched = false;  // read from a running agent, which counts events since its start
  double expected = 0;   // GPUs that the host should have; 0: unknown
  std::vector<CheckGpu> gpus;
  std::vector<CheckReading> readings;
  std::vector<CheckReading> host;  // of the machine and its switches

  // Returns the sum of all fresh series of the input on the GPU; absent when there is none, or one is stale.
  std::optional<double> Sum(size_t gpu, const CheckInput& input) const;
  // Returns every fresh series of the metric on the GPU.
  std::vector<const CheckReading*> Of(size_t gpu, const MetricDesc& metric) const;
  // Whether the GPU has such a series with a stale value.
  bool IsStale(size_t gpu, const CheckInput& input) const;
};

// Returns the readings of these metrics in a tick, without slices and processes of GPUs.
CheckData ReadSnapshot(const Snapshot& snapshot, std::span<const MetricDesc* const> metrics);
// Does the same for an agent's page in text format 0.0.4; a value with a timestamp is stale. kDataLoss: not
// an agent's page. kExhausted: too large.
Result<CheckData> ReadPage(std::string_view page, std::span<const MetricDesc* const> metrics);

// Reads the agent's page. `url`: http://HOST:PORT, with user and password if needed, or the address of the
// page itself. Blocks for `timeout` at most.
Result<CheckData> QueryAgent(const std::string& url, Duration timeout);

struct DirectOptions {
  bool demo = false;                             // simulated GPUs
  Duration timeout = std::chrono::seconds(10);   // until the first reading
  Duration more = std::chrono::seconds(3);       // after it, until `enough` returns true
  std::function<bool(const CheckData&)> enough;  // whether the readings suffice
};
// Runs the collectors and analyzers that the checks need until their readings suffice or the time is up.
// Without any GPU, returns the error of the collectors.
Result<CheckData> ReadDirectly(const Config& config, const DirectOptions& options);

}  // namespace gpulens
