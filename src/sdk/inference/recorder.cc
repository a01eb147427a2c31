#include "sdk/inference/recorder.h"

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

namespace gpulens::inference {
namespace {

constexpr size_t kMostAtOnce = 4096;    // rows of one transaction
constexpr size_t kMostSetAside = 1000;  // that wait
constexpr int kMostYields = 100'000;
constexpr int kMostWaitMs = 60'000;

double UnixSeconds() noexcept {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

// Held by the recorder and its thread, so that a thread that hangs in a write can be left behind.
struct Recorder::Shared {
  Shared(RecorderOptions the_options, std::unique_ptr<telemetry::Destination> the_destination)
      : options(std::move(the_options)),
        flush_mask(std::bit_ceil(std::max<size_t>(options.flush_records, 1)) - 1),
        ring(options.queue_records),
        destination(std::move(the_destination)) {}

  void Loop();
  // Writes all that is there now; the first failure ends it, and what is left waits.
  Status WriteAll();
  Status WriteSome(size_t count);
  Status WriteSetAside();
  Status DoTasks();
  void Wake() const noexcept;
  uint64_t lost() const noexcept { return dropped.load(std::memory_order_relaxed); }

  const RecorderOptions options;
  const uint64_t flush_mask;
  UniqueFd wake;
  RecordRing ring;
  std::atomic<bool> closed = false;
  std::atomic<uint64_t> dropped = 0, stored = 0, rejected = 0;

  // Used by the thread alone:
  std::unique_ptr<telemetry::Destination> destination;
  std::vector<telemetry::Row> rows;

  struct Task {
    std::function<Status(telemetry::Destination&)> run;
    std::shared_ptr<std::optional<Status>> answer;
  };
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable answered;
  std::deque<Task> tasks;
  std::deque<std::pair<std::string, std::string>> set_aside;
  uint64_t flushes_requested = 0, flushes_done = 0;
  bool ending = false, ended = false;
  Status last_error, flush_status;
};

void Recorder::Shared::Wake() const noexcept {
  const uint64_t one = 1;
  static_cast<void>(!::write(wake.get(), &one, sizeof one));
}

Status Recorder::Shared::WriteSome(size_t count) {
  rows.clear();
  for (size_t i = 0; i < count; ++i) {
    rows.push_back(ring.At(i));
    if (Settler* settler = ring.settler(i)) settler->Settle(rows.back());
  }
  auto kept = destination->Write(rows, lost());
  if (!kept) return kept.error();
  stored.fetch_add(kept->stored, std::memory_order_relaxed);
  rejected.fetch_add(kept->rejected, std::memory_order_relaxed);
  ring.Release(count);
  return Ok();
}

Status Recorder::Shared::WriteSetAside() {
  for (;;) {
    std::pair<std::string, std::string> next;
    {
      std::lock_guard lock(mutex);
      if (set_aside.empty()) return Ok();
      next = set_aside.front();
    }
    RETURN_IF_ERROR(destination->SetAside(next.first, next.second));
    rejected.fetch_add(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex);
    set_aside.pop_front();
  }
}

Status Recorder::Shared::WriteAll() {
  const uint32_t until = ring.pushed();
  for (int waited = 0; RecordRing::Until(ring.released(), until) > 0;) {
    const size_t count = ring.Ready(kMostAtOnce);
    if (count > 0) {
      RETURN_IF_ERROR(WriteSome(count));
      waited = 0;
    } else {  // a producer is writing, which takes some nanoseconds unless it was interrupted
      if (++waited > kMostYields) return {Code::kTimeout, "a thread has not finished recording"};
      std::this_thread::yield();
    }
  }
  return WriteSetAside();
}

Status Recorder::Shared::DoTasks() {
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

void Recorder::Shared::Loop() {
  ::pthread_setname_np(::pthread_self(), "inference");
  const auto interval_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(options.flush_interval).count();
  const int wait_ms = static_cast<int>(std::clamp<int64_t>(interval_ms, 1, kMostWaitMs));
  rows.reserve(std::min(kMostAtOnce, ring.capacity()));
  for (bool last = false; !last;) {
    pollfd waiting{wake.get(), POLLIN, 0};
    if (::poll(&waiting, 1, wait_ms) > 0) {
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
      const Status left = destination->Close(lost());
      if (status) status = left;
      destination.reset();
    }
    std::lock_guard lock(mutex);
    last_error = flush_status = status;
    flushes_done = queried;
    ended = last;
    answered.notify_all();
  }
}

Result<std::unique_ptr<Recorder>> Recorder::Start(RecorderOptions options,
                                                  std::unique_ptr<telemetry::Destination> destination) {
  auto shared = std::make_shared<Shared>(std::move(options), std::move(destination));
  shared->wake.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!shared->wake) return ErrnoStatus("eventfd", errno);
  Status started;
  {
    const SignalsBlocked quiet;
    started = StartDetachedThread([shared] { shared->Loop(); });
  }
  if (!started) return started;
  return std::unique_ptr<Recorder>(new Recorder(std::move(shared)));
}

Recorder::Recorder(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}

Recorder::~Recorder() {
  shared_->closed.store(true, std::memory_order_relaxed);
  std::lock_guard lock(shared_->mutex);
  shared_->ending = true;
  shared_->Wake();
}

void Recorder::Record(const telemetry::Row& row, std::unique_ptr<Settler>* settler) noexcept {
  if (std::isnan(row.numbers.timestamp)) {
    telemetry::Row dated = row;
    dated.numbers.timestamp = UnixSeconds();
    Take(dated, settler);
  } else {
    Take(row, settler);
  }
}

void Recorder::Record(const InferenceRecord& record) noexcept {
  if (record.time.time_since_epoch().count() == 0) [[unlikely]] {
    InferenceRecord dated = record;
    dated.time = std::chrono::system_clock::now();
    Take(dated);
  } else {
    Take(record);
  }
}

template <class... Given>
void Recorder::Take(const Given&... given) noexcept {
  Shared& shared = *shared_;
  const uint64_t place = shared.closed.load(std::memory_order_relaxed) ? 0 : shared.ring.Push(given...);
  if (place == 0) shared.dropped.fetch_add(1, std::memory_order_relaxed);
  else if ((place & shared.flush_mask) == 0) shared.Wake();
}

void Recorder::SetAside(std::string_view record, std::string_view reason) noexcept {
  Shared& shared = *shared_;
  try {
    std::lock_guard lock(shared.mutex);
    if (!shared.closed.load(std::memory_order_relaxed) && shared.set_aside.size() < kMostSetAside) {
      shared.set_aside.emplace_back(record, reason);
      return;
    }
  } catch (...) {  // no memory: it is dropped as below
    shared.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  shared.dropped.fetch_add(1, std::memory_order_relaxed);
}

Status Recorder::Flush(Duration timeout) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->ended) return shared_->flush_status;
  const uint64_t mine = ++shared_->flushes_requested;
  shared_->Wake();
  const bool done = shared_->answered.wait_for(
      lock, timeout, [&] { return shared_->flushes_done >= mine || shared_->ended; });
  if (!done) return {Code::kTimeout, shared_->options.name + " does not answer"};
  return shared_->flush_status;
}

Status Recorder::Do(std::function<Status(telemetry::Destination&)> task, Duration timeout) {
  auto answer = std::make_shared<std::optional<Status>>();
  std::unique_lock lock(shared_->mutex);
  if (shared_->ending) return {Code::kInvalidArgument, "the store is closed"};
  shared_->tasks.push_back({std::move(task), answer});
  shared_->Wake();
  const bool done = shared_->answered.wait_for(lock, timeout, [&] { return answer->has_value(); });
  return done ? **answer : Status{Code::kTimeout, shared_->options.name + " does not answer"};
}

Status Recorder::Close(Duration timeout) {
  shared_->closed.store(true, std::memory_order_relaxed);
  std::unique_lock lock(shared_->mutex);
  shared_->ending = true;
  shared_->Wake();
  if (!shared_->answered.wait_for(lock, timeout, [&] { return shared_->ended; }))
    return {Code::kTimeout, shared_->options.name + " does not answer"};
  return shared_->last_error;
}

StoreHealth Recorder::health() const {
  std::lock_guard lock(shared_->mutex);
  return {.stored = shared_->stored.load(std::memory_order_relaxed),
          .queued = shared_->ended ? 0 : shared_->ring.waiting(),
          .dropped = shared_->lost(),
          .rejected = shared_->rejected.load(std::memory_order_relaxed),
          .crashed = 0,
          .last_error = shared_->last_error};
}

}  // namespace gpulens::inference
