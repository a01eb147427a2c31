// One push sink at work: its lanes, its thread, and what became of every parcel it was offered.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/ring.h"
#include "pipeline/delivery/snapshot_selector.h"
#include "pipeline/plugin.h"

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
class SinkRunner {
 public:
  // A Flush that keeps to its deadline returns at it, and then closes its connections.
  static constexpr Duration kStopGrace = std::chrono::seconds(1);
  static constexpr size_t kLaneDepth = 2;
  static constexpr size_t kEventLaneDepth = 64;

  struct Setup {
    std::string name;  // "otlp/b"
    const SinkSpec* spec = nullptr;
    Config config;
    Duration interval{};  // between whole snapshots; zero: every tick
  };

  SinkRunner(Setup setup, std::unique_ptr<Sink> sink, const Clock& clock);
  ~SinkRunner();
  SinkRunner(const SinkRunner&) = delete;
  SinkRunner& operator=(const SinkRunner&) = delete;

  const std::string& name() const noexcept { return setup_.name; }
  const Setup& setup() const noexcept { return setup_; }

  void Offer(const Ref<const Snapshot>& snapshot);
  void Offer(const Ref<const Events>& events);
  // The last one before the agent ends: a sink with an interval gets it before its time, unless it had it.
  // May be null. The sink's stream then ends (Sink::EndStream) before its Flush.
  void OfferLast(const Ref<const Snapshot>& snapshot);
  // Delivers what waits, flushes, ends the thread; what is not done by `deadline` is dropped and counted.
  // False when a Write still hangs kStopGrace later: its thread is left behind, and may use the sink and what
  // it was made with.
  bool Stop(Instant deadline);
  // Begins what Stop waits for, where the sink has a thread of its own: several flush at the same time.
  void BeginStop(Instant deadline);
  SinkStats stats() const;

 private:
  struct Shared;
  // Starts the thread of a threaded sink where it does not run: there may have been no room for it before.
  void NeedThread();
  void DropWaiting();  // counted
  void Push(Ref<const Snapshot> snapshot);
  static void Run(const std::shared_ptr<Shared>& shared);
  static Status Finish(Shared& shared, bool ends, Instant deadline);
  static void Deliver(Shared& shared, const Snapshot& snapshot);
  static void Deliver(Shared& shared, const Events& events);

  const Setup setup_;
  std::shared_ptr<Shared> shared_;
  mutable std::mutex thread_mutex_;  // guards `thread_` until the end begins
  std::thread thread_;
  SnapshotSelector selector_;
};

}  // namespace gpulens
