// Persistent queue of requests, each stored once for any number of readers.
//
//   auto log = RequestLog::Open({.folder = …, .owner = "otlp"}, clock);
//   auto reader = log->Attach("otlp", {}, [] { /* records may be ready */ });
//   log->Append(bytes, points);
//   while (auto record = reader->Next()) { … reader->Done(record->id); }
//
// Guarantees:
// - Each reader's Next returns a record whose Append returned kOnDisk, in the order of the appends, until the
//   record is done or counted as dropped, even after SIGKILL: a reader that attaches again continues at its
//   position, and at most the records in flight are delivered twice. After a power failure, records whose
//   completion was not yet synced are delivered again (SyncPolicy::kAlways: at most those in flight).
// - Each reader has a bound of its own: beyond it, its position moves over the oldest segment, which is
// counted,
//   and no other reader is affected. A segment is removed when all readers are past it.
// - An unusable folder (read-only, full, locked, removed) does not stop delivery: records wait in bounded
//   memory, Append returns kInMemory, and the folder is tried again every retry_interval.
// - A backlog on disk needs about 100 bytes of memory a segment.
// - Damaged bytes cost the records that contain them, but neither the order of others nor the process.
//
// A folder belongs to one log of one process. docs/delivery-queue.md describes the files.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gpulens/status.h>

#include "base/clock.h"
#include "delivery/disk_log.h"
#include "delivery/record.h"

namespace gpulens {

class LogReader;

// Thread-safe. Append, Next and Done wait for the disk; stats do not.
class RequestLog : public std::enable_shared_from_this<RequestLog> {
 public:
  enum class Kept : uint8_t { kOnDisk, kInMemory };
  // Called once, from any thread, at the latest by the destructor: ok when a reader delivered the record, or
  // all that were attached at the Append skipped it; else kExhausted.
  using Outcome = std::function<void(Status)>;

  // An unusable folder is not an error; see disk(). `clock` outlives the log.
  static std::shared_ptr<RequestLog> Open(RequestLogOptions options, const Clock& clock);
  ~RequestLog();

  // Copies `bytes`. With an `outcome`, a record that only memory takes is tried once by each reader, until
  // one has delivered it, and then `outcome` is called; it is not called for a record on disk. Errors change
  // nothing: kExhausted without space, kInvalidArgument for a record above the bound, which is counted,
  // kUnavailable when no reader is attached.
  Result<Kept> Append(std::string_view bytes, uint32_t items, Outcome outcome = {});

  // `on_ready` is called, from any thread and without locks, when there may be new records. Null while
  // another LogReader has the name. Names are of [A-Za-z0-9_-] and '/'.
  std::shared_ptr<LogReader> Attach(const std::string& name, const ReaderBounds& bounds,
                                    std::function<void()> on_ready);
  // Removes a reader that is not attached, and drops its records.
  void Forget(const std::string& name);
  // Whether there is such a reader, attached or not.
  bool Knows(const std::string& name) const;
  // The same for a folder that is not open.
  static bool HasReader(const std::string& folder, const std::string& name, const std::string& owner);
  // All names, attached or not.
  std::vector<std::string> readers() const;
  size_t attached() const;
  // Counts writers: a log without writers whose readers are done can be removed.
  void AddWriter() noexcept { ++writers_; }
  void RemoveWriter() noexcept { --writers_; }
  size_t writers() const noexcept { return writers_; }

  // Syncs, drops old records and tries an unusable folder again. Returns the time until the next call.
  Duration Maintain();
  // Closes a log without readers and removes its folder. True when the folder is gone.
  bool RemoveIfDone();

  struct Leftover {
    std::string reader;
    uint64_t records = 0, bytes = 0;
  };
  // Readers that are not attached, with their waiting records.
  std::vector<Leftover> leftovers() const;
  // Why the folder cannot be used; ok without a folder.
  Status disk() const;
  const RequestLogOptions& options() const noexcept { return options_; }

 private:
  friend class LogReader;
  struct Reader;
  struct InMemory {
    uint64_t id = 0;
    std::string bytes;
    uint32_t items = 0;
    RecordStamp stamp;
    Outcome outcome;
    bool delivered = false;
    size_t readers = 0;  // attached at the Append
    size_t skips = 0;    // readers that skipped it
    uint64_t size() const noexcept { return bytes.size() + sizeof(InMemory); }
    LogTotals totals() const noexcept { return {1, items, size()}; }
    Status outcome_status() const;
  };
  using Calls = std::vector<std::function<void()>>;

  RequestLog(RequestLogOptions options, const Clock& clock);
  // Not under mutex_.
  static void Run(const Calls& calls) {
    for (const auto& call : calls) call();
  }
  // All under mutex_.
  void OpenDisk(Instant now);
  void LogInMemory(const Status& why) const;
  void AbandonDisk(Status why);
  void CheckFolder(Instant now);
  void CheckPositions();
  void ForgetReader(Reader& reader);
  void UnmarkOwnerGone(const Reader& owner);
  bool PositionRemoved(const Reader& reader) const;
  Status OpenPosition(Reader& reader);
  void TakeUp(Reader& reader);
  Reader* Find(const std::string& name) const;
  uint64_t LeastLow() const;
  Status AppendToDisk(std::string_view bytes, uint32_t items, Instant now);
  Result<Kept> AppendToMemory(std::string_view bytes, uint32_t items, Instant now, const Status& why,
                              Outcome outcome);
  void MakeRoom(Reader& reader, uint64_t bytes);
  bool DropOldest(Reader& reader, RecordDropReason reason);
  void DropOld(Reader& reader, Instant now);
  const InMemory* MemoryFrom(uint64_t id) const;
  const DiskLog::Segment* SegmentFrom(uint64_t id) const;
  LogTotals& TakenFrom(Reader& reader, const DiskLog::Segment& segment);
  bool Peek(Reader& reader);
  void Take(Reader& reader, const LogTotals& one);
  void PassOver(Reader& reader, uint64_t end, RecordDropReason reason);
  bool IsGone(uint64_t id) const;
  void CountDropped(Reader& reader, RecordDropReason reason, uint64_t records, uint64_t items);
  void SettleItems(Reader& reader);
  void RecountDisk(Reader& reader);
  void RecountMemory(Reader& reader);
  void Moved(Reader& reader);
  void WritePosition(Reader& reader);
  void RemoveBelow(uint64_t id);
  void Trim(Calls& calls);
  void Publish(Reader& reader, std::optional<bool> ready = {});
  void PublishDisk();
  void NotifyAll(Calls& calls);
  void LogDrops(Reader& reader);
  void SyncIfDue(Instant now);

  const RequestLogOptions options_;
  const Clock& clock_;
  const RecordAges ages_;

  mutable std::mutex mutex_;  // taken before state_mutex_
  std::unique_ptr<DiskLog> disk_;
  Status disk_status_;    // of the folder, for appends
  Status access_status_;  // of the last other access
  int64_t tried_boot_ns_ = 0;
  std::deque<InMemory> memory_;
  uint64_t memory_used_ = 0;
  uint64_t next_id_ = 1;
  uint64_t first_away_ = 0;  // first id since the folder is unusable
  // Ids that were dropped and counted: ranges from first to before second, sorted.
  std::vector<std::pair<uint64_t, uint64_t>> gone_;
  std::vector<std::function<void()>>
      late_;  // outcomes of records that were dropped before all readers had them
  std::vector<std::unique_ptr<Reader>> readers_;
  bool closed_ = false;
  std::atomic<size_t> writers_{0};

  mutable std::mutex state_mutex_;  // never held over an access to the disk
  Status shown_disk_;
};

// One reader of a RequestLog. Keeps the log alive and detaches when destroyed. Thread-safe.
class LogReader {
 public:
  static constexpr size_t kMaxInFlight = 64;

  ~LogReader();
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // The oldest record that is neither done nor in flight. Nothing when there is none, when it cannot be read
  // now, or at kMaxInFlight records in flight.
  std::optional<LogRecord> Next();
  // Whether a record in flight is still to be sent: false once it was dropped for space or age.
  bool IsPending(uint64_t id);
  // The record was delivered, or refused permanently.
  void Done(uint64_t id, bool delivered);
  // The record is not for this receiver: done, and neither delivered nor dropped.
  void Skip(uint64_t id);
  // Delivery of the record has ended without success: counts it for the reason for which it was dropped, else
  // for kNotKept.
  void GiveUp(uint64_t id);
  // Next returns the records in flight again.
  void Rewind();
  void SetBounds(const ReaderBounds& bounds);
  // Removes the reader when it detaches.
  void ForgetOnDetach();
  // Whether `bytes` can be appended without drops and leave a quarter of the bound free.
  bool HasRoom(uint64_t bytes) const;

  struct Stats {
    uint64_t records = 0, items = 0;  // not done
    uint64_t bytes = 0;               // with their heads
    uint64_t held_bytes = 0;          // counted against max_bytes, including files not yet removed
    uint64_t max_bytes = 0;
    std::optional<Duration> oldest_age;
    std::array<uint64_t, kRecordDropReasons> dropped_records{};
    // Without the items of records whose damaged heads do not give the number.
    std::array<uint64_t, kRecordDropReasons> dropped_items{};
  };
  Stats stats() const;
  // Whether Next may return a record.
  bool ready() const;
  const std::string& name() const noexcept;
  const std::shared_ptr<RequestLog>& log() const noexcept { return log_; }

 private:
  friend class RequestLog;
  enum class Fate : uint8_t { kDelivered, kFailed, kSkipped };
  void End(uint64_t id, Fate fate);
  LogReader(std::shared_ptr<RequestLog> log, RequestLog::Reader* reader);
  const std::shared_ptr<RequestLog> log_;
  RequestLog::Reader* const reader_;
};

}  // namespace gpulens
