// What a gateway knows of the nodes whose data passes through it: each node's latest values, and a coarse
// history of a quarter of an hour. Minutes, not days, in memory that is bounded by the number of nodes.
//
// A node is what a store would know by one `instance` of one cluster: service.instance.id, or host.name where
// a resource has none. GPUs are distinguished by gpu.index, engines by target, model and rank.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "core/attribute_set.h"
#include "core/frame.h"
#include "plugins/receiver.h"

namespace gpulens {

// The numbers that are kept, in the units of the catalogue.
enum class FleetGpuValue : uint8_t {
  kBusy,
  kMemoryUsed,
  kMemoryTotal,
  kPower,
  kPowerShare,  // of the enforced limit
  kTemperature,
  kHealth,
  kThrottleMask,
  kXids,
  kXidCode,
  kCount,
};
enum class FleetEngineValue : uint8_t { kRunning, kWaiting, kCacheShare, kFirstToken, kCount };

// A number and the time of its sample; at_ms 0: never received, or its series has ended.
struct FleetValue {
  double value = kNotMeasured;
  int64_t at_ms = 0;
};

// The last steps of a series, the newest at `FleetNode::step` modulo kFleetSteps.
inline constexpr int64_t kFleetStepMs = 30'000;
inline constexpr size_t kFleetSteps = 30;

struct FleetGpu {
  static constexpr uint8_t kNoBusy = 255;
  static constexpr uint16_t kNoPower = 65535;

  FleetGpu() noexcept { busy.fill(kNoBusy), power.fill(kNoPower); }
  const FleetValue& operator[](FleetGpuValue which) const noexcept {
    return values[static_cast<size_t>(which)];
  }

  int64_t NewestMs() const noexcept;  // of its samples

  int64_t index = -1;  // negative: known by its UUID alone
  std::string uuid, model;
  std::string owner;          // "namespace/pod" or "slurm 48213 name"; empty: none is known
  std::string state, health;  // words of gpu.state and gpu.health.state
  std::string condition;      // a reason of gpu.health.condition that holds
  int64_t owner_at_ms = 0, state_at_ms = 0, health_at_ms = 0, condition_at_ms = 0;
  int64_t xid_rise_ms = 0;  // when kXids last rose; 0: it has not since this gateway knows the GPU
  std::array<FleetValue, static_cast<size_t>(FleetGpuValue::kCount)> values;
  std::array<uint8_t, kFleetSteps> busy;    // percent
  std::array<uint16_t, kFleetSteps> power;  // W
};

struct FleetEngine {
  const FleetValue& operator[](FleetEngineValue which) const noexcept {
    return values[static_cast<size_t>(which)];
  }

  int64_t NewestMs() const noexcept;

  std::string target, engine, model, rank;
  std::array<FleetValue, static_cast<size_t>(FleetEngineValue::kCount)> values;
  // kFirstToken is the mean of the requests between two samples of the histogram.
  FleetValue sum, count, base_sum, base_count;
};

struct FleetNode {
  uint64_t id = 0;  // never used again while the agent runs
  std::string instance, cluster;
  std::string host, rack, version;
  bool simulated = false;
  int64_t seen_ms = 0;         // when data last arrived
  int64_t newest_ms = 0;       // the newest time in its data, by its own clock
  int64_t ahead_ms = 0;        // its clock is ahead of the gateway's; 0: by less than a minute
  int64_t interval_ms = 0;     // between two arrivals, about; 0: only one was seen
  int64_t step = 0;            // of kFleetStepMs since 1970, the newest that its GPUs have
  uint32_t replaced = 0;       // how often a GPU had another UUID than before
  int64_t replaced_ms = 0;     // when that was last
  uint64_t refused = 0;        // samples of GPUs and engines beyond the limits
  std::vector<FleetGpu> gpus;  // by index
  std::vector<FleetEngine> engines;

  const std::string& name() const noexcept { return host.empty() ? instance : host; }
};

// Thread-safe. Observe allocates only for nodes, GPUs and texts that are new.
class FleetTable final : public ReceivedObserver {
 public:
  struct Options {
    size_t nodes = 0;  // most that are kept; 0: nothing is
    Duration away_after = std::chrono::minutes(2);
    Duration forget_after = std::chrono::hours(1);
    // For links of the page; empty: none. {name} and {instance} are replaced by the node's.
    std::string node_url = {}, dashboards = {};
  };
  static constexpr size_t kMostGpus = 32, kMostEngines = 32, kMostText = 96;

  // `clock` outlives it.
  explicit FleetTable(const Clock& clock) : clock_(clock) {}

  // Applies new options; nodes beyond the new limit are forgotten, those away the longest first.
  void Configure(const Options& options);
  Options options() const;

  // Takes the metrics that it keeps. Bytes that cannot be read end the request's reading. A node beyond the
  // limit replaces the one that has been away the longest; while none is away it is refused.
  void Observe(OtlpSignal signal, std::string_view request) override;

  struct Totals {
    uint64_t refused = 0;    // samples of nodes beyond the limit
    uint64_t forgotten = 0;  // nodes that came no more
  };
  // Calls `read` with the nodes, in no order, while nothing changes; it must not call the table.
  void Read(const std::function<void(const std::list<FleetNode>&, const Totals&, int64_t now_ms)>& read);

  // After how long without data a node is away.
  static int64_t AwayAfterMs(const Options& options, const FleetNode& node) noexcept;

 private:
  struct Reader;  // of one request
  friend struct Reader;
  using Nodes = std::list<FleetNode>;

  FleetNode* Find(std::string_view instance, std::string_view cluster, int64_t now_ms);
  void FollowClock(int64_t now_ms);
  void Forget(int64_t now_ms);
  void Erase(Nodes::iterator node);

  const Clock& clock_;
  mutable std::mutex mutex_;  // guards what follows
  Options options_;
  Nodes nodes_;
  std::unordered_map<std::string, Nodes::iterator> by_name_;  // cluster, NUL, instance
  std::string key_;
  Totals totals_;
  uint64_t next_id_ = 1;
  int64_t forgot_ms_ = 0;
  int64_t latest_ms_ = 0;  // of the clock
  int64_t full_ms_ = 0;    // when a node was last refused
};

}  // namespace gpulens
