// What is known of each target's engines, tick by tick, and the numbers for KEDA made of it.
//
// An unknown number is an error, never 0: the HPA then keeps its replicas, and KEDA uses `fallback` when the
// ScaledObject has one.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame.h"
#include "core/histogram.h"
#include "plugins/sinks/keda/scaler_query.h"

namespace gpulens::keda {

// A number for the HPA, and of how many targets it is. A plain value.
struct ScalerReading {
  double value = 0;
  size_t targets = 0, known = 0;  // known < targets: the value is a lower bound that calls for more replicas
};

// Thread-safe.
//
// Each target that has an engine of the query is one replica. A target that does not answer counts as one
// unless something known of it contradicts the query; so does one that was not read yet.
class ScalerState {
 public:
  // Takes the frames that were read since the last call.
  void Update(const Snapshot& snapshot);

  // With metricType AverageValue the number is the sum over all replicas, with Value that of one: in both the
  // HPA comes to replicas × (number of one / target), rounded up. Unless all replicas are known, only a lower
  // bound that calls for more of them is returned. kUnavailable: unknown, with the reason.
  Result<ScalerReading> Evaluate(const ScalerQuery& query, Instant now) const;
  // Whether more requests wait or run than the query's activation. True when engines do not report one of
  // them, so that what may work is never scaled to zero. kUnavailable: unknown.
  Result<bool> IsActive(const ScalerQuery& query, Instant now) const;

 private:
  // Indexes of Engine::levels.
  enum Level : uint8_t { kWaiting, kRunning, kInFlight, kCache, kLevels };
  struct Number {
    bool offered = false;  // the page has such series
    size_t count = 0;      // of series with a value
    double sum = 0;
    int64_t at_ns = 0;  // boot time of the oldest one
  };
  // Observations of a histogram over the last minutes.
  struct Latency {
    struct Row {
      int64_t from_ns = 0, to_ns = 0;
      Buckets growth;
    };
    std::unordered_map<uint64_t, Buckets> last;  // by series
    std::deque<Row> rows;
    int64_t read_ns = 0;
    size_t readings = 0;
  };
  struct Engine {
    AttributeSet attributes;
    std::string model;
    Number levels[kLevels];
    Latency latencies[2];  // time to first token, inter-token latency
    bool planned = false;
  };
  struct Pick {
    uint32_t slot = 0;
    uint8_t role = 0;  // a Level, or kLevels and the index of a latency
    Engine* engine = nullptr;
    uint64_t series = 0;
  };
  struct Target {
    bool scraped = false;  // it reports whether it answers, so `facts` are those of its configuration
    bool up = false;
    AttributeSet facts;
    uint64_t layout = 0, run = 0, seen = 0;
    uint32_t up_slot = UINT32_MAX;
    std::vector<Pick> picks;
    std::map<std::string, Engine> engines;  // by entity and model
  };
  // The engines of one target that a query means; none of a target that may have one.
  struct Replica {
    std::string_view name;
    std::vector<const Engine*> engines;
  };
  // A number of a replica: `value`, or why it is unknown.
  struct Reading {
    std::optional<double> value;
    bool offered = true;  // false: the engine has no such number
    int64_t age_ns = -1;  // of what is too old; -1: there is none
  };

  void Plan(Target& target, const Frame& frame);
  static void Read(Target& target, const Frame& frame);
  static void ReadLatency(const Pick& pick, const Frame& frame, Buckets& growth);
  static void EndRow(Latency& latency, Buckets growth, int64_t now_ns);
  static bool Selects(const ScalerQuery& query, const AttributeSet& attributes);
  static bool SelectsModel(const ScalerQuery& query, const Target& target, const Engine& engine);
  std::vector<Replica> Matching(const ScalerQuery& query) const;
  static Reading ReadLevel(const Replica& replica, Level level, const ScalerQuery& query, Instant now);
  static Reading ReadRequests(const Replica& replica, const ScalerQuery& query, Instant now);
  static Reading ReadMetric(const Replica& replica, const ScalerQuery& query, Instant now);
  static Result<ScalerReading> Sum(const ScalerQuery& query, const std::vector<Replica>& replicas,
                                   Instant now);
  static Result<ScalerReading> QuantileOf(const ScalerQuery& query, const std::vector<Replica>& replicas,
                                          Instant now);

  mutable std::mutex mutex_;
  uint64_t updates_ = 0;
  std::unordered_map<std::string, Target> targets_;  // by instance: "targets/NAME"
  // The instances that the agent runs, by its self-metrics: those without a frame were not read yet.
  std::vector<std::string> instances_;
  uint64_t instances_layout_ = 0;
};

}  // namespace gpulens::keda
