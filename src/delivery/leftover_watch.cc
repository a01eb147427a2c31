#include "delivery/leftover_watch.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gpulens {
namespace {

constexpr Duration kBetweenLooks = std::chrono::seconds(60);
constexpr size_t kMostLeftovers = 64;

}  // namespace

std::vector<QueueLeftover> LeftoversIn(const std::vector<QueueFolder>& folders) {
  std::map<std::string, QueueLeftover> by_sink;
  for (const QueueFolder& folder : folders) {
    for (const QueueReader& reader : folder.readers) {
      if (reader.configured || reader.records == 0) continue;
      if (by_sink.size() == kMostLeftovers && !by_sink.contains(reader.sink)) continue;
      QueueLeftover& leftover = by_sink[reader.sink];
      leftover.sink = reader.sink;
      leftover.records += reader.records;
      leftover.bytes += reader.bytes;
    }
  }
  std::vector<QueueLeftover> leftovers;
  for (auto& [sink, leftover] : by_sink) leftovers.push_back(std::move(leftover));
  return leftovers;
}

void LeftoverWatch::SetWhere(Where where) {
  std::lock_guard lock(mutex_);
  where_ = std::move(where);
  due_ = true;
}

void LeftoverWatch::LookIfDue(Instant now, Workers& workers) {
  {
    std::lock_guard lock(mutex_);
    if (looking_ || (!due_ && now.boot_ns - looked_boot_ns_ < kBetweenLooks.count())) return;
    looking_ = true;
    due_ = false;
    looked_boot_ns_ = now.boot_ns;
  }
  if (workers.Post([self = shared_from_this()] { self->Look(); })) return;
  std::lock_guard lock(mutex_);
  looking_ = false;
  due_ = true;
}

void LeftoverWatch::Look() {
  std::unique_lock lock(mutex_);
  const Where where = where_;
  lock.unlock();
  QueueLook look;
  look.configured = where.configured;
  look.leftovers_only = true;
  look.query_use = false;
  look.counts = &counts_;
  ++counts_.look;
  std::vector<QueueFolder> folders;
  for (const QueuePlace& place : AllQueuePlaces(where.root, where.chosen).places)
    folders.push_back(LookAtQueue(place, look));
  counts_.Sweep();
  std::vector<QueueLeftover> found = LeftoversIn(folders);
  lock.lock();
  found_ = std::move(found);
  looking_ = false;
}

std::vector<QueueLeftover> LeftoverWatch::found() const {
  std::lock_guard lock(mutex_);
  return found_;
}

}  // namespace gpulens
