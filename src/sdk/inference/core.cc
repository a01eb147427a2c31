#include "sdk/inference/core.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "store/telemetry/file_writer.h"
#include "store/telemetry/schema.h"
#include "store/telemetry/servers/servers.h"
#include "store/telemetry/summary.h"

namespace gpulens::internal {

using namespace inference;

namespace {

constexpr Duration kFlushTime = std::chrono::seconds(5), kLongTime = std::chrono::hours(1);

Status CheckOptions(const StoreOptions& options) {
  if (options.queue_records == 0 || options.queue_records > size_t{1} << 24)
    return {Code::kInvalidArgument, "queue_records must be from 1 to 16,777,216"};
  if (options.when_full != WhenFull::kBlock && options.when_full != WhenFull::kDropNewest)
    return {Code::kInvalidArgument, "when_full must be kBlock or kDropNewest"};
  if (options.flush_records == 0) return {Code::kInvalidArgument, "flush_records must be at least 1"};
  if (options.flush_interval < std::chrono::milliseconds(1) || options.flush_interval > std::chrono::hours(1))
    return {Code::kInvalidArgument, "flush_interval must be from 1 ms to 1 h"};
  if (options.retention < std::chrono::nanoseconds(0))
    return {Code::kInvalidArgument, "retention must not be negative"};
  return Ok();
}

}  // namespace

Result<std::shared_ptr<InferenceCore>> InferenceCore::Open(std::string_view path_or_url,
                                                           const StoreOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (path_or_url.empty()) return Status{Code::kInvalidArgument, "a store needs a file"};
  const bool server = telemetry::IsServer(path_or_url);
  if (!server && path_or_url.find("://") != std::string_view::npos) {
    return Status{Code::kInvalidArgument,
                  "\"" + std::string(path_or_url.substr(0, path_or_url.find("://"))) +
                      "\" is not a kind of store that this build writes; pass the path of a file, "
                      "postgresql://… or clickhouse://…"};
  }
  ASSIGN_OR_RETURN(std::string path,
                   server ? telemetry::ServerName(path_or_url) : telemetry::ExpandPath(path_or_url));
  std::shared_ptr<InferenceCore> core(
      new InferenceCore(std::move(path), options, std::string(server ? path_or_url : "")));
  if (options.read_only) {
    if (server) {
      RETURN_IF_ERROR(telemetry::CheckServer(core->url_));
      return core;
    }
    sqlite::ForkGuard use;
    RETURN_IF_ERROR(telemetry::OpenToRead(core->path_).status());
    return core;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<CallRecorder> recorder, core->Begin());
  core->recorder_.Set(std::move(recorder));
  return core;
}

Result<std::unique_ptr<telemetry::RecordDestination>> InferenceCore::OpenDestination() {
  if (!url_.empty()) {
    // Makes SQLite's fork handlers count forks from now on.
    {
      sqlite::ForkGuard use;
    }
    return telemetry::OpenServer(url_, options_.retention);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<telemetry::FileWriter> writer,
                   telemetry::FileWriter::Open({.path = path_,
                                                .retention = options_.retention,
                                                .rollup = std::make_unique<telemetry::RollupWriter>()}));
  crashed_ = writer->crashed();
  return std::unique_ptr<telemetry::RecordDestination>(std::move(writer));
}

Result<std::unique_ptr<CallRecorder>> InferenceCore::Begin() {
  ASSIGN_OR_RETURN(std::unique_ptr<telemetry::RecordDestination> destination, OpenDestination());
  return CallRecorder::Start({.name = path_,
                              .queue_records = options_.queue_records,
                              .block = options_.when_full == WhenFull::kBlock,
                              .flush_records = options_.flush_records,
                              .flush_interval = options_.flush_interval},
                             std::move(destination));
}

InferenceCore::~InferenceCore() {
  if (!closed_) static_cast<void>(Close(kFlushTime));
}

CallRecorder* InferenceCore::Current() noexcept {
  return recorder_.Get([this]() -> Result<std::unique_ptr<CallRecorder>> {
    if (closed_) return std::unique_ptr<CallRecorder>();
    return Begin();
  });
}

bool InferenceCore::Record(const telemetry::RecordRow& row, std::unique_ptr<RecordSettler>* settler,
                           IfFull if_full) noexcept {
  if (CallRecorder* recorder = Current()) [[likely]]
    return recorder->Record(row, settler, if_full);
  if (if_full == IfFull::kWaitOrDrop) Drop();
  return false;
}

bool InferenceCore::Record(const InferenceRecord& record, IfFull if_full) noexcept {
  if (CallRecorder* recorder = Current()) [[likely]]
    return recorder->Record(record, if_full);
  if (if_full == IfFull::kWaitOrDrop) Drop();
  return false;
}

bool InferenceCore::SetAside(std::string_view record, std::string_view reason) noexcept {
  if (CallRecorder* recorder = Current()) return recorder->SetAside(record, reason);
  Drop();
  return false;
}

Status InferenceCore::blocked() {
  CallRecorder* recorder = options_.when_full == WhenFull::kBlock ? Current() : nullptr;
  return recorder ? recorder->blocked() : Ok();
}

uint64_t InferenceCore::TakeDropped() {
  const uint64_t dropped = health().dropped, before = reported_.exchange(dropped);
  return dropped > before ? dropped - before : 0;  // a child of a fork counts from 0
}

Status InferenceCore::DroppedStatus() {
  const uint64_t dropped = TakeDropped();
  if (dropped == 0) return Ok();
  return {Code::kExhausted, path_ + ": " + std::to_string(dropped) +
                                " records were dropped: the queue was full, or the store closed"};
}

Status InferenceCore::Flush(Duration timeout) {
  if (options_.read_only) return Ok();
  CallRecorder* recorder = Current();
  return recorder ? recorder->Flush(timeout) : Status{Code::kUnavailable, path_ + " cannot be opened"};
}

Status InferenceCore::Close(Duration timeout) {
  closed_ = true;
  // Nothing was recorded in this child.
  if (options_.read_only || recorder_.in_child()) return Ok();
  CallRecorder* recorder = Current();
  return recorder ? recorder->Close(timeout) : Ok();
}

StoreHealth InferenceCore::health() {
  CallRecorder* recorder = options_.read_only ? nullptr : Current();
  StoreHealth health = recorder ? recorder->health() : StoreHealth{};
  health.dropped += lost_.load(std::memory_order_relaxed);
  health.crashed = crashed_;
  return health;
}

Status InferenceCore::Read(const std::function<Status(const sqlite::Database&)>& read) {
  if (!url_.empty()) return {Code::kInvalidArgument, path_ + " is not a file"};
  if (!closed_) RETURN_IF_ERROR(Flush(kFlushTime));
  sqlite::ForkGuard use;
  ASSIGN_OR_RETURN(const sqlite::Database database, telemetry::OpenToRead(path_));
  return read(database);
}

Result<std::string> InferenceCore::ServerToRead() {
  if (!url_.empty() && !closed_) RETURN_IF_ERROR(Flush(kFlushTime));
  return url_;
}

Result<uint64_t> InferenceCore::Clear() {
  CallRecorder* recorder = options_.read_only ? nullptr : Current();
  if (!recorder) return Status{Code::kPermissionDenied, path_ + " is open read-only"};
  // The task may outlive a wait that is over.
  auto count = std::make_shared<uint64_t>(0);
  RETURN_IF_ERROR(recorder->Do(
      [count](telemetry::RecordDestination& destination) -> Status {
        ASSIGN_OR_RETURN(*count, destination.Clear());
        return Ok();
      },
      kLongTime));
  return *count;
}

Status InferenceCore::Vacuum() {
  CallRecorder* recorder = options_.read_only ? nullptr : Current();
  if (!recorder) return {Code::kPermissionDenied, path_ + " is open read-only"};
  return recorder->Do([](telemetry::RecordDestination& destination) { return destination.Vacuum(); },
                      kLongTime);
}

}  // namespace gpulens::internal

namespace gpulens {

InferenceStore::InferenceStore(std::shared_ptr<internal::InferenceCore> core) noexcept
    : core_(std::move(core)) {}
InferenceStore::InferenceStore(InferenceStore&&) noexcept = default;
InferenceStore& InferenceStore::operator=(InferenceStore&& other) noexcept {
  if (this != &other) {
    InferenceStore old(std::move(*this));
    core_ = std::move(other.core_);
  }
  return *this;
}

InferenceStore::~InferenceStore() {
  if (core_) static_cast<void>(Close());
}

Result<InferenceStore> InferenceStore::Open(std::string_view path_or_url, const StoreOptions& options) {
  ASSIGN_OR_RETURN(auto core, internal::InferenceCore::Open(path_or_url, options));
  return InferenceStore(std::move(core));
}

bool InferenceStore::Record(const InferenceRecord& record) noexcept { return core_->Record(record); }

Status InferenceStore::Flush(std::chrono::nanoseconds timeout) {
  RETURN_IF_ERROR(core_->Flush(timeout));
  return core_->DroppedStatus();
}
Status InferenceStore::Close(std::chrono::nanoseconds timeout) {
  RETURN_IF_ERROR(core_->Close(timeout));
  return core_->DroppedStatus();
}
StoreHealth InferenceStore::health() const { return core_->health(); }
const std::string& InferenceStore::path() const noexcept { return core_->path(); }

Result<std::vector<InferenceSummary>> InferenceStore::Summarize(const Query& query) const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty()) return telemetry::SummarizeServer(server, query);
  std::vector<InferenceSummary> groups;
  RETURN_IF_ERROR(core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(groups, telemetry::Summarize(database, query));
    return Ok();
  }));
  return groups;
}

Status InferenceStore::Each(const Query& query,
                            const std::function<bool(const InferenceRecord&)>& on_record) const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty())
    return telemetry::EachServerRow(
        server, query, [&](const telemetry::RecordRow& row) { return on_record(telemetry::ToRecord(row)); });
  return core_->Read(
      [&](const sqlite::Database& database) { return telemetry::EachRecord(database, query, on_record); });
}

Result<uint64_t> InferenceStore::Count() const {
  ASSIGN_OR_RETURN(const std::string server, core_->ServerToRead());
  if (!server.empty()) return telemetry::CountServerRecords(server);
  uint64_t count = 0;
  RETURN_IF_ERROR(core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(const int64_t number, database.Number("SELECT count(*) FROM telemetry"));
    count = static_cast<uint64_t>(number);
    return Ok();
  }));
  return count;
}

Result<uint64_t> InferenceStore::Clear() { return core_->Clear(); }
Status InferenceStore::Vacuum() { return core_->Vacuum(); }

Status InferenceStore::Check() const {
  return core_->Read([&](const sqlite::Database& database) -> Status {
    ASSIGN_OR_RETURN(sqlite::Statement check, database.Prepare("PRAGMA integrity_check(10)"));
    std::string wrong;
    RETURN_IF_ERROR(check.Each([&] {
      if (check.Text(0) != "ok") wrong += (wrong.empty() ? "" : "; ") + std::string(check.Text(0));
    }));
    return wrong.empty() ? Ok() : Status{Code::kDataLoss, core_->path() + ": " + wrong};
  });
}

}  // namespace gpulens

namespace gpulens::inference {
namespace {

constexpr size_t kMostAtOnce = 4096;    // rows of one transaction
constexpr size_t kMostSetAside = 1000;  // queued invalid records
constexpr int kMostYields = 100'000;
constexpr int kMostWaitMs = 60'000;

double UnixSeconds() noexcept {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

// Held by the recorder and its thread, so that a thread that hangs in a write can be left behind.
struct CallRecorder::Shared {
  Shared(CallRecorderOptions the_options, std::unique_ptr<telemetry::RecordDestination> the_destination)
      : options(std::move(the_options)),
        flush_mask(std::bit_ceil(std::max<size_t>(options.flush_records, 1)) - 1),
        ring(options.queue_records),
        destination(std::move(the_destination)) {}

  void Loop();
  // Writes all records that are queued now. On an error the rest remains queued.
  Status WriteAll();
  Status WriteSome(size_t count);
  Status WriteSetAside();
  // Counts records that were set aside and logs the first.
  void Reject(uint64_t count);
  Status DoTasks();
  void Wake() const noexcept;
  // Waits until `put` returns true, with the lock held. False: closed, or nothing was written for block_time.
  template <class F>
  bool WaitForRoom(std::unique_lock<std::mutex>& lock, F&& put);
  // Lets producers put records into the room that the thread has made. With the lock held.
  void MadeRoom() {
    ++progress;
    stuck = false;
    room.notify_all();
  }
  uint64_t lost() const noexcept { return dropped.load(std::memory_order_relaxed); }

  const CallRecorderOptions options;
  const uint64_t flush_mask;
  UniqueFd wake;
  RecordRing ring;
  std::atomic<bool> closed = false;
  std::atomic<uint64_t> dropped = 0, stored = 0, rejected = 0;

  // Used by the thread alone:
  std::unique_ptr<telemetry::RecordDestination> destination;
  std::vector<telemetry::RecordRow> rows;

  struct Task {
    std::function<Status(telemetry::RecordDestination&)> run;
    std::shared_ptr<std::optional<Status>> answer;
  };
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable answered;
  std::deque<Task> tasks;
  std::deque<std::pair<std::string, std::string>> set_aside;
  std::condition_variable room;
  uint64_t progress = 0;  // grows with each write
  bool stuck = false;     // a producer has waited in vain, and nothing was written since
  uint64_t flushes_requested = 0, flushes_done = 0;
  bool ending = false, ended = false;
  Status last_error, flush_status;
};

template <class F>
bool CallRecorder::Shared::WaitForRoom(std::unique_lock<std::mutex>& lock, F&& put) {
  uint64_t seen = progress;
  TimePoint until = std::chrono::steady_clock::now() + options.block_time;
  for (;;) {
    if (closed.load(std::memory_order_relaxed) || stuck) return false;
    if (put()) return true;
    // Each time: producers that filled the queue again may never come back.
    Wake();
    const bool late = room.wait_until(lock, until) == std::cv_status::timeout;
    if (progress != seen) {
      seen = progress;
      until = std::chrono::steady_clock::now() + options.block_time;
    } else if (late) {
      stuck = true;
    }
  }
}

void CallRecorder::Shared::Wake() const noexcept {
  const uint64_t one = 1;
  static_cast<void>(!::write(wake.get(), &one, sizeof one));
}

Status CallRecorder::Shared::WriteSome(size_t count) {
  rows.clear();
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(ring.At(i));
    if (RecordSettler* settler = ring.settler(i)) settler->Settle(rows.back());
  }
  auto kept = destination->Write(rows, lost());
  if (!kept) return kept.error();
  stored.fetch_add(kept->stored, std::memory_order_relaxed);
  ring.Release(count);
  if (kept->rejected > 0) Reject(kept->rejected);
  return Ok();
}

void CallRecorder::Shared::Reject(uint64_t count) {
  if (rejected.fetch_add(count, std::memory_order_relaxed) > 0) return;
  Log(LogLevel::kWarn, "telemetry", "telemetry_rejected",
      options.name +
          ": a record cannot be stored and was set aside; the table telemetry_poison has the reason. "
          "Further ones are counted.",
      options.name);
}

Status CallRecorder::Shared::WriteSetAside() {
  for (;;) {
    std::pair<std::string, std::string> next;
    {
      std::lock_guard lock(mutex);
      if (set_aside.empty()) return Ok();
      next = set_aside.front();
    }
    RETURN_IF_ERROR(destination->SetAside(next.first, next.second));
    Reject(1);
    std::lock_guard lock(mutex);
    set_aside.pop_front();
    MadeRoom();
  }
}

Status CallRecorder::Shared::WriteAll() {
  const uint32_t until = ring.pushed();
  for (int waited = 0; RecordRing::Until(ring.released(), until) > 0;) {
    const size_t count = ring.Ready(kMostAtOnce);
    if (count > 0) {
      RETURN_IF_ERROR(WriteSome(count));
      waited = 0;
      std::lock_guard lock(mutex);
      MadeRoom();
    } else {  // a producer is writing, which takes some nanoseconds unless it was interrupted
      if (++waited > kMostYields) return {Code::kTimeout, "a thread has not finished recording"};
      std::this_thread::yield();
    }
  }
  return WriteSetAside();
}

Status CallRecorder::Shared::DoTasks() {
  for (;;) {
    Task task;
    {
      std::lock_guard lock(mutex);
      if (tasks.empty()) return Ok();
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    Status status = task.run(*destination);
    std::lock_guard lock(mutex);
    *task.answer = std::move(status);
    answered.notify_all();
  }
}

void CallRecorder::Shared::Loop() {
  ::pthread_setname_np(::pthread_self(), "inference");
  const auto interval_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.flush_interval).count();
  const int wait_ms = static_cast<int>(std::clamp<int64_t>(interval_ms, 1, kMostWaitMs));
  rows.reserve(std::min(kMostAtOnce, ring.capacity()));
  bool untidy = false;
  for (bool last = false; !last;) {
    pollfd waiting{wake.get(), POLLIN, 0};
    if (::poll(&waiting, 1, untidy ? 0 : wait_ms) > 0) {
      uint64_t count = 0;
      static_cast<void>(!::read(wake.get(), &count, sizeof count));
    }
    uint64_t queried = 0;
    {
      std::lock_guard lock(mutex);
      queried = flushes_requested, last = ending;
    }
    Status status = WriteAll();
    if (!status) {
      Log(LogLevel::kWarn, "telemetry", "telemetry_not_written",
          options.name + ": records are not written yet: " + status.detail + ". It is retried.");
    }
    static_cast<void>(DoTasks());
    if (last) {
      // Records that could not be written by now are dropped and counted.
      dropped.fetch_add(ring.waiting(), std::memory_order_relaxed);
      if (lost() > 0) {
        Log(LogLevel::kWarn, "telemetry", "telemetry_lost",
            options.name + ": " + std::to_string(lost()) + " records were dropped, " +
                std::to_string(stored.load(std::memory_order_relaxed)) + " are stored.",
            options.name);
      }
      const Status left = destination->Close(lost());
      if (status) status = left;
      destination.reset();
    }
    {
      std::lock_guard lock(mutex);
      last_error = flush_status = status;
      flushes_done = queried;
      ended = last;
      answered.notify_all();
    }
    untidy = !last && status && ring.waiting() == 0 && destination->Tidy().value_or(false);
  }
}

Result<std::unique_ptr<CallRecorder>> CallRecorder::Start(
    CallRecorderOptions options, std::unique_ptr<telemetry::RecordDestination> destination) {
  auto shared = std::make_shared<Shared>(std::move(options), std::move(destination));
  shared->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->wake) return ErrnoStatus("eventfd", errno);
  Status started;
  {
    const SignalsBlocked quiet;
    started = StartDetachedThread([shared] { shared->Loop(); });
  }
  if (!started) return started;
  return std::unique_ptr<CallRecorder>(new CallRecorder(std::move(shared)));
}

CallRecorder::CallRecorder(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}

CallRecorder::~CallRecorder() {
  shared_->closed.store(true, std::memory_order_relaxed);
  std::lock_guard lock(shared_->mutex);
  shared_->ending = true;
  shared_->room.notify_all();
  shared_->Wake();
}

bool CallRecorder::Record(const telemetry::RecordRow& row, std::unique_ptr<RecordSettler>* settler,
                          IfFull if_full) noexcept {
  if (!std::isnan(row.numbers.timestamp)) return Take(if_full, row, settler);
  telemetry::RecordRow dated = row;
  dated.numbers.timestamp = UnixSeconds();
  return Take(if_full, dated, settler);
}

bool CallRecorder::Record(const InferenceRecord& record, IfFull if_full) noexcept {
  if (record.time.time_since_epoch().count() != 0) [[likely]]
    return Take(if_full, record);
  InferenceRecord dated = record;
  dated.time = std::chrono::system_clock::now();
  return Take(if_full, dated);
}

template <class... Given>
bool CallRecorder::Take(IfFull if_full, const Given&... given) noexcept {
  Shared& shared = *shared_;
  const bool open = !shared.closed.load(std::memory_order_relaxed);
  uint64_t place = open ? shared.ring.Push(given...) : 0;
  if (place == 0) [[unlikely]] {
    if (if_full == IfFull::kReturn) return false;
    if (!open || !shared.options.block) return Drop();
    try {
      std::unique_lock lock(shared.mutex);
      if (!shared.WaitForRoom(lock, [&] { return (place = shared.ring.Push(given...)) != 0; })) return Drop();
    } catch (...) {  // std::system_error
      return Drop();
    }
  }
  if ((place & shared.flush_mask) == 0) shared.Wake();
  return true;
}

// Counts a dropped record and logs the first.
bool CallRecorder::Drop() noexcept {
  Shared& shared = *shared_;
  if (shared.dropped.fetch_add(1, std::memory_order_relaxed) > 0) return false;
  try {
    const bool closed = shared.closed.load(std::memory_order_relaxed);
    Log(LogLevel::kWarn, "telemetry", "telemetry_dropped",
        shared.options.name +
            (closed ? ": a record came after the store was closed"
                    : ": the queue of " + std::to_string(shared.ring.capacity()) + " records is full") +
            "; records are dropped and counted" +
            (closed || shared.options.block ? "."
                                            : ". A store with when_full \"block\" waits for room instead."),
        shared.options.name);
  } catch (...) {  // no memory for the message
    return false;
  }
  return false;
}

bool CallRecorder::SetAside(std::string_view record, std::string_view reason) noexcept {
  Shared& shared = *shared_;
  try {
    std::unique_lock lock(shared.mutex);
    const auto put = [&] {
      if (shared.set_aside.size() >= kMostSetAside) return false;
      shared.set_aside.emplace_back(record, reason);
      return true;
    };
    const bool open = !shared.closed.load(std::memory_order_relaxed);
    if (open && (put() || (shared.options.block && shared.WaitForRoom(lock, put)))) return true;
  } catch (...) {  // no memory
    return Drop();
  }
  return Drop();
}

Status CallRecorder::blocked() const {
  if (shared_->closed.load(std::memory_order_relaxed)) return Ok();
  std::lock_guard lock(shared_->mutex);
  const Status& error = shared_->last_error;
  return {error.ok() ? Code::kTimeout : error.code,
          shared_->options.name + ": the queue is full, and nothing was written for " +
              std::to_string(
                  std::chrono::duration_cast<std::chrono::seconds>(shared_->options.block_time).count()) +
              " s" + (error.ok() ? "" : " (" + error.detail + ")") + "; " + std::to_string(shared_->lost()) +
              " records were dropped, " + std::to_string(shared_->ring.waiting()) + " are queued"};
}

Status CallRecorder::Flush(Duration timeout) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->ended) return shared_->flush_status;
  const uint64_t mine = ++shared_->flushes_requested;
  shared_->Wake();
  const bool done = shared_->answered.wait_for(
      lock, timeout, [&] { return shared_->flushes_done >= mine || shared_->ended; });
  if (!done) return {Code::kTimeout, shared_->options.name + " does not answer"};
  return shared_->flush_status;
}

Status CallRecorder::Do(std::function<Status(telemetry::RecordDestination&)> task, Duration timeout) {
  auto answer = std::make_shared<std::optional<Status>>();
  std::unique_lock lock(shared_->mutex);
  if (shared_->ending) return {Code::kInvalidArgument, "the store is closed"};
  shared_->tasks.push_back({std::move(task), answer});
  shared_->Wake();
  const bool done = shared_->answered.wait_for(lock, timeout, [&] { return answer->has_value(); });
  return done ? **answer : Status{Code::kTimeout, shared_->options.name + " does not answer"};
}

Status CallRecorder::Close(Duration timeout) {
  shared_->closed.store(true, std::memory_order_relaxed);
  std::unique_lock lock(shared_->mutex);
  shared_->ending = true;
  shared_->room.notify_all();
  shared_->Wake();
  if (!shared_->answered.wait_for(lock, timeout, [&] { return shared_->ended; })) {
    const std::string detail = shared_->options.name + " does not answer; " +
                               std::to_string(shared_->ring.waiting()) + " records are not written";
    Log(LogLevel::kWarn, "telemetry", "telemetry_not_closed", detail + ".", shared_->options.name);
    return {Code::kTimeout, detail};
  }
  return shared_->last_error;
}

StoreHealth CallRecorder::health() const {
  std::lock_guard lock(shared_->mutex);
  return {.stored = shared_->stored.load(std::memory_order_relaxed),
          .queued = shared_->ended ? 0 : shared_->ring.waiting(),
          .dropped = shared_->lost(),
          .rejected = shared_->rejected.load(std::memory_order_relaxed),
          .crashed = 0,
          .last_error = shared_->last_error};
}

}  // namespace gpulens::inference
