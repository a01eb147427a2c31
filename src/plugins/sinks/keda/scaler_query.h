// What a trigger of a ScaledObject queries: its scalerMetadata, checked. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "wire/external_scaler/external_scaler.h"

namespace gpulens::keda {

enum class ScalerMetric : uint8_t {
  kQueue,        // requests that wait
  kRunning,      // requests in the batch
  kConcurrency,  // both; of routers and gateways the requests in flight
  kKvCache,      // share of the KV cache in use, 0 to 1
  kTtft,         // a quantile of the time to first token, in seconds
  kItl,          // a quantile of the time between two tokens, in seconds
};
constexpr bool IsLatency(ScalerMetric metric) noexcept { return metric >= ScalerMetric::kTtft; }

// The longest window of a latency.
inline constexpr Duration kLongestWindow = std::chrono::minutes(5);

// A plain value.
struct ScalerQuery {
  ScalerMetric metric = ScalerMetric::kQueue;
  double target = 0;          // for each replica
  double activation = 0;      // requests above which the workload is active
  bool greatest = false;      // of the KV cache: the fullest replica, else the mean of all
  double quantile = 0.95;     // of a latency
  Duration window{};          // of a latency
  Duration max_age{};         // of a reading
  bool value_type = false;    // metricType Value: the number is of one replica, not of all together
  bool zero_if_idle = false;  // of a latency: 0 while no replica has a request, else unknown
  std::string model, engine;  // empty: any
  std::string layer;
  std::string name_space;  // of targets that have one; empty: any
  std::map<std::string, std::string> attributes;

  // The name in MetricSpec and MetricValue: "queue", "ttft-p95".
  std::string MetricName() const;
};

// The rows of docs/howto/keda.md. Static storage.
struct ScalerKey {
  std::string_view name, help;
};
std::span<const ScalerKey> ScalerKeys() noexcept;

// kInvalidArgument names the key and what is allowed. Keys of KEDA itself (scalerAddress, enableTLS, …) are
// skipped; a key that ends in FromEnv, which KEDA has resolved, is the key without it.
Result<ScalerQuery> ParseScalerQuery(const ScaledObjectRef& object);

}  // namespace gpulens::keda
