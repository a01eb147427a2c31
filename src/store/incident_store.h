// Incidents on disk: an SQLite file of bounded size that other processes may read while it is written. An
// incident whose Add returned ok survives a crash of the program or of the machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "core/frame.h"
#include "store/sqlite/sqlite.h"

namespace gpulens {

// An event, and the readings of its GPU in the half minute before.
struct Incident {
  int64_t id = 0;  // given by the store, counts up
  int64_t unix_ns = 0;
  std::string name;  // of the event
  EventSeverity severity = EventSeverity::kUnset;
  std::optional<int64_t> gpu_index;
  std::string gpu_uuid;
  std::string body;
  std::string attributes;  // JSON object
  std::string readings;    // JSON object as ReadingsJson makes it; empty: none were kept
};

// Numbers of one GPU over some seconds.
struct IncidentReadings {
  struct Column {
    std::string name, unit;
    AttributeSet attributes;  // beyond the GPU's own
  };
  struct Sample {
    double seconds = 0;          // before the event negative
    std::vector<double> values;  // by column; NaN: absent
  };
  std::vector<Column> columns;
  std::vector<Sample> samples;
};

// The row of an event: its own attributes over those of its entity.
Incident MakeIncident(const Event& event);

// {"columns":[{"name":"gpu.power.draw","unit":"W"},…],"samples":[[-29.5,612.3,null],…]}: the first number of
// a sample is its time in seconds from the event. Empty when there is no sample.
std::string ReadingsJson(const IncidentReadings& readings);

// The file within the state folder.
inline constexpr std::string_view kIncidentFile = "incidents.db";

// Not thread-safe. Waits for the disk.
class IncidentStore {
 public:
  struct Options {
    std::string path;
    uint64_t max_bytes = 64 << 20;  // the oldest rows go before the file gets larger
    bool read_only = false;
    Duration longest = std::chrono::seconds(10);  // of all reading, and of an Add: then kTimeout
  };
  // Bytes of all rows that Find returns.
  static constexpr size_t kMostFoundBytes = 256 << 20;
  struct Filter {
    int64_t since_unix_ns = 0;
    std::optional<int64_t> gpu_index;
    std::string gpu_uuid;  // or its beginning; empty: any
    std::string name;      // empty: any
    size_t limit = 10'000;
    bool readings = false;
  };

  // Makes a missing file (for owner and group only) and folder, unless read-only. A broken file is renamed to
  // NAME.broken and replaced by a new one. kUnavailable: no such file (read-only), or it was written by a
  // newer program.
  static Result<std::unique_ptr<IncidentStore>> Open(const Options& options);
  Status Add(const Incident& incident);
  // The newest `limit` matches by time, oldest first. Empty for a file without its table. kTimeout,
  // kExhausted: the file has more than can be read; one that this program wrote has not.
  Result<std::vector<Incident>> Find(const Filter& filter);
  // Size of the file, without its log.
  uint64_t bytes();

 private:
  IncidentStore(sqlite::Database database, Options options)
      : options_(std::move(options)), database_(std::move(database)) {}
  static Result<std::unique_ptr<IncidentStore>> OpenOnce(const Options& options);
  Status MakeRoom();

  const Options options_;
  sqlite::Database database_;
  sqlite::Statement insert_, remove_;
  bool empty_ = false;  // the file has no table yet
};

// Writes incidents to disk on a thread of its own, which the first incident starts. Thread-safe. While the
// file cannot be opened, incidents are counted as errors and one line is logged a minute.
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
