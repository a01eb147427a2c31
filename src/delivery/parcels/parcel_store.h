// Where a ParcelQueue keeps its parcels: in memory or on disk. Neither form has a lock or a clock; the queue
// has both. Beside it the two things they share: how old a parcel is, and what was lost.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "delivery/parcel.h"

namespace gpulens {

struct ParcelStamp {
  int64_t unix_ns = 0;
  int64_t boot_ns = 0;
  bool this_boot = true;  // boot_ns counts from the same start of the machine as ours
};

// The age by the clock that never jumps. For a parcel of an earlier start of the machine only wall time can
// tell, and it is asked once, when the queue is opened: a jump while we run changes no age. Never negative.
class ParcelAges {
 public:
  explicit ParcelAges(Instant opened) noexcept : opened_(opened) {}

  Duration Of(const ParcelStamp& stamp, Instant now) const noexcept {
    if (stamp.this_boot) return Positive(now.boot_ns, stamp.boot_ns);
    return Positive(opened_.unix_ns, stamp.unix_ns) + Positive(now.boot_ns, opened_.boot_ns);
  }

 private:
  // Half of the range is 146 years; a stamp of nonsense must not overflow a sum.
  static Duration Positive(int64_t later, int64_t earlier) noexcept {
    int64_t difference = 0;
    if (later <= earlier) return Duration(0);
    if (__builtin_sub_overflow(later, earlier, &difference)) difference = INT64_MAX;
    return Duration(std::min(difference, INT64_MAX / 2));
  }

  Instant opened_;
};

// What was lost, by reason. The parcel that somebody is just delivering may be dropped meanwhile: whether
// that is a loss is known only when it comes back (delivered: none) or the next one is asked for (lost).
class LossBook {
 public:
  struct Counts {
    std::array<uint64_t, kParcelLosses> parcels{}, items{};
  };

  void Lose(ParcelLoss reason, uint64_t parcels, uint64_t items) noexcept {
    counts_.parcels[static_cast<size_t>(reason)] += parcels;
    counts_.items[static_cast<size_t>(reason)] += items;
  }
  // As Lose, of parcels whose ids are from `first` to below `end`.
  void LoseRange(ParcelLoss reason, uint64_t first, uint64_t end, uint64_t parcels, uint64_t items) noexcept {
    if (lent_ && !lent_->lost && lent_->id >= first && lent_->id < end && parcels > 0) {
      lent_->lost = reason;
      lent_->items = std::min(lent_->items, items);
      parcels -= 1;
      items -= lent_->items;
    }
    Lose(reason, parcels, items);
  }

  // Front: what was lent before and is gone was not delivered.
  void Settle() noexcept {
    if (lent_ && lent_->lost) Lose(*lent_->lost, 1, lent_->items);
    lent_.reset();
  }
  void Lend(uint64_t id, uint64_t items) noexcept { lent_ = Lent{id, items, std::nullopt}; }
  // Pop: true when the parcel had been dropped already, and there is nothing to remove.
  bool Return(uint64_t id) noexcept {
    if (!lent_ || lent_->id != id) return false;
    bool dropped = lent_->lost.has_value();
    lent_.reset();
    return dropped;
  }

  const Counts& counts() const noexcept { return counts_; }

 private:
  struct Lent {
    uint64_t id = 0;
    uint64_t items = 0;
    std::optional<ParcelLoss> lost;
  };
  Counts counts_;
  std::optional<Lent> lent_;
};

// Not thread-safe.
class ParcelStore {
 public:
  struct Counts {
    uint64_t parcels = 0, items = 0;
    uint64_t bytes = 0;  // of the parcels that wait
    uint64_t held = 0;   // what counts against max_bytes: on disk also what is delivered and not yet removed
  };
  explicit ParcelStore(LossBook& book) : book_(book) {}
  ParcelStore(const ParcelStore&) = delete;
  ParcelStore& operator=(const ParcelStore&) = delete;
  virtual ~ParcelStore() = default;

  virtual Status Push(std::string_view bytes, uint32_t items, Instant now) = 0;
  // The oldest parcel. Nothing also when the oldest cannot be read just now: then last() says why.
  virtual std::optional<Parcel> Front(Instant now) = 0;
  // Removes the oldest; ignored when `id` is another.
  virtual void Pop(uint64_t id) = 0;
  virtual Counts counts() const noexcept = 0;
  // Of the oldest that is not removed. A look at the disk where it is not known yet.
  virtual std::optional<ParcelStamp> Oldest() = 0;
  // Files whose sync is due by the policy kInterval. The caller syncs them, without holding up the others,
  // and tells of a failure.
  using ToSync = std::array<UniqueFd, 3>;
  virtual ToSync DueSync(Instant) { return {}; }
  virtual void SyncFailed(Status) {}
  // How the last access to the disk ended.
  virtual const Status& last() const noexcept = 0;

 protected:
  LossBook& book_;
};

}  // namespace gpulens
