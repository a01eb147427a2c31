// What waits in the folders of request logs, seen from outside: for commands, findings and metrics. Reads
// only, takes no lock, and may look while an agent uses the folders; then the numbers are those of a moment.
//
// Folders and files are input from outside: what cannot be read is said in `problems` of its folder, and the
// others are listed all the same. Memory: 16 bytes for each segment of one folder, with bounds on all counts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "delivery/queue_places.h"

namespace gpulens {

struct QueueReader {
  std::string sink;
  bool configured = false;
  uint64_t records = 0, bytes = 0;  // that wait for it; heads on disk that cannot be read are not counted
  int64_t oldest_unix_ns = 0;       // of the first of them; 0: none waits
};

struct QueueFolder {
  std::string path, owner;
  bool in_use = false;
  int64_t holder = 0;  // the process that uses it; 0: not known
  uint64_t segments = 0, file_bytes = 0;
  std::vector<QueueReader> readers;  // by name
  std::vector<std::string> problems;
};

// What whole segments hold, so that a second look need not read them again. Not thread-safe.
struct QueueCounts {
  struct Segment {
    uint64_t file_bytes = 0, records = 0, bytes = 0;
    int64_t first_unix_ns = 0;
    bool damaged = false;
    uint64_t look = 0;
  };
  std::map<std::pair<std::string, uint64_t>, Segment> segments;  // by folder and first id
  uint64_t look = 0;  // raised by the caller for each look at all folders
  // Forgets what the present look has not seen.
  void Sweep();
};

struct QueueLook {
  std::vector<std::string> configured;  // names of sinks
  bool count = true;                    // else readers and files alone, nothing of what waits
  bool leftovers_only = false;          // nothing is counted for readers that are configured
  bool query_use = true;                // fill in_use and holder
  QueueCounts* counts = nullptr;
};

// Never fails: see QueueFolder::problems.
QueueFolder LookAtQueue(const QueuePlace& place, const QueueLook& look);

}  // namespace gpulens
