// What a network sink has accepted and not yet delivered: in order, within bounds, on disk or in memory.
//
// Guarantees:
// - a parcel whose Push returned ok comes out of Front, in the order of the pushes, until it is popped, or
// its loss is
//   counted by reason. With a folder this holds across the end of the process, kill -9 too: the next Open
//   takes over, and at most the parcel that was being delivered comes twice. Across a power cut: see
//   ParcelSync; there the last parcels may come more than twice, as far as the disk had not learnt of their
//   delivery (kAlways: one);
// - never more than max_bytes. The oldest segment (in memory: the oldest parcels) goes first. A segment that
// is
//   delivered in part counts wholly until it is removed;
// - a backlog on disk costs no memory: one parcel at a time, and 64 bytes a segment;
// - ages are by the clock that never jumps. Only for parcels of an earlier start of the machine wall time is
// asked,
//   once, at Open; parcels that are then too old are counted and told in the log;
// - damaged bytes cost the parcels they hit, never the order, never a crash.
// The parcel that Front gave out may be dropped while it is on its way; it counts as lost only if it is not
// popped.
//
// A folder belongs to one queue of one process. docs/delivery-queue.md tells the layout.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "delivery/parcel.h"
#include "delivery/parcels/parcel_store.h"

namespace gpulens {

// Thread-safe: one thread pushes, one takes (Front, Pop, Wait, Pause), any asks for stats and wakes. Push and
// Pop wait for the disk, stats never does.
class ParcelQueue {
 public:
  using Options = ParcelQueueOptions;
  using Sync = ParcelSync;

  // kUnavailable when another process has the folder. `clock` must outlive the queue.
  static Result<std::unique_ptr<ParcelQueue>> Open(Options options, const Clock& clock);

  // Copies `bytes`. After an error nothing was taken: kExhausted when there is no room on the disk,
  // kInvalidArgument when the parcel is larger than max_bytes, which is counted as lost; else what the system
  // said.
  Status Push(std::string_view bytes, uint32_t items);
  // The oldest parcel that is not removed; the same again until Pop, or until it was dropped.
  std::optional<Parcel> Front();
  // It was delivered, or refused for good. Ignored when it is not the oldest any more.
  void Pop(uint64_t id);
  // True when there is something, false at the deadline or after Wake. Also false, until the deadline, when
  // what is there cannot be read.
  bool Wait(Instant deadline);
  // Until the deadline whatever is in the queue, for a back-off: false when Wake ended it.
  bool Pause(Instant deadline);
  // Ends the present Wait or Pause, or the next one.
  void Wake();

  struct Stats {
    uint64_t parcels = 0, items = 0;
    uint64_t bytes = 0;       // of waiting parcels, with their headers
    uint64_t held_bytes = 0;  // what counts against max_bytes: files not yet removed too
    std::optional<Duration> oldest_age;
    std::array<uint64_t, kParcelLosses> lost_parcels{};
    // Of those parcels whose items are still known: a damaged one may have taken the number with it.
    std::array<uint64_t, kParcelLosses> lost_items{};
    Status last;  // how the last access to the disk ended
  };
  Stats stats() const;
  const Options& options() const noexcept { return options_; }

 private:
  ParcelQueue(Options options, const Clock& clock);
  void Publish(std::optional<bool> ready);
  void TellLosses();
  void SyncIfDue(Instant now);
  bool Sleep(Instant deadline, bool for_parcel);

  const Options options_;
  const Clock& clock_;
  const ParcelAges ages_;

  std::mutex mutex_;  // the store; taken before state_mutex_
  LossBook book_;
  std::unique_ptr<ParcelStore> store_;
  LossBook::Counts told_;

  mutable std::mutex state_mutex_;  // never held over an access to the disk
  std::condition_variable changed_;
  Stats stats_;
  std::optional<ParcelStamp> oldest_;
  bool ready_ = false;
  bool woken_ = false;
};

}  // namespace gpulens
