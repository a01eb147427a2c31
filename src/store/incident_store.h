// The incidents on disk: an SQLite file in write-ahead mode, of bounded size, that others may read while it
// is written.
//
// What was added when Add returned ok is there after a crash of the program or of the machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "store/incident.h"

namespace gpulens {

// The file within the state folder.
inline constexpr std::string_view kIncidentFile = "incidents.db";

// Not thread-safe. Waits for the disk.
class IncidentStore {
 public:
  struct Options {
    std::string path;
    uint64_t max_bytes = 64 << 20;  // the oldest rows go before the file gets larger
    bool read_only = false;
  };
  struct Filter {
    int64_t since_unix_ns = 0;
    std::optional<int64_t> gpu_index;
    std::string gpu_uuid;  // or its beginning; empty: any
    std::string name;      // empty: any
    size_t limit = 10'000;
    bool readings = false;
  };

  // Makes file (for owner and group alone) and folder where they are missing (not read-only). A file that is
  // no database or broken is moved aside, as NAME.broken, and a new one begun. kUnavailable: no such file
  // (read-only), or it was written by a newer program.
  static Result<std::unique_ptr<IncidentStore>> Open(const Options& options);
  ~IncidentStore();
  IncidentStore(const IncidentStore&) = delete;
  IncidentStore& operator=(const IncidentStore&) = delete;

  Status Add(const Incident& incident);
  // The newest `limit` that fit by their time, oldest first. Nothing of a file whose table is not made yet.
  Result<std::vector<Incident>> Find(const Filter& filter);
  // Size of the file, without its log.
  uint64_t bytes();

 private:
  struct Database;
  IncidentStore(std::unique_ptr<Database> database, const Options& options);
  static Result<std::unique_ptr<IncidentStore>> OpenOnce(const Options& options);
  Status MakeRoom();

  const Options options_;
  std::unique_ptr<Database> database_;
};

}  // namespace gpulens
