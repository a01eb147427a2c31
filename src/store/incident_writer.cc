#include "store/incident_writer.h"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/ring.h"
#include "base/threads.h"

namespace gpulens {
namespace {

constexpr int64_t kRetryNs = 60'000'000'000;
constexpr Duration kFlushTime = std::chrono::seconds(1);

}  // namespace

// Held by the writer and by its thread, so that a thread stuck in a write can be left behind.
struct IncidentWriter::Shared {
  Shared(IncidentStore::Options the_options, const Clock& the_clock)
      : options(std::move(the_options)), clock(the_clock), waiting(kMaxWaiting) {}

  void Loop();
  void Write(const Incident& incident);

  const IncidentStore::Options options;
  const Clock& clock;
  std::unique_ptr<IncidentStore> store;  // of the thread alone
  int64_t retry_at_ns = 0;

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake, ended;
  Ring<Incident> waiting;
  Stats stats;
  std::thread thread;
  bool stopping = false, done = false;
};

void IncidentWriter::Shared::Write(const Incident& incident) {
  Status status;
  if (!store && clock.Now().boot_ns >= retry_at_ns) {
    auto opened = IncidentStore::Open(options);
    if (opened) {
      store = *std::move(opened);
    } else {
      retry_at_ns = clock.Now().boot_ns + kRetryNs;
      status = opened.error();
      Log(LogLevel::kWarn, "store", "store_unavailable",
          "incidents are not stored: " + status.detail + ". Set state_dir to a writable folder.");
    }
  } else if (!store) {
    status = {Code::kUnavailable, "not open"};
  }
  if (store) {
    status = store->Add(incident);
    if (!status) {
      Log(LogLevel::kWarn, "store", "store_failed", "an incident was not stored: " + status.detail);
      // A file that was deleted or a disk that was replaced is opened anew with the next one.
      store.reset();
    }
  }
  uint64_t bytes = store ? store->bytes() : 0;
  std::lock_guard lock(mutex);
  ++(status ? stats.ok : stats.errors);
  if (bytes != 0) stats.bytes = bytes;
}

void IncidentWriter::Shared::Loop() {
  ::pthread_setname_np(::pthread_self(), "incidents");
  while (true) {
    std::optional<Incident> next;
    {
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return stopping || !waiting.empty(); });
      next = waiting.Pop();
      if (!next) break;
    }
    Write(*next);
  }
  store.reset();
  std::lock_guard lock(mutex);
  done = true;
  ended.notify_all();
}

IncidentWriter::IncidentWriter(IncidentStore::Options options, const Clock& clock)
    : shared_(std::make_shared<Shared>(std::move(options), clock)) {}

IncidentWriter::~IncidentWriter() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->wake.notify_all();
  if (!shared_->thread.joinable()) return;
  bool done = shared_->ended.wait_for(lock, kFlushTime, [&] { return shared_->done; });
  std::thread thread = std::move(shared_->thread);
  lock.unlock();
  if (done) thread.join();
  else thread.detach();
}

void IncidentWriter::Add(Incident incident) {
  std::lock_guard lock(shared_->mutex);
  if (!shared_->waiting.Push(std::move(incident))) {
    ++shared_->stats.dropped;
    return;
  }
  if (!shared_->thread.joinable()) {
    Status started = StartThread(shared_->thread, [shared = shared_] { shared->Loop(); });
    // What waits is written when there is room for the thread again.
    if (!started)
      Log(LogLevel::kWarn, "store", "no_thread", "incidents are not stored yet: " + started.detail);
  }
  shared_->wake.notify_one();
}

IncidentWriter::Stats IncidentWriter::stats() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->stats;
}

}  // namespace gpulens
