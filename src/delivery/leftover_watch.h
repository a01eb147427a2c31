// Periodic scan for data on disk that waits for sinks which are not configured.
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

// Sinks with waiting data, by name; at most 64.
std::vector<QueueLeftover> LeftoversIn(const std::vector<QueueFolder>& folders);

// Thread-safe. Scans at most once a minute, or after SetWhere.
class LeftoverWatch : public std::enable_shared_from_this<LeftoverWatch> {
 public:
  struct Where {
    std::string root;                // queue folder of the state folder; empty: none
    std::vector<QueuePlace> chosen;  // folders from the configuration of sinks
    std::vector<std::string> configured;
  };

  // The next ScanIfDue scans.
  void SetWhere(Where where);
  // Scans on a worker, which waits for the disk. When no worker takes the job, a later call tries again.
  void ScanIfDue(Instant now, Workers& workers);
  std::vector<QueueLeftover> found() const;

 private:
  void Scan();

  mutable std::mutex mutex_;  // guards what follows, but counts_
  Where where_;
  std::vector<QueueLeftover> found_;
  bool due_ = true, scanning_ = false;
  int64_t scanned_boot_ns_ = 0;
  QueueCounts counts_;  // of the scan in progress
};

}  // namespace gpulens
