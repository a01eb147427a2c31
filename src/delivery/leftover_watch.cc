#include "delivery/leftover_watch.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gpulens {
namespace {

constexpr Duration kScanInterval = std::chrono::seconds(60);
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

void LeftoverWatch::ScanIfDue(Instant now, Workers& workers) {
  {
    std::lock_guard lock(mutex_);
    if (scanning_ || (!due_ && now.boot_ns - scanned_boot_ns_ < kScanInterval.count())) return;
    scanning_ = true;
    due_ = false;
    scanned_boot_ns_ = now.boot_ns;
  }
  if (workers.Post([self = shared_from_this()] { self->Scan(); })) return;
  std::lock_guard lock(mutex_);
  scanning_ = false;
  due_ = true;
}

void LeftoverWatch::Scan() {
  std::unique_lock lock(mutex_);
  const Where where = where_;
  lock.unlock();
  QueueScanOptions options;
  options.configured = where.configured;
  options.leftovers_only = true;
  options.query_use = false;
  options.counts = &counts_;
  ++counts_.scan;
  std::vector<QueueFolder> folders;
  for (const QueuePlace& place : AllQueuePlaces(where.root, where.chosen).places)
    folders.push_back(ScanQueue(place, options));
  counts_.Sweep();
  std::vector<QueueLeftover> found = LeftoversIn(folders);
  lock.lock();
  found_ = std::move(found);
  scanning_ = false;
}

std::vector<QueueLeftover> LeftoverWatch::found() const {
  std::lock_guard lock(mutex_);
  return found_;
}

}  // namespace gpulens
