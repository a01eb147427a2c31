// One push sink at work: its lanes, its thread, and what became of every parcel it was offered.
#pragma once

#include <array>
#include <condition_variable>
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

// Why a parcel was not delivered.
enum class DropReason : uint8_t { kOverload, kRejected, kShutdown };
inline constexpr size_t kDropReasons = 3;
std::string_view DropReasonName(DropReason reason) noexcept;

struct SinkStats {
  bool up = true;
  Status last;
  uint64_t delivered = 0;  // snapshots
  std::array<uint64_t, kDropReasons> dropped{};
  size_t queued = 0;
  std::array<uint64_t, kDropReasons> events_dropped{};  // parcels of events
  size_t events_queued = 0;
  Duration duration{};
  int64_t last_success_unix_ns = 0;
};

// `Offer` and `stats` are thread-safe, but that snapshots are offered by one thread at a time. A snapshot
// that comes while two wait drops the oldest; a parcel of events does so while kEventLaneDepth wait. Events
// go first, and every tick's, whatever interval the sink has for snapshots: SnapshotSelector.
//
// With roll-ups (docs/rollups.md) every snapshot that is offered goes through Rollup first. An interval that
// is open when the runner ends is not lost: it is sent (OfferLast, EndIntervals), or goes on in the runner
// that comes after this one (TakeRollups).
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
    Duration interval{};  // between whole snapshots; zero: every tick
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
  // The last one before the agent ends: a sink with an interval gets it before its time, unless it had it.
  // May be null. The sink's stream then ends (Sink::EndStream) before its Flush.
  void OfferLast(const Ref<const Snapshot>& snapshot);

  // Ends the open intervals with the latest snapshot, and sends their results, once for a tick. Those of what
  // is offered afterwards are new ones. Returns that snapshot; null when there are no roll-ups.
  Ref<const Snapshot> EndIntervals(const LatestSnapshot& hub);
  // False when what was offered is not written by `deadline`.
  bool WaitUntilWritten(Instant deadline);
  // Goes on with the groups and open intervals of `former`, where the rules are equal; else false. Before
  // anything is offered to this one; `former` may be offered more until it stops.
  bool TakeRollups(const SinkRunner& former);
  // Takes the counters of a snapshot as the base of what follows: so increases since then are counted.
  void BeginIntervals(const Ref<const Snapshot>& snapshot);
  std::optional<RollupStats> rollup_stats() const;

  // Delivers what waits, flushes, ends the thread; what is not done by `deadline` is dropped and counted.
  // False when a Write still hangs kStopGrace later: its thread is left behind, and may use the sink and what
  // it was made with.
  bool Stop(Instant deadline);
  // Begins what Stop waits for, where the sink has a thread of its own: several flush at the same time.
  void BeginStop(Instant deadline);
  SinkStats stats() const;

 private:
  struct Shared;
  struct Rollups;
  // Starts the thread of a threaded sink where it does not run: there may have been no room for it before.
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
