// Readings of GPUs by native name for `gpulens check`, from a running agent or from collectors in this
// process.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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
  bool watched = false;  // by an agent that has been running: what happens once is counted, not missed
  double expected = 0;   // GPUs that the host should have; 0: unknown
  std::vector<CheckGpu> gpus;
  std::vector<CheckReading> readings;
  std::vector<CheckReading> host;  // of the machine and its switches, of no GPU

  // The sum of all fresh series of the input on the GPU; absent when there is none, or one is stale.
  std::optional<double> Sum(size_t gpu, const CheckInput& input) const;
  // Every fresh series of the metric on the GPU.
  std::vector<const CheckReading*> Of(size_t gpu, const MetricDesc& metric) const;
  // Whether the GPU has that series, but only an old value of it.
  bool IsStale(size_t gpu, const CheckInput& input) const;
};

// The readings of these metrics in a tick. Slices and processes of a GPU are left out.
CheckData ReadSnapshot(const Snapshot& snapshot, std::span<const MetricDesc* const> metrics);
// The same from an agent's page in text format 0.0.4; a value with a timestamp is an old one. kDataLoss when
// this is no page of an agent, kExhausted when it is too large.
Result<CheckData> ReadPage(std::string_view page, std::span<const MetricDesc* const> metrics);

// Asks the agent for its page once. `url`: http://HOST:PORT, with user and password where they are needed, or
// the address of the page itself. Blocks at most `patience`.
Result<CheckData> QueryAgent(const std::string& url, Duration timeout);

struct DirectOptions {
  bool demo = false;                             // simulated GPUs
  Duration timeout = std::chrono::seconds(10);   // until the first reading
  Duration more = std::chrono::seconds(3);       // after it, while `enough` returns false
  std::function<bool(const CheckData&)> enough;  // whether the readings suffice
};
// Runs the collectors and analyzers that the checks need, until their readings suffice or time is up, and
// ends them. The failure of a machine without GPUs is the collectors' own.
Result<CheckData> ReadDirectly(const Config& config, const DirectOptions& options);

}  // namespace gpulens
