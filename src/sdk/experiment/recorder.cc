#include "sdk/experiment/recorder.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"
#include "store/experiments/run_rows.h"
#include "store/sqlite/sqlite.h"

namespace gpulens::experiments {
namespace {

// Limit of queued params, tags and artifacts.
constexpr size_t kMostTexts = 10'000;

}  // namespace

// Not in the anonymous namespace, since RunRecorder::Shared has them as members.
struct QueuedPoint {
  uint32_t key = 0;
  int64_t step = 0, unix_ns = 0;
  double value = 0;
};

// Bounded queue with many producers and one consumer.
class PointQueue {
 public:
  // The capacity is rounded up to a power of two.
  explicit PointQueue(size_t capacity) : slots_(std::bit_ceil(capacity < 2 ? 2 : capacity)) {
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
  }

  size_t capacity() const noexcept { return slots_.size(); }
  // Approximate with concurrent producers.
  size_t size() const noexcept {
    const uint64_t pushed = pushed_.load(std::memory_order_relaxed),
                   popped = popped_.load(std::memory_order_relaxed);
    return pushed > popped ? static_cast<size_t>(pushed - popped) : 0;
  }

  // Returns false when full.
  bool Push(const QueuedPoint& point) noexcept {
    uint64_t at = pushed_.load(std::memory_order_relaxed);
    for (;;) {
      Slot& slot = slots_[at & (slots_.size() - 1)];
      // The slot is free when its turn is `at`. The acquire load pairs with the consumer's release in Pop.
      const uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == at) {
        if (!pushed_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        slot.point = point;
        slot.turn.store(at + 1, std::memory_order_release);
        return true;
      }
      if (turn < at) return false;
      at = pushed_.load(std::memory_order_relaxed);
    }
  }
  // Returns false when the next point is not complete yet.
  bool Pop(QueuedPoint& point) noexcept {
    const uint64_t at = popped_.load(std::memory_order_relaxed);
    Slot& slot = slots_[at & (slots_.size() - 1)];
    if (slot.turn.load(std::memory_order_acquire) != at + 1) return false;
    point = slot.point;
    slot.turn.store(at + slots_.size(), std::memory_order_release);
    popped_.store(at + 1, std::memory_order_relaxed);
    return true;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> turn = 0;
    QueuedPoint point;
  };
  std::vector<Slot> slots_;
  alignas(64) std::atomic<uint64_t> pushed_ = 0;
  alignas(64) std::atomic<uint64_t> popped_ = 0;
};

// Numbers keys. Keys are never removed.
class KeyTable {
 public:
  static constexpr size_t kMostKeys = 4096;
  static constexpr uint32_t kNone = UINT32_MAX;

  // Returns the key's number; kNone if it is invalid or there are too many. Locks and allocates only for a
  // new key, which `fits` validates.
  uint32_t Find(std::string_view key, bool (*fits)(std::string_view) noexcept) noexcept {
    const size_t hash = std::hash<std::string_view>()(key);
    for (size_t i = hash;; ++i) {
      const Entry* entry = places_[i % places_.size()].load(std::memory_order_acquire);
      if (!entry) return fits(key) ? Add(key, hash) : kNone;
      if (entry->hash == hash && entry->name == key) return entry->number;
    }
  }
  // `number` is from Find.
  const std::string& Name(uint32_t number) const noexcept {
    return by_number_[number].load(std::memory_order_acquire)->name;
  }

 private:
  struct Entry {
    std::string name;
    size_t hash;
    uint32_t number;
  };

  uint32_t Add(std::string_view key, size_t hash) noexcept try {
    std::lock_guard lock(mutex_);
    for (size_t i = hash;; ++i) {
      std::atomic<const Entry*>& place = places_[i % places_.size()];
      if (const Entry* entry = place.load(std::memory_order_relaxed)) {
        if (entry->hash == hash && entry->name == key) return entry->number;
        continue;
      }
      if (entries_.size() == kMostKeys) return kNone;
      const auto number = static_cast<uint32_t>(entries_.size());
      entries_.push_back(std::make_unique<Entry>(Entry{std::string(key), hash, number}));
      by_number_[number].store(entries_.back().get(), std::memory_order_release);
      place.store(entries_.back().get(), std::memory_order_release);
      return number;
    }
  } catch (...) {  // no memory
    return kNone;
  }

  std::array<std::atomic<const Entry*>, 2 * kMostKeys> places_{};
  std::array<std::atomic<const Entry*>, kMostKeys> by_number_{};
  std::mutex mutex_;  // held to add a key
  std::vector<std::unique_ptr<Entry>> entries_;
};

int64_t UnixNow() noexcept {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

ExperimentEnergy QueryEnergy(const ExperimentEnergyMeter& meter, bool ended) {
  ExperimentEnergy failed{.method = {}, .validity = "source_failed", .reason = {}};
  try {
    return meter(ended);
  } catch (const std::exception& error) {
    failed.reason = error.what();
  } catch (...) {
    failed.reason = "an exception";
  }
  return failed;
}

EnergyRow ToRow(const ExperimentEnergy& energy) {
  return {.joules = energy.energy_joules,
          .uncertainty_joules = energy.uncertainty_joules,
          .attribution = energy.attribution,
          .device_joules = energy.device_energy_joules,
          .method = energy.method,
          .validity = energy.validity,
          .reason = energy.reason,
          .vendor = energy.vendor,
          .devices = energy.devices,
          .mean_power_watts = energy.mean_power_watts,
          .peak_power_watts = energy.peak_power_watts,
          .mean_utilization_ratio = energy.mean_utilization_ratio,
          .peak_utilization_ratio = energy.peak_utilization_ratio,
          .mean_memory_used_bytes = energy.mean_memory_used_bytes,
          .peak_memory_used_bytes = energy.peak_memory_used_bytes};
}

// Held by the recorder and its thread, so that a thread that hangs in a write can be left behind.
struct RunRecorder::Shared final : sqlite::Forkable {
  explicit Shared(RunRecorderOptions the_options)
      : options(std::move(the_options)), queue(options.queue_points) {}

  void Loop();
  void CloseForFork() noexcept override;
  // Reopens the file after a fork closed it. Called within a sqlite::ForkGuard, like every use of `writer`.
  Status Open();
  Status LeaveRun(const RunEnd& how);
  void Close();
  // Moves the contents of the queue and the lists into `batch`.
  void Take();
  Status WriteBatch();
  void Wake() noexcept;
  template <class F>
  void AddText(F&& add) noexcept;

  const RunRecorderOptions options;
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
  RunBatch batch;  // records not written yet; keys have the numbers of the key table
  uint64_t reported_drops = 0;
  bool drops_logged = false;
  int64_t next_heartbeat_ns = 0;
  bool gone = false;     // the run was deleted
  bool leaving = false;  // the energy is written with the end

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable answered;
  std::vector<ParamRow> params;
  std::vector<TagRow> tags;
  std::vector<ArtifactRow> artifacts;
  uint64_t flushes_requested = 0, flushes_done = 0;
  std::optional<RunEnd> end;
  bool ended = false;
  Status last_error, flush_status;
};

void RunRecorder::Shared::Wake() noexcept {
  const uint64_t one = 1;
  static_cast<void>(!::write(wake.get(), &one, sizeof one));
}

template <class F>
void RunRecorder::Shared::AddText(F&& add) noexcept {
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

void RunRecorder::Shared::CloseForFork() noexcept {
  if (!writer) return;
  process_id = writer->process_id(), points = writer->points();
  writer.reset();
}

Status RunRecorder::Shared::Open() {
  if (writer) return Ok();
  ASSIGN_OR_RETURN(writer, RunWriter::Open(options.database));
  writer->Attach(run_id, process_id, points);
  return Ok();
}

Status RunRecorder::Shared::LeaveRun(const RunEnd& how) {
  sqlite::ForkGuard use;
  RETURN_IF_ERROR(Open());
  return writer->Leave(how);
}

void RunRecorder::Shared::Close() {
  sqlite::ForkGuard use;
  writer.reset();
  sqlite::RemoveForkable(this);
}

void RunRecorder::Shared::Take() {
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
  // A batch that cannot be written is bounded; further points wait in the queue.
  QueuedPoint point;
  while (batch.points.size() < queue.capacity() && queue.Pop(point)) {
    while (batch.keys.size() <= point.key)
      batch.keys.push_back(keys.Name(static_cast<uint32_t>(batch.keys.size())));
    batch.points.push_back({point.key, point.step, point.unix_ns, point.value});
  }
}

Status RunRecorder::Shared::WriteBatch() {
  const uint64_t drops = dropped.load(std::memory_order_relaxed);
  if (drops > 0 && !std::exchange(drops_logged, true)) {
    Log(LogLevel::kWarn, "experiment", "experiment_dropped",
        "run " + run_id + ": values are dropped and counted: the queue of " +
            std::to_string(queue.capacity()) + " points is full, or a key or a text is not allowed.",
        run_id);
  }
  batch.heartbeat_ns = UnixNow();
  batch.dropped = static_cast<int64_t>(drops - reported_drops);
  const bool beat = batch.heartbeat_ns >= next_heartbeat_ns;
  if (batch.empty() && !beat) return Ok();
  batch.energy = beat && !leaving && options.energy ? ToRow(QueryEnergy(options.energy, false)) : EnergyRow{};
  Status status{Code::kUnavailable, "the run was deleted"};
  if (!gone) {
    sqlite::ForkGuard use;
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

void RunRecorder::Shared::Loop() {
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
    std::optional<RunEnd> ending;
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

Result<std::unique_ptr<RunRecorder>> RunRecorder::Begin(RunRecorderOptions options) {
  const ProcessObserver here = HereAndNow();
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
    sqlite::ForkGuard use;
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
  return std::unique_ptr<RunRecorder>(new RunRecorder(std::move(shared)));
}

RunRecorder::RunRecorder(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}

RunRecorder::~RunRecorder() { shared_->closed.store(true, std::memory_order_relaxed); }

void RunRecorder::Point(std::string_view key, double value, int64_t step) noexcept {
  Shared& shared = *shared_;
  const uint32_t number =
      shared.closed.load(std::memory_order_relaxed) ? KeyTable::kNone : shared.keys.Find(key, &IsKey);
  if (number == KeyTable::kNone || !shared.queue.Push({number, step, UnixNow(), value})) {
    Drop();
    return;
  }
  // A half-full queue wakes the writer, which otherwise polls at each flush interval.
  if (shared.queue.size() == shared.queue.capacity() / 2) shared.Wake();
}

void RunRecorder::Param(std::string_view key, RunParamValue value) noexcept {
  const auto* text = std::get_if<std::string>(&value);
  const bool fits = IsKey(key) && (!text || text->size() <= kMostTextBytes);
  if (!fits) return Drop();
  shared_->AddText([&] { shared_->params.push_back({std::string(key), std::move(value)}); });
}

void RunRecorder::Tag(std::string_view key, std::string_view value) noexcept {
  if (!IsKey(key) || value.size() > kMostTextBytes) return Drop();
  shared_->AddText([&] { shared_->tags.push_back({std::string(key), std::string(value)}); });
}

void RunRecorder::Drop() noexcept { shared_->dropped.fetch_add(1, std::memory_order_relaxed); }

Status RunRecorder::Artifacts(std::vector<ArtifactRow> artifacts, Duration timeout) {
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->ended || shared_->end) return {Code::kInvalidArgument, "the run has ended"};
    for (ArtifactRow& artifact : artifacts) shared_->artifacts.push_back(std::move(artifact));
  }
  return Flush(timeout);
}

Status RunRecorder::Flush(Duration timeout) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->ended) return shared_->flush_status;
  const uint64_t mine = ++shared_->flushes_requested;
  shared_->Wake();
  bool done = shared_->answered.wait_for(lock, timeout,
                                         [&] { return shared_->flushes_done >= mine || shared_->ended; });
  if (!done) return {Code::kTimeout, shared_->options.database + " does not answer"};
  return shared_->flush_status;
}

Status RunRecorder::Leave(const RunEnd& end, Duration timeout) {
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

ExperimentHealth RunRecorder::health() const {
  std::lock_guard lock(shared_->mutex);
  return {.written = shared_->written.load(std::memory_order_relaxed),
          .queued = shared_->queue.size(),
          .dropped = shared_->dropped.load(std::memory_order_relaxed),
          .last_error = shared_->last_error};
}

const std::string& RunRecorder::run_id() const noexcept { return shared_->run_id; }
const std::string& RunRecorder::run_name() const noexcept { return shared_->run_name; }
bool RunRecorder::joined() const noexcept { return shared_->joined; }

}  // namespace gpulens::experiments
