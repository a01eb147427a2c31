// Scans folders of request logs from outside, for commands, findings and metrics: where they are and what
// waits in them; and drops data of removed sinks.
//
// Scans take no lock and may run while an agent uses the folders. Folders and files are untrusted input:
// unreadable ones are reported in QueueFolder::problems. Memory: 16 bytes for each segment of one folder,
// with bounds on all counts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/threads.h"

namespace gpulens {

// Folder of a log.
struct QueuePlace {
  std::string folder;
  std::string owner;    // reader of the file `position`; empty: none
  bool follow = false;  // follow a symbolic link at `folder`, which the configuration names
};

// The sink that owns a folder of the state folder's queue folder: "otlp/b" for "otlp.b". Empty for the shared
// "otlp+1" and "received".
std::string OwnerOfQueueFolder(const std::string& name);
// All names in the queue folder of a state folder, sorted, including files. Empty when it does not exist.
// kExhausted for more than 1,024.
Result<std::vector<QueuePlace>> QueuePlacesIn(const std::string& root);
// `folder` and its siblings of the same sinks: `folder`+1 and so on, and `received`.
std::vector<QueuePlace> QueuePlacesNextTo(const std::string& folder, const std::string& owner);

// The places in `root`, which may be empty, and of each of `chosen` with its siblings, without duplicates.
// `status`: why some may be missing.
struct QueuePlaces {
  std::vector<QueuePlace> places;
  Status status;
};
QueuePlaces AllQueuePlaces(const std::string& root, const std::vector<QueuePlace>& chosen);
// Whether `name` has only characters of a sink's name, with '.' for '/'.
bool IsSinkFile(std::string_view name) noexcept;

struct QueueReader {
  std::string sink;
  bool configured = false;
  uint64_t records = 0, bytes = 0;  // waiting; unreadable heads are not counted
  int64_t oldest_unix_ns = 0;       // of the first; 0: none
};

struct QueueFolder {
  std::string path, owner;
  bool in_use = false;
  int64_t holder = 0;  // process that uses it; 0: unknown
  uint64_t segments = 0, file_bytes = 0;
  std::vector<QueueReader> readers;  // by name
  std::vector<std::string> problems;
};

// Cached totals of whole segments, so that the next scan does not read them again. Not thread-safe.
struct QueueCounts {
  struct Segment {
    uint64_t file_bytes = 0, records = 0, bytes = 0;
    int64_t first_unix_ns = 0;
    bool damaged = false;
    uint64_t scan = 0;
  };
  std::map<std::pair<std::string, uint64_t>, Segment> segments;  // by folder and first id
  uint64_t scan = 0;  // incremented by the caller for each scan of all folders
  // Forgets segments that the current scan has not seen.
  void Sweep();
};

struct QueueScanOptions {
  std::vector<std::string> configured;  // names of sinks
  bool count = true;                    // count waiting records; false: readers and files only
  bool leftovers_only = false;          // do not count for configured readers
  bool query_use = true;                // fill in_use and holder
  QueueCounts* counts = nullptr;
};

// Scans a folder. Errors are in QueueFolder::problems.
QueueFolder ScanQueue(const QueuePlace& place, const QueueScanOptions& options);

// Outcome of DropFromQueue.
struct QueueDrop {
  bool in_use = false;       // a running process frees the space within half a minute
  int64_t holder = 0;        // that process; 0: unknown
  bool removed = false;      // the folder was removed, as it has no other reader
  uint64_t freed_bytes = 0;  // of removed files
};

// Drops what waits for a removed sink. Safe next to a running agent and against crashes: a step that was not
// reached changes nothing, and no step affects another reader. kUnavailable when the sink has no position
// there. Other errors: nothing was dropped, or (kExhausted, kIo after the position was removed) the space is
// not free yet.
Result<QueueDrop> DropFromQueue(const QueuePlace& place, const std::string& sink, const Clock& clock);

// Removes a folder without readers, as a crash after the last drop leaves it. False when it has a reader, is
// in use, or cannot be read.
bool RemoveAbandoned(const QueuePlace& place, const Clock& clock);

// Data that waits for a sink which is not configured.
struct QueueLeftover {
  std::string sink;
  uint64_t records = 0, bytes = 0;  // in all folders
  friend bool operator==(const QueueLeftover&, const QueueLeftover&) = default;
};

// Unconfigured sinks with waiting data, by name; at most 64.
std::vector<QueueLeftover> LeftoversIn(const std::vector<QueueFolder>& folders);
// Scans `places` for them. `counts` may be null.
std::vector<QueueLeftover> FindLeftovers(const std::vector<QueuePlace>& places,
                                         const std::vector<std::string>& configured,
                                         QueueCounts* counts = nullptr);

// Periodic scan for leftovers, at most once a minute, and after SetWhere. Thread-safe.
class LeftoverWatch : public std::enable_shared_from_this<LeftoverWatch> {
 public:
  struct Where {
    std::string root;                // queue folder of the state folder; empty: none
    std::vector<QueuePlace> chosen;  // folders from the configuration of sinks
    std::vector<std::string> configured;
  };

  // Sets the folders. The next ScanIfDue scans.
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
