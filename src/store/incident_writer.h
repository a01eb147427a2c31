// Writes incidents to disk without anybody having to wait for the disk.
#pragma once

#include <memory>

#include "base/clock.h"
#include "store/incident_store.h"

namespace gpulens {

// Thread-safe. Has a thread of its own from the first incident on; before that neither thread nor file is
// opened. While the file cannot be opened (no such folder, no permission) incidents are counted as errors,
// the log says so once, and it is tried again after a minute.
class IncidentWriter {
 public:
  // Incidents that may wait; a further one is dropped and counted.
  static constexpr size_t kMaxWaiting = 256;

  struct Stats {
    uint64_t ok = 0, errors = 0, dropped = 0;
    uint64_t bytes = 0;  // 0: nothing was written yet
  };

  IncidentWriter(IncidentStore::Options options, const Clock& clock);
  // Writes what waits, for a second at most; a write that hangs is left behind.
  ~IncidentWriter();
  IncidentWriter(const IncidentWriter&) = delete;
  IncidentWriter& operator=(const IncidentWriter&) = delete;

  void Add(Incident incident);
  Stats stats() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace gpulens
