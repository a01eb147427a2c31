// Runs one push sink: its queues, its thread and its counters.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/ring.h"
#include "pipeline/delivery/snapshot_selector.h"
#include "pipeline/rollup/rollup.h"
#include "plugins/latest_snapshot.h"
#include "plugins/plugin.h"

namespace gpulens {

// Why a snapshot or a batch of events was not delivered.
enum class SinkDropReason : uint8_t { kOverload, kRejected, kShutdown };
inline constexpr size_t kSinkDropReasons = 3;
std::string_view SinkDropReasonName(SinkDropReason reason) noexcept;

struct SinkStats {
  bool up = true;
  Status last;
  uint64_t delivered = 0;  // snapshots
  std::array<uint64_t, kSinkDropReasons> dropped{};
  size_t queued = 0;
  std::array<uint64_t, kSinkDropReasons> events_dropped{};  // batches of events
  size_t events_queued = 0;
  Duration duration{};
  int64_t last_success_unix_ns = 0;
};

// Thread-safe, except that snapshots are offered by one thread at a time. A snapshot above kQueueDepth drops
// the oldest, as does a batch of events above kEventQueueDepth. Events are sent first, and at every tick,
// whatever the interval of the sink for snapshots (SnapshotSelector).
//
// With roll-ups (docs/rollups.md) every offered snapshot passes through Rollup. An interval that is open when
// the runner ends is sent (OfferLast, EndIntervals) or continued by the next runner (TakeRollups).
class SinkRunner {
 public:
  // A Flush that keeps to its deadline returns at it, and then closes its connections.
  static constexpr Duration kStopGrace = std::chrono::seconds(1);
  static constexpr size_t kQueueDepth = 2;
  static constexpr size_t kEventQueueDepth = 64;

  struct Setup {
    std::string name;  // "otlp/b"
    const SinkSpec* spec = nullptr;
    Config config;
    Duration interval{};  // between complete snapshots; zero: every tick
  };

  // kInvalidArgument when the roll-ups of the configuration are refused.
  static Result<std::shared_ptr<SinkRunner>> Make(Setup setup, std::unique_ptr<Sink> sink,
                                                  const Clock& clock);
  // Null `rollup`: no roll-ups.
  SinkRunner(Setup setup, std::unique_ptr<Sink> sink, const Clock& clock,
             std::unique_ptr<Rollup> rollup = nullptr);
  ~SinkRunner();
  SinkRunner(const SinkRunner&) = delete;
  SinkRunner& operator=(const SinkRunner&) = delete;

  const std::string& name() const noexcept { return setup_.name; }
  const Setup& setup() const noexcept { return setup_; }
  bool threaded() const noexcept { return setup_.spec->threaded; }

  void Offer(const Ref<const Snapshot>& snapshot);
  void Offer(const Ref<const Events>& events);
  // The last one before the agent ends, regardless of the interval, unless the sink had it. May be null. Then
  // Sink::EndStream is called before Flush.
  void OfferLast(const Ref<const Snapshot>& snapshot);

  // Ends the open intervals with the latest snapshot and sends their results, once for a tick. Returns that
  // snapshot; null without roll-ups.
  Ref<const Snapshot> EndIntervals(const LatestSnapshot& hub);
  // False when the queues are not written by `deadline`.
  bool WaitUntilWritten(Instant deadline);
  // Continues the groups and open intervals of `former`; false when the rules differ. Call before the first
  // Offer; `former` may be offered more until it stops.
  bool TakeRollups(const SinkRunner& former);
  // Uses the counters of a snapshot as the base of increases.
  void BeginIntervals(const Ref<const Snapshot>& snapshot);
  std::optional<RollupStats> rollup_stats() const;

  // Writes the queues, flushes and ends the thread; what is left at `deadline` is dropped and counted. False
  // when a Write still hangs kStopGrace later: its thread is detached, and may use the sink and its
  // arguments.
  bool Stop(Instant deadline);
  // Starts what Stop waits for, so that several sinks flush in parallel.
  void BeginStop(Instant deadline);
  SinkStats stats() const;

 private:
  struct Shared;
  struct Rollups;
  // Starts the thread of a threaded sink if an earlier start failed.
  void NeedThread();
  void DropWaiting();  // counted
  void Push(Ref<const Snapshot> snapshot);
  void PushEnd(const Ref<const Snapshot>& snapshot);
  static void Run(const std::shared_ptr<Shared>& shared);
  static Status Finish(Shared& shared, bool ends, Instant deadline);
  static void Deliver(Shared& shared, const Snapshot& snapshot);
  static void Deliver(Shared& shared, const Events& events);

  const Setup setup_;
  std::shared_ptr<Shared> shared_;
  mutable std::mutex thread_mutex_;  // guards `thread_` until the end begins
  std::thread thread_;
  SnapshotSelector selector_;         // with roll-ups guarded by their mutex
  std::shared_ptr<Rollups> rollups_;  // null: none
};

}  // namespace gpulens
