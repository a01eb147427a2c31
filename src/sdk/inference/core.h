// Implementation of InferenceStore, also used by bindings with rows in the table's units; and its writing
// thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <gpulens/inference.h>

#include "base/clock.h"
#include "sdk/inference/record_ring.h"
#include "store/sqlite/sqlite.h"
#include "store/telemetry/rows.h"

namespace gpulens::inference {

// Time without a written record after which producers no longer wait for room: longer than a wait for
// SQLite's lock and than the pause between two attempts at a server, at most 5 s each.
inline constexpr Duration kBlockTime = std::chrono::seconds(10);

struct CallRecorderOptions {
  std::string name;  // of the destination, for people
  size_t queue_records = 16'384;
  bool block = false;  // when the queue is full: wait for room; false: drop the record
  Duration block_time = kBlockTime;
  size_t flush_records = 1024;
  Duration flush_interval = std::chrono::seconds(1);
};

// What Record does with a full queue: wait or drop, by the options, or return false at once, without counting
// the record. The latter is for callers that must release a lock before they wait.
enum class IfFull : uint8_t { kWaitOrDrop, kReturn };

// Thread-safe. Must not be used or destroyed in a child after a fork.
class CallRecorder {
 public:
  // kExhausted: no thread can be started.
  static Result<std::unique_ptr<CallRecorder>> Start(
      CallRecorderOptions options, std::unique_ptr<telemetry::RecordDestination> destination);
  // Does not wait for a thread that hangs in a write.
  ~CallRecorder();
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;

  // Returns whether the record was queued.
  bool Record(const telemetry::RecordRow& row, std::unique_ptr<RecordSettler>* settler = nullptr,
              IfFull if_full = IfFull::kWaitOrDrop) noexcept;
  // Copies the record; the writing thread converts it to a row.
  bool Record(const InferenceRecord& record, IfFull if_full = IfFull::kWaitOrDrop) noexcept;
  // Stores an invalid record in a separate table. Returns whether it was queued.
  bool SetAside(std::string_view record, std::string_view reason) noexcept;
  // Why Record with `block` returned false. Ok: the recorder is closed.
  Status blocked() const;

  // Waits until all earlier records are written. kTimeout, or the error of writing.
  Status Flush(Duration timeout);
  // Runs a task on the writing thread, after all earlier records.
  Status Do(std::function<Status(telemetry::RecordDestination&)> task, Duration timeout);
  // Writes queued records and ends the thread. Later calls return the same result.
  Status Close(Duration timeout);
  StoreHealth health() const;

 private:
  struct Shared;
  template <class... Given>
  bool Take(IfFull if_full, const Given&... given) noexcept;
  bool Drop() noexcept;
  explicit CallRecorder(std::shared_ptr<Shared> shared) noexcept;
  std::shared_ptr<Shared> shared_;
};

}  // namespace gpulens::inference

namespace gpulens::internal {

// Thread-safe. InferenceStore documents the functions.
class InferenceCore {
 public:
  static Result<std::shared_ptr<InferenceCore>> Open(std::string_view path_or_url,
                                                     const StoreOptions& options);
  ~InferenceCore();
  InferenceCore(const InferenceCore&) = delete;
  InferenceCore& operator=(const InferenceCore&) = delete;

  // Records a row and returns whether it was queued. `settler` completes it before it is written, and is
  // moved from if the row is queued.
  bool Record(const telemetry::RecordRow& row, std::unique_ptr<inference::RecordSettler>* settler = nullptr,
              inference::IfFull if_full = inference::IfFull::kWaitOrDrop) noexcept;
  bool Record(const InferenceRecord& record,
              inference::IfFull if_full = inference::IfFull::kWaitOrDrop) noexcept;
  // Counts a record that the caller could not create.
  void Drop() noexcept { lost_.fetch_add(1, std::memory_order_relaxed); }
  // Stores an invalid record, with the reason, in `telemetry_poison`. Returns whether it was queued.
  bool SetAside(std::string_view record, std::string_view reason) noexcept;
  // Why a record was dropped although the store waits for room. Ok: it does not, or it is closed.
  Status blocked();

  // Neither returns an error for dropped records; TakeDropped has their number.
  Status Flush(Duration timeout);
  Status Close(Duration timeout);
  // Number of records dropped since the last call.
  uint64_t TakeDropped();
  // kExhausted: TakeDropped() is not 0.
  Status DroppedStatus();
  StoreHealth health();
  const std::string& path() const noexcept { return path_; }
  const StoreOptions& options() const noexcept { return options_; }

  // Flushes, then calls `read` with a read-only connection. `read` must not fork or call the store.
  // kInvalidArgument: the store is a server.
  Status Read(const std::function<Status(const sqlite::Database&)>& read);
  // Flushes and returns the URL of a server; "" for a file.
  Result<std::string> ServerToRead();
  Result<uint64_t> Clear();
  Status Vacuum();

 private:
  InferenceCore(std::string path, const StoreOptions& options, std::string url)
      : path_(std::move(path)), options_(options), url_(std::move(url)) {}
  Result<std::unique_ptr<telemetry::RecordDestination>> OpenDestination();
  Result<std::unique_ptr<inference::CallRecorder>> Begin();
  // Returns the recorder of this process; null: there is none, and records are dropped.
  inference::CallRecorder* Current() noexcept;

  const std::string path_;
  const StoreOptions options_;
  const std::string url_;  // with the password, never shown; "" for a file
  sqlite::ForkLocal<inference::CallRecorder> recorder_;
  std::atomic<bool> closed_ = false;
  std::atomic<uint64_t> lost_ = 0;      // without a recorder
  std::atomic<uint64_t> reported_ = 0;  // dropped records that TakeDropped has returned
  uint64_t crashed_ = 0;
};

}  // namespace gpulens::internal
