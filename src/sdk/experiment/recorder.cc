#include "sdk/experiment/recorder.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "sdk/experiment/point_queue.h"
#include "sdk/experiment/run_energy.h"
#include "store/experiments/run_files.h"
#include "store/sqlite/sqlite.h"

namespace gpulens::experiments {
namespace {

// Params, tags and artifacts that wait.
constexpr size_t kMostTexts = 10'000;

}  // namespace

int64_t UnixNow() noexcept {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Held by the recorder and its thread, so that a thread that hangs in a write can be left behind.
struct Recorder::Shared final : sqlite::Forkable {
  explicit Shared(RecorderOptions the_options)
      : options(std::move(the_options)), queue(options.queue_points) {}

  void Loop();
  void CloseForFork() noexcept override;
  // Opens the file again after a fork has closed it. Within a Use, as all that has to do with `writer`.
  Status Open();
  Status LeaveRun(const End& how);
  void Close();
  // Moves the contents of the queue and the lists into `batch`.
  void Take();
  Status WriteBatch();
  void Wake() noexcept;
  template <class F>
  void AddText(F&& add) noexcept;

  const RecorderOptions options;
  std::string run_id, run_name;
  bool joined = false;
  UniqueFd wake;

  PointQueue queue;
  KeyTable keys;
  std::atomic<uint64_t> dropped = 0, written = 0;
  std::atomic<bool> closed = false;

  std::unique_ptr<RunWriter> writer;  // null: closed for a fork
  int64_t process_id = 0, points = 0;

  // Used by the thread alone:
  Batch batch;  // what is not written yet; its keys are those of the table, by the number there
  uint64_t reported_drops = 0;
  int64_t next_heartbeat_ns = 0;
  bool gone = false;     // the run was deleted
  bool leaving = false;  // the energy is written with the end

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable answered;
  std::vector<ParamRow> params;
  std::vector<TagRow> tags;
  std::vector<ArtifactRow> artifacts;
  uint64_t flushes_requested = 0, flushes_done = 0;
  std::optional<End> end;
  bool ended = false;
  Status last_error, flush_status;
};

void Recorder::Shared::Wake() noexcept {
  const uint64_t one = 1;
  static_cast<void>(!::write(wake.get(), &one, sizeof one));
}

template <class F>
void Recorder::Shared::AddText(F&& add) noexcept {
  bool added = false;
  try {
    std::lock_guard lock(mutex);
    const bool room = params.size() + tags.size() + artifacts.size() < kMostTexts;
    if (room && !closed.load(std::memory_order_relaxed)) {
      add();
      added = true;
    }
  } catch (...) {
    added = false;  // no memory
  }
  if (!added) dropped.fetch_add(1, std::memory_order_relaxed);
}

void Recorder::Shared::CloseForFork() noexcept {
  if (!writer) return;
  process_id = writer->process_id(), points = writer->points();
  writer.reset();
}

Status Recorder::Shared::Open() {
  if (writer) return Ok();
  ASSIGN_OR_RETURN(writer, RunWriter::Open(options.database));
  writer->Attach(run_id, process_id, points);
  return Ok();
}

Status Recorder::Shared::LeaveRun(const End& how) {
  sqlite::Use use;
  RETURN_IF_ERROR(Open());
  return writer->Leave(how);
}

void Recorder::Shared::Close() {
  sqlite::Use use;
  writer.reset();
  sqlite::RemoveForkable(this);
}

void Recorder::Shared::Take() {
  {
    std::lock_guard lock(mutex);
    auto move_all = [](auto& from, auto& to) {
      to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
      from.clear();
    };
    move_all(params, batch.params);
    move_all(tags, batch.tags);
    move_all(artifacts, batch.artifacts);
  }
  // A batch that cannot be written does not grow without end; what comes then waits in the queue.
  QueuedPoint point;
  while (batch.points.size() < queue.capacity() && queue.Pop(point)) {
    while (batch.keys.size() <= point.key)
      batch.keys.push_back(keys.Name(static_cast<uint32_t>(batch.keys.size())));
    batch.points.push_back({point.key, point.step, point.unix_ns, point.value});
  }
}

Status Recorder::Shared::WriteBatch() {
  const uint64_t drops = dropped.load(std::memory_order_relaxed);
  batch.heartbeat_ns = UnixNow();
  batch.dropped = static_cast<int64_t>(drops - reported_drops);
  const bool beat = batch.heartbeat_ns >= next_heartbeat_ns;
  if (batch.empty() && !beat) return Ok();
  batch.energy = beat && !leaving && options.energy ? ToRow(QueryEnergy(options.energy, false)) : EnergyRow{};
  Status status{Code::kUnavailable, "the run was deleted"};
  if (!gone) {
    sqlite::Use use;
    status = Open();
    if (status) status = writer->Write(batch, options.source);
  }
  if (status) {
    reported_drops = drops;
    written.fetch_add(batch.points.size(), std::memory_order_relaxed);
    next_heartbeat_ns = batch.heartbeat_ns + options.heartbeat_interval.count();
  } else if (status.code == Code::kUnavailable) {
    gone = true;
    closed.store(true, std::memory_order_relaxed);
    dropped.fetch_add(batch.points.size() + batch.params.size() + batch.tags.size(),
                      std::memory_order_relaxed);
  } else {
    Log(LogLevel::kWarn, "experiment", "experiment_not_written",
        "logged data is not written yet: " + status.detail + ". It is retried.");
    return status;
  }
  batch.params.clear(), batch.tags.clear(), batch.artifacts.clear(), batch.points.clear();
  return status;
}

void Recorder::Shared::Loop() {
  ::pthread_setname_np(::pthread_self(), "experiment");
  const auto interval_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.flush_interval).count();
  const int wait_ms = static_cast<int>(std::clamp<int64_t>(interval_ms, 1, 60'000));
  while (true) {
    pollfd waiting{wake.get(), POLLIN, 0};
    if (::poll(&waiting, 1, wait_ms) > 0) {
      uint64_t count = 0;
      static_cast<void>(!::read(wake.get(), &count, sizeof count));
    }
    std::optional<End> ending;
    uint64_t queried = 0;
    {
      std::lock_guard lock(mutex);
      ending = end;
      queried = flushes_requested;
    }
    Status status;
    leaving = ending.has_value();
    do {
      Take();
      status = WriteBatch();
    } while (status && queue.size() != 0);
    Status left = ending && status ? LeaveRun(*ending) : status;
    if (ending) Close();
    std::lock_guard lock(mutex);
    last_error = ending ? left : status;
    flushes_done = queried;
    flush_status = last_error;
    ended = ending.has_value();
    answered.notify_all();
    if (ended) break;
  }
}

Result<std::unique_ptr<Recorder>> Recorder::Begin(RecorderOptions options) {
  const Observer here = HereAndNow();
  std::string role = options.start.process.role;
  options.start.process = ThisProcess(here);
  options.start.process.role = std::move(role);
  options.start.process.heartbeat_every_ns = options.heartbeat_interval.count();
  options.start.run.host = here.host;
  if (options.start.run.started_ns == 0) options.start.run.started_ns = here.now_ns;
  auto shared = std::make_shared<Shared>(std::move(options));
  shared->next_heartbeat_ns = here.now_ns + shared->options.heartbeat_interval.count();
  shared->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->wake) return ErrnoStatus("eventfd", errno);
  {
    sqlite::Use use;
    if (sqlite::UnsafeSinceFork())
      return Status{Code::kUnavailable, "this process was forked while another thread was inside SQLite"};
    ASSIGN_OR_RETURN(std::unique_ptr<RunWriter> writer, RunWriter::Open(shared->options.database));
    RETURN_IF_ERROR(writer->Begin(shared->options.start, here));
    shared->run_id = writer->run_id(), shared->run_name = writer->run_name(),
    shared->joined = writer->joined();
    shared->writer = std::move(writer);
    sqlite::AddForkable(shared.get());
  }
  Status started;
  {
    SignalsBlocked quiet;
    started = StartDetachedThread([shared] { shared->Loop(); });
  }
  if (!started) {
    shared->Close();
    return Status{Code::kExhausted, "experiments cannot be written: " + started.detail};
  }
  return std::unique_ptr<Recorder>(new Recorder(std::move(shared)));
}

Recorder::Recorder(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}

Recorder::~Recorder() { shared_->closed.store(true, std::memory_order_relaxed); }

void Recorder::Point(std::string_view key, double value, int64_t step) noexcept {
  Shared& shared = *shared_;
  const uint32_t number =
      shared.closed.load(std::memory_order_relaxed) ? KeyTable::kNone : shared.keys.Find(key, &IsKey);
  if (number == KeyTable::kNone || !shared.queue.Push({number, step, UnixNow(), value})) {
    Drop();
    return;
  }
  // At half of it the writer is called; it looks by itself each flush interval.
  if (shared.queue.size() == shared.queue.capacity() / 2) shared.Wake();
}

void Recorder::Param(std::string_view key, Value value) noexcept {
  const auto* text = std::get_if<std::string>(&value);
  const bool fits = IsKey(key) && (!text || text->size() <= kMostTextBytes);
  if (!fits) return Drop();
  shared_->AddText([&] { shared_->params.push_back({std::string(key), std::move(value)}); });
}

void Recorder::Tag(std::string_view key, std::string_view value) noexcept {
  if (!IsKey(key) || value.size() > kMostTextBytes) return Drop();
  shared_->AddText([&] { shared_->tags.push_back({std::string(key), std::string(value)}); });
}

void Recorder::Drop() noexcept { shared_->dropped.fetch_add(1, std::memory_order_relaxed); }

Status Recorder::Artifacts(std::vector<ArtifactRow> artifacts, Duration timeout) {
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->ended || shared_->end) return {Code::kInvalidArgument, "the run has ended"};
    for (ArtifactRow& artifact : artifacts) shared_->artifacts.push_back(std::move(artifact));
  }
  return Flush(timeout);
}

Status Recorder::Flush(Duration timeout) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->ended) return shared_->flush_status;
  const uint64_t mine = ++shared_->flushes_requested;
  shared_->Wake();
  bool done = shared_->answered.wait_for(lock, timeout,
                                         [&] { return shared_->flushes_done >= mine || shared_->ended; });
  if (!done) return {Code::kTimeout, shared_->options.database + " does not answer"};
  return shared_->flush_status;
}

Status Recorder::Leave(const End& end, Duration timeout) {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->end) {
    shared_->end = end;
    shared_->closed.store(true, std::memory_order_relaxed);
    shared_->Wake();
  }
  if (!shared_->answered.wait_for(lock, timeout, [&] { return shared_->ended; }))
    return {Code::kTimeout, shared_->options.database + " does not answer"};
  return shared_->last_error;
}

ExperimentHealth Recorder::health() const {
  std::lock_guard lock(shared_->mutex);
  return {.written = shared_->written.load(std::memory_order_relaxed),
          .queued = shared_->queue.size(),
          .dropped = shared_->dropped.load(std::memory_order_relaxed),
          .last_error = shared_->last_error};
}

const std::string& Recorder::run_id() const noexcept { return shared_->run_id; }
const std::string& Recorder::run_name() const noexcept { return shared_->run_name; }
bool Recorder::joined() const noexcept { return shared_->joined; }

}  // namespace gpulens::experiments
