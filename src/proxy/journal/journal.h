// The journal: what every request costs is on disk before its last byte is passed on, and exactly once in
// each store, whatever is killed when.
//
//   session ──▶ Begin, Progress, Settle ──▶ writer thread: group commit ──▶ segments ──▶ one fold a store
//   (charge_fold.h)
//
// Segments, their checksums, positions and the lock are those of the delivery queue (docs/delivery-queue.md);
// bodies are in journal_record.h. Unlike a queue, a journal drops nothing when it is full: it fails, by
// `on_failure`.
//
// - A request of which a Begin, and no Settle, is found at Open gets a row `unsettled`, by `on_crash`.
// - A record whose Kept was kOnDisk survives the end of the process at any moment; with SyncPolicy::kAlways
// also a power
//   cut, else one costs at most those of the last sync_interval.
// - A damaged record is skipped and counted; the others stay.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "base/fd.h"
#include "delivery/log_folder.h"
#include "delivery/record.h"
#include "delivery/segment_file.h"
#include "proxy/journal/journal_record.h"
#include "store/charges/charge_store.h"

namespace gpulens {

// What became of a record.
enum class Kept : uint8_t {
  kOnDisk,      // written; with SyncPolicy::kAlways also synced
  kInMemory,    // the disk fails: it is written when that works again, and lost if the process ends before
  kRefused,     // of a Begin alone: do not dispatch the request; of another, never
  kUnrecorded,  // the disk fails, and the memory for it is full: lost, and counted with its money
  kIgnored,     // a second Begin, or a Settle of a request that is not open
};

// System calls of the writer. Each returns 0 or an errno. Tests derive from it: full disks, power cuts.
class JournalDisk {
 public:
  virtual ~JournalDisk() = default;
  virtual int Create(int folder, const char* name, UniqueFd& out);
  virtual int Write(int file, uint64_t offset, std::string_view bytes);
  virtual int Truncate(int file, uint64_t size);
  virtual int SyncFile(int file);
  virtual int SyncFolder(int folder);
  virtual int Remove(int folder, const char* name);
};

struct JournalOptions {
  // While the disk is full, fails, or holds max_bytes: refuse new requests, or serve them.
  enum class OnFailure : uint8_t { kRefuse, kOpen };
  // What a request that a crash has cut is charged.
  enum class OnCrash : uint8_t {
    kPartial,  // its last Progress, marked `recovered`; without one 0, marked `unsettled`
    kReserve,  // its bound, marked `recovered`
    kZero,     // 0, marked `unsettled`
  };

  std::string folder;
  std::vector<std::string> stores;  // names of the folds: [A-Za-z0-9_-]. Records wait for each of them
  SyncPolicy sync = SyncPolicy::kInterval;
  Duration sync_interval = std::chrono::seconds(1);
  uint64_t segment_bytes = uint64_t{16} << 20;
  uint64_t max_bytes = uint64_t{1} << 30;    // of all segments, when stores are away
  uint64_t held_bytes = uint64_t{64} << 20;  // of records that wait for the writer or, each, for the disk
  OnFailure on_failure = OnFailure::kRefuse;
  OnCrash on_crash = OnCrash::kPartial;
  Duration retry_interval = std::chrono::seconds(1);  // of a failed disk
  Duration idempotency = std::chrono::hours(24);      // how far back JournalFound lists keys
  const Clock* clock = &RealClock();
  std::shared_ptr<JournalDisk> disk = nullptr;  // null: the machine's
};

// What Open found.
struct JournalFound {
  uint64_t records = 0;              // that are whole
  uint64_t unsettled = 0;            // requests that got a row now
  int64_t unsettled_bound_pico = 0;  // sum of their reservations, at most INT64_MAX
  int64_t recovered_pico = 0;        // what they were charged
  uint64_t damaged = 0;              // records whose bytes changed, or that are missing between others
  uint64_t damaged_files = 0;        // segments without a readable head
  uint64_t torn = 0;                 // segments whose last record was cut off; it was never confirmed
  std::vector<IdempotentCharge> idempotent;  // settled ones in the journal, unsettled ones included
};

struct JournalStats {
  uint64_t written = 0;  // records
  uint64_t batches = 0;  // calls of write(2)
  uint64_t open = 0;     // requests begun and not settled
  uint64_t ignored = 0;  // second Begins and Settles
  uint64_t refused = 0;  // Begins
  uint64_t unrecorded = 0;
  __int128 unrecorded_pico = 0;
  uint64_t held = 0, held_bytes = 0;  // in memory, for a disk that fails
  uint64_t write_failures = 0, sync_failures = 0;
  uint64_t disk_bytes = 0, segments = 0;
  uint64_t next_id = 0;  // of the next record: the place of a fold is compared with it
  bool failing = false;
  std::string failure = {};  // of the last attempt, while `failing`
};

// Thread-safe. Begin, Progress and Settle never wait for the disk.
class Journal {
 public:
  // Called once for each record, on the writer thread, without locks and quickly: post it to a loop. When the
  // queue is full it is called by the caller's thread.
  using Done = std::function<void(Kept)>;

  // Reads what is there, writes rows of requests that were cut, and starts the threads. kUnavailable: another
  // process has the folder, or a newer program wrote it. Other errors: the folder cannot be made, read or
  // locked.
  static Result<std::unique_ptr<Journal>> Open(JournalOptions options);
  // Writes what waits, calls every Done, and syncs unless SyncPolicy::kNone. Requests that are open stay so
  // on disk.
  ~Journal();

  const JournalFound& found() const noexcept { return found_; }

  // Whether the writer is woken for a record, or may wait for the next one with kNow, or for Wake. A loop
  // that hands over several wakes it once.
  enum class Waking : uint8_t { kNow, kLater };

  // Before the request is dispatched, which waits for `done`. The record has what is known: key, models,
  // budgets, reserved_pico, idempotency.
  void Begin(ChargeRecord record, Done done, Waking waking = Waking::kNow);
  // Each second or 1,000 events. Not confirmed. Ignored when the request is not open.
  void Progress(ChargeProgress progress);
  // The whole row. The last event is passed on after `done`. settled_unix_ns is set if it is 0.
  void Settle(ChargeRecord record, Done done, Waking waking = Waking::kNow);
  // A row without a Begin: a request that was refused before it cost anything.
  void Record(ChargeRecord record, Done done);

  // Wakes the writer for what was handed over with kLater.
  void Wake();

  // Whether new requests should be let in: false while they would be refused, or while a write has taken
  // longer than a second and on_failure is kRefuse. Without locks.
  bool admits() const noexcept;
  JournalStats stats() const;

  // Returns when all records handed over before are written or failed.
  void Flush();

 private:
  friend class JournalReader;
  enum class Kind : uint8_t { kBegin, kProgress, kSettle, kRecord };
  struct Item {
    Kind kind;
    RequestId id;
    std::string body;
    Done done;
    int64_t pico = 0;
    std::optional<Kept> kept = {};
  };
  struct IdHash {
    size_t operator()(const RequestId& id) const noexcept;
  };
  struct OpenRequest {
    std::string begin, progress;  // bodies
    uint64_t first_id = 0;        // of `begin`; 0: it is not on disk
  };
  struct Segment {
    uint64_t first_id = 0, end_id = 0;  // of the records that are whole and may be read
    uint64_t bytes = 0;
  };
  struct StorePlace {
    std::unique_ptr<PositionFile> file;  // used by the store's reader alone
    uint64_t next_id = 1;
    uint64_t wake_id = UINT64_MAX;  // its reader waits for the end of records to reach this
  };

  Journal(JournalOptions options, LogFolder folder);
  Status Load();
  Status LoadSegment(uint64_t first_id, uint64_t id_limit);
  void LoadEntry(const std::string& body);
  void SettleCutRequests();

  void Enqueue(Item item, Waking waking);
  void RunWriter();
  void RunSyncer();
  void Handle(std::vector<Item>& batch);
  bool Admit(Item& item);
  void Fail(Item& item);
  size_t WriteBodies(const std::vector<std::string_view>& bodies, int& error);
  int Rotate();
  void AbandonSegment(uint64_t keep);
  void NoteFailure(std::string_view what, int error);
  void RetryDisk();
  bool FrontIsFolded() const;
  void RemoveFolded();

  const JournalOptions options_;
  LogFolder folder_;
  const std::shared_ptr<JournalDisk> disk_;
  JournalFound found_;

  // Of the writer thread.
  std::unordered_map<RequestId, OpenRequest, IdHash> open_;
  std::deque<Item> held_;
  std::shared_ptr<UniqueFd> file_;  // the segment that grows; null: the next record makes one
  uint32_t salt_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t next_id_ = 1;
  bool rotated_ = false;  // a segment was begun: older ones may go
  std::string buffer_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_writer_, wake_readers_, wake_syncer_, flushed_;
  std::vector<Item> queue_;
  uint64_t queued_bytes_ = 0;
  uint64_t enqueued_ = 0, handled_ = 0;  // items
  bool woken_ = false;                   // the writer, for what is in queue_
  bool stopping_ = false;
  bool stop_sync_ = false;
  std::deque<Segment> segments_;  // oldest first
  std::vector<StorePlace> places_;
  bool places_moved_ = false;
  std::vector<std::shared_ptr<UniqueFd>> unsynced_;
  JournalStats stats_;

  std::atomic<bool> failing_ = false;
  std::atomic<bool> sync_failed_ = false;
  std::atomic<int64_t> writing_since_ns_ = 0;  // boot time; 0: the writer waits
  std::thread writer_, syncer_;
};

// Reads settled charges for one store, in order. Used by one thread; ends before its journal.
class JournalReader {
 public:
  // `store`: an index of JournalOptions::stores.
  JournalReader(Journal& journal, size_t store);

  // Appends settled charges to `out` until it has `most`, or all that are written. Returns the place behind
  // the last one. Damaged records are skipped. An error: a segment cannot be read now.
  Result<uint64_t> Read(size_t most, std::vector<ChargeRecord>& out);
  // All before `place` is in the store: survives the end of the process. Segments that no store needs are
  // removed later.
  Status Done(uint64_t place);
  // Until `records` may be written behind the last place that was read, `stop` is set and Wake was called, or
  // that time.
  void Wait(Duration longest, const std::atomic<bool>& stop, uint64_t records = 1);
  void Wake();
  uint64_t behind() const;  // records from the last Done to the end

 private:
  Journal& journal_;
  const size_t store_;
  uint64_t next_id_ = 1;
  std::optional<SegmentReader> file_;
  uint64_t file_first_id_ = 0;
  std::string body_;
};

}  // namespace gpulens
