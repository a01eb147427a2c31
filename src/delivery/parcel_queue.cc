#include "delivery/parcel_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "delivery/parcels/disk_parcels.h"
#include "delivery/parcels/memory_parcels.h"

namespace gpulens {
namespace {

constexpr uint64_t kSmallestQueue = 1024;
// So that a deadline of "never" does not overflow the clock of the wait.
constexpr Duration kLongestWait = std::chrono::hours(24 * 365);
constexpr Duration kShortestPiece = std::chrono::milliseconds(10);

}  // namespace

ParcelQueue::ParcelQueue(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), ages_(clock.Now()) {}

Result<std::unique_ptr<ParcelQueue>> ParcelQueue::Open(Options options, const Clock& clock) {
  if (options.max_bytes < kSmallestQueue)
    return Status{Code::kInvalidArgument,
                  "a queue of " + std::to_string(options.max_bytes) + " bytes holds nothing; 1024 at least"};
  std::unique_ptr<ParcelQueue> queue(new ParcelQueue(std::move(options), clock));
  const Options& kept = queue->options_;
  Instant now = clock.Now();
  if (kept.folder.empty()) {
    queue->store_ = std::make_unique<MemoryParcels>(kept.max_bytes, kept.max_age, now, queue->book_);
  } else {
    auto store = DiskParcels::Open(kept, now, queue->book_);
    if (!store) return std::move(store).error();
    queue->store_ = *std::move(store);
  }
  queue->Publish(queue->store_->counts().parcels > 0);
  return queue;
}

Status ParcelQueue::Push(std::string_view bytes, uint32_t items) {
  Instant now = clock_.Now();
  Status status;
  {
    std::lock_guard lock(mutex_);
    status = store_->Push(bytes, items, now);
    Publish(status ? std::optional(true) : std::nullopt);
  }
  SyncIfDue(now);
  return status;
}

std::optional<Parcel> ParcelQueue::Front() {
  std::lock_guard lock(mutex_);
  book_.Settle();
  std::optional<Parcel> parcel = store_->Front(clock_.Now());
  if (parcel) book_.Lend(parcel->id, parcel->items);
  Publish(parcel.has_value());
  return parcel;
}

void ParcelQueue::Pop(uint64_t id) {
  {
    std::lock_guard lock(mutex_);
    if (!book_.Return(id)) store_->Pop(id);
    Publish(store_->counts().parcels > 0);
  }
  SyncIfDue(clock_.Now());
}

bool ParcelQueue::Sleep(Instant deadline, bool for_parcel) {
  SyncIfDue(clock_.Now());
  // A long wait is cut into pieces, so that what was pushed just before it is synced in time.
  bool syncs = !options_.folder.empty() && options_.sync == Sync::kInterval;
  Duration piece = syncs ? std::max(options_.sync_interval, kShortestPiece) : kLongestWait;
  auto until =
      std::chrono::steady_clock::now() + std::clamp(deadline - clock_.Now(), Duration(0), kLongestWait);
  std::unique_lock lock(state_mutex_);
  auto done = [&] { return woken_ || (for_parcel && ready_); };
  for (auto now = std::chrono::steady_clock::now(); now < until; now = std::chrono::steady_clock::now()) {
    if (changed_.wait_until(lock, std::min(until, now + piece), done)) break;
    lock.unlock();
    SyncIfDue(clock_.Now());
    lock.lock();
  }
  if (std::exchange(woken_, false)) return false;
  if (!for_parcel) return true;
  // What could not be read is tried again after a while.
  return std::exchange(ready_, stats_.parcels > 0);
}

bool ParcelQueue::Wait(Instant deadline) { return Sleep(deadline, true); }

bool ParcelQueue::Pause(Instant deadline) { return Sleep(deadline, false); }

void ParcelQueue::Wake() {
  {
    std::lock_guard lock(state_mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

ParcelQueue::Stats ParcelQueue::stats() const {
  Instant now = clock_.Now();
  std::lock_guard lock(state_mutex_);
  Stats stats = stats_;
  if (oldest_) stats.oldest_age = ages_.Of(*oldest_, now);
  return stats;
}

// Under mutex_, after each access: what the others may see of it. `ready`: whether there is something to
// take; nothing when the access said nothing about that.
void ParcelQueue::Publish(std::optional<bool> ready) {
  std::optional<ParcelStamp> oldest = store_->Oldest();
  ParcelStore::Counts counts = store_->counts();
  TellLosses();
  bool wake = false;
  {
    std::lock_guard lock(state_mutex_);
    stats_.parcels = counts.parcels;
    stats_.items = counts.items;
    stats_.bytes = counts.bytes;
    stats_.held_bytes = counts.held;
    stats_.lost_parcels = book_.counts().parcels;
    stats_.lost_items = book_.counts().items;
    if (!store_->last() || !stats_.last) stats_.last = store_->last();
    oldest_ = oldest;
    bool before = std::exchange(ready_, ready.value_or(ready_) && counts.parcels > 0);
    wake = ready_ && !before;
  }
  if (wake) changed_.notify_all();
}

void ParcelQueue::TellLosses() {
  const LossBook::Counts& counts = book_.counts();
  for (size_t i = 0; i < kParcelLosses; ++i) {
    uint64_t parcels = counts.parcels[i] - told_.parcels[i], items = counts.items[i] - told_.items[i];
    if (parcels == 0 && items == 0) continue;
    std::string where = options_.folder.empty() ? "a queue in memory" : "the queue " + options_.folder;
    Log(LogLevel::kWarn, "delivery", ParcelLossName(static_cast<ParcelLoss>(i)),
        where + " lost " + std::to_string(parcels) + " parcels, " + std::to_string(items) + " items in them",
        where);
  }
  told_ = counts;
}

// Without mutex_ while the disk works: a Push of the other thread need not wait for this.
void ParcelQueue::SyncIfDue(Instant now) {
  ParcelStore::ToSync files;
  {
    std::lock_guard lock(mutex_);
    files = store_->DueSync(now);
  }
  for (const UniqueFd& file : files) {
    if (!file || ::fdatasync(file.get()) == 0) continue;
    Status failed = ErrnoStatus("sync " + options_.folder, errno);
    std::lock_guard lock(mutex_);
    store_->SyncFailed(std::move(failed));
    return;
  }
}

}  // namespace gpulens
