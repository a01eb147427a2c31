// What waits on disk for sinks that are not configured: looked at now and then, so that asking costs nothing.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/workers.h"
#include "delivery/queue_folders.h"

namespace gpulens {

struct QueueLeftover {
  std::string sink;
  uint64_t records = 0, bytes = 0;  // in all folders
  friend bool operator==(const QueueLeftover&, const QueueLeftover&) = default;
};

// By name, those for whom something waits; at most 64 sinks.
std::vector<QueueLeftover> LeftoversIn(const std::vector<QueueFolder>& folders);

// Thread-safe. Looks at most once in a minute, or when something changed.
class LeftoverWatch : public std::enable_shared_from_this<LeftoverWatch> {
 public:
  struct Where {
    std::string root;                // the queue folder of the state folder; empty: none
    std::vector<QueuePlace> chosen;  // folders that sinks name themselves
    std::vector<std::string> configured;
  };

  // The next LookIfDue looks.
  void SetWhere(Where where);
  // Looks on a worker, which waits for the disk. Where no worker takes the job, a later call tries again.
  void LookIfDue(Instant now, Workers& workers);
  std::vector<QueueLeftover> found() const;

 private:
  void Look();

  mutable std::mutex mutex_;  // guards what follows, but counts_
  Where where_;
  std::vector<QueueLeftover> found_;
  bool due_ = true, looking_ = false;
  int64_t looked_boot_ns_ = 0;
  QueueCounts counts_;  // of the look that is under way
};

}  // namespace gpulens
