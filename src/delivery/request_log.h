// The request log: what was accepted for delivery, once, for any number of readers.
//
//   auto log = RequestLog::Open({.folder = …, .owner = "otlp"}, clock);
//   auto reader = log->Attach("otlp", {}, [] { /* something may be there */ });
//   log->Append(bytes, points);
//   while (auto record = reader->Next()) { … reader->Done(record->id); }
//
// Guarantees:
// - a record whose Append returned kOnDisk comes out of each reader's Next, in the order of the appends,
// until it
//   is done, or its loss is counted by reason. This holds across the end of the process, kill -9 too: a
//   reader that attaches takes up where it was, and at most the records that were under way come twice.
//   Across a power cut: see LogSync; there the last records may come more than twice, as far as the disk had
//   not learnt that they were done (kAlways: those under way);
// - each reader is bounded by itself: where it is too far behind, its position moves forward over the oldest
//   segment, counted, and no other reader loses anything. A segment is removed when all readers are past it;
// - a folder that cannot be used (read-only, full, locked, gone) never stops delivery: records then wait in a
//   bounded memory, Append says so, and the folder is tried again every retry_interval;
// - a backlog on disk costs no memory: one record at a time, and some 100 bytes a segment;
// - ages are by the clock that never jumps. Only for records of an earlier start of the machine wall time is
//   asked, once, at Open;
// - damaged bytes cost the records they hit, never the order, never a crash.
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
#include "delivery/record_age.h"

namespace gpulens {

class LogReader;

// Thread-safe. Appends, Next and Done wait for the disk; the stats never do.
class RequestLog : public std::enable_shared_from_this<RequestLog> {
 public:
  enum class Kept : uint8_t { kOnDisk, kInMemory };
  // Called once, from any thread: ok when at least one reader delivered the record, or all that were attached
  // at the Append skipped it; kExhausted else, and at the latest when the log is destroyed.
  using Outcome = std::function<void(Status)>;

  // A folder that cannot be used is no error: see stats().disk. `clock` outlives the log.
  static std::shared_ptr<RequestLog> Open(RequestLogOptions options, const Clock& clock);
  ~RequestLog();

  // Copies `bytes`. With an `outcome` a record that the disk does not take is tried by each reader, once
  // until one has delivered it, and `outcome` says what came of it; it is not called for one that is on disk.
  // After an error nothing was taken: kExhausted when there is no room, kInvalidArgument when the record is
  // larger than the log may be, which is counted, kUnavailable when no reader is attached.
  Result<Kept> Append(std::string_view bytes, uint32_t items, Outcome outcome = {});

  // `on_ready` is called, by any thread and without locks, when there may be something new. Null while
  // another LogReader has the name. Names are of [A-Za-z0-9_-] and '/'.
  std::shared_ptr<LogReader> Attach(const std::string& name, const ReaderBounds& bounds,
                                    std::function<void()> on_ready);
  // The reader is not attached and will not come back: what waits for it is dropped.
  void Forget(const std::string& name);
  // Whether a reader was here before, attached or not.
  bool Knows(const std::string& name) const;
  // The same of a folder that is not open.
  static bool HasReader(const std::string& folder, const std::string& name, const std::string& owner);
  // All names, attached or not.
  std::vector<std::string> readers() const;
  size_t attached() const;
  // Who appends says so while it may: a log without writers whose readers are done can be removed.
  void AddWriter() noexcept { ++writers_; }
  void RemoveWriter() noexcept { --writers_; }
  size_t writers() const noexcept { return writers_; }

  // Syncs what is due, and tries a folder again that could not be used. To be called now and then; returns
  // after how long at the latest.
  Duration Maintain();
  // Closes the log for good, and removes its folder where nothing waits in it for any reader. True when it is
  // gone.
  bool RemoveIfDone();

  struct Leftover {
    std::string reader;
    uint64_t records = 0, bytes = 0;
  };
  // Readers that are not attached, and what waits for them.
  std::vector<Leftover> leftovers() const;
  // How the folder is: ok, or why it is not used. Ok without a folder.
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
    size_t readers = 0;  // attached when it came
    size_t skips = 0;    // of them that it is not for
    uint64_t size() const noexcept { return bytes.size() + sizeof(InMemory); }
    Status outcome_status() const;
  };
  using Calls = std::vector<std::function<void()>>;

  RequestLog(RequestLogOptions options, const Clock& clock);
  // All under mutex_.
  void OpenDisk(Instant now);
  void LoseDisk(Status why);
  void CheckFolder(Instant now);
  void CheckPositions();
  void ForgetReader(Reader& reader);
  void OwnerIsHere(const Reader& owner);
  bool PositionRemoved(const Reader& reader) const;
  Status OpenPosition(Reader& reader);
  void TakeUp(Reader& reader);
  Reader* Find(const std::string& name) const;
  Status AppendToDisk(std::string_view bytes, uint32_t items, Instant now);
  Result<Kept> AppendToMemory(std::string_view bytes, uint32_t items, Instant now, const Status& why,
                              Outcome outcome);
  void MakeRoom(Reader& reader, uint64_t bytes);
  bool DropOldest(Reader& reader, RecordLoss reason);
  void LoseOld(Reader& reader, Instant now);
  const InMemory* MemoryFrom(uint64_t id) const;
  const DiskLog::Segment* SegmentFrom(uint64_t id) const;
  LogTotals& TakenFrom(Reader& reader, const DiskLog::Segment& segment);
  bool Peek(Reader& reader);
  void Take(Reader& reader, const LogTotals& one);
  void PassOver(Reader& reader, uint64_t end, RecordLoss reason);
  bool IsGone(uint64_t id) const;
  void Lose(Reader& reader, RecordLoss reason, uint64_t records, uint64_t items);
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
  void LogLosses(Reader& reader);
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
  uint64_t first_away_ = 0;  // the first id since there is no disk
  // Ids that were lost and counted: from, and to below. Sorted.
  std::vector<std::pair<uint64_t, uint64_t>> gone_;
  std::vector<std::function<void()>> late_;  // outcomes of records that had to go before all had them
  std::vector<std::unique_ptr<Reader>> readers_;
  bool closed_ = false;
  std::atomic<size_t> writers_{0};

  mutable std::mutex state_mutex_;  // never held over an access to the disk
  Status shown_disk_;
};

}  // namespace gpulens
