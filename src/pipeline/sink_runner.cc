#include "pipeline/sink_runner.h"

#include "base/log.h"
#include "base/result.h"
#include "base/threads.h"

namespace gpulens {

std::string_view SinkDropReasonName(SinkDropReason reason) noexcept {
  switch (reason) {
    case SinkDropReason::kOverload: return "overload";
    case SinkDropReason::kRejected: return "rejected";
    case SinkDropReason::kShutdown: return "shutdown";
  }
  return "unknown";
}

// Held by the runner and by its thread, so that a thread stuck in a Write can be left behind.
struct SinkRunner::Shared {
  explicit Shared(std::string_view sink_name, std::unique_ptr<Sink> the_sink, const Clock& the_clock)
      : name(sink_name),
        sink(std::move(the_sink)),
        clock(the_clock),
        queue(kQueueDepth),
        event_buffer(kEventQueueDepth) {}

  const std::string name;
  const std::unique_ptr<Sink> sink;
  const Clock& clock;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable wake, idle, ended;
  Ring<Ref<const Snapshot>> queue;
  Ring<Ref<const Events>> event_buffer;
  SinkStats stats;
  bool stopping = false, done = false;
  bool writing = false;
  bool ends = false;  // the agent does, and the sink is not only replaced
  Instant flush_by;
};

// Roll-ups of a runner, which its successor may continue.
struct SinkRunner::Rollups {
  std::mutex mutex;
  const std::unique_ptr<Rollup> rollup;
  uint64_t ended_tick = UINT64_MAX;  // with which open intervals were ended
  uint64_t beyond = 0;               // series that found no room in a group, at the last tick

  explicit Rollups(std::unique_ptr<Rollup> of) : rollup(std::move(of)) {}

  Ref<const Snapshot> Apply(const Ref<const Snapshot>& snapshot, const std::string& sink) {
    Ref<const Snapshot> made = rollup->Apply(snapshot);
    const uint64_t before = std::exchange(beyond, rollup->stats().refused[size_t(RollupRefusal::kLimit)]);
    if (before == 0 && beyond != 0)
      Log(LogLevel::kWarn, sink, "rollup_limit",
          std::to_string(beyond) + " series are sent unchanged: their groups exceed max_groups.", sink);
    return made;
  }
};

Result<std::shared_ptr<SinkRunner>> SinkRunner::Make(Setup setup, std::unique_ptr<Sink> sink,
                                                     const Clock& clock) {
  ASSIGN_OR_RETURN(std::unique_ptr<Rollup> rollup, Rollup::Make(setup.config));
  return std::make_shared<SinkRunner>(std::move(setup), std::move(sink), clock, std::move(rollup));
}

// Results of roll-ups are new readings for every sink, also for one that otherwise gets whole snapshots only.
SinkRunner::SinkRunner(Setup setup, std::unique_ptr<Sink> sink, const Clock& clock,
                       std::unique_ptr<Rollup> rollup)
    : setup_(std::move(setup)),
      shared_(std::make_shared<Shared>(setup_.name, std::move(sink), clock)),
      selector_(setup_.interval, setup_.spec->sends_new_readings || rollup),
      rollups_(rollup ? std::make_shared<Rollups>(std::move(rollup)) : nullptr) {
  if (setup_.spec->threaded) NeedThread();
}

// Without a thread, offered data waits, and is dropped and counted as by a slow sink.
void SinkRunner::NeedThread() {
  std::lock_guard one_at_a_time(thread_mutex_);
  if (thread_.joinable()) return;
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->stopping) return;
  }
  Status started = StartThread(thread_, [shared = shared_] { Run(shared); });
  std::lock_guard lock(shared_->mutex);
  if (started) return;
  if (shared_->stats.up) Log(LogLevel::kWarn, shared_->name, "sink_down", started.detail, shared_->name);
  shared_->stats.up = false;
  shared_->stats.last = std::move(started);
}

SinkRunner::~SinkRunner() { Stop(shared_->clock.Now()); }

void SinkRunner::Deliver(Shared& shared, const Snapshot& snapshot) {
  Instant started = shared.clock.Now();
  Status status = shared.sink->Write(snapshot);
  Duration took = shared.clock.Now() - started;
  std::lock_guard lock(shared.mutex);
  SinkStats& stats = shared.stats;
  if (stats.up != status.ok()) {
    if (status.ok()) Log(LogLevel::kInfo, shared.name, "sink_up", "delivers again.", shared.name);
    else Log(LogLevel::kWarn, shared.name, "sink_down", status.detail, shared.name);
  }
  stats.up = status.ok();
  stats.duration = took;
  if (status.ok()) {
    ++stats.delivered;
    stats.last_success_unix_ns = started.unix_ns;
  } else {
    ++stats.dropped[static_cast<size_t>(SinkDropReason::kRejected)];
  }
  stats.last = std::move(status);
}

void SinkRunner::Deliver(Shared& shared, const Events& events) {
  Status status = shared.sink->Write(events);
  if (status) return;
  Log(LogLevel::kWarn, shared.name, "events_lost", status.detail, shared.name);
  std::lock_guard lock(shared.mutex);
  ++shared.stats.events_dropped[static_cast<size_t>(SinkDropReason::kRejected)];
}

void SinkRunner::Offer(const Ref<const Events>& events) {
  if (!setup_.spec->threaded) return Deliver(*shared_, *events);
  NeedThread();
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->event_buffer.PushDroppingOldest(events))
      ++shared_->stats.events_dropped[static_cast<size_t>(SinkDropReason::kOverload)];
  }
  shared_->wake.notify_one();
}

void SinkRunner::Offer(const Ref<const Snapshot>& snapshot) {
  if (!rollups_) {
    if (Ref<const Snapshot> selected = selector_.Select(snapshot)) Push(std::move(selected));
    return;
  }
  std::lock_guard lock(rollups_->mutex);
  if (Ref<const Snapshot> selected = selector_.Select(rollups_->Apply(snapshot, setup_.name)))
    Push(std::move(selected));
}

void SinkRunner::OfferLast(const Ref<const Snapshot>& snapshot) {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->ends = true;
  }
  if (!rollups_) {
    if (Ref<const Snapshot> last = selector_.SelectLast(snapshot)) Push(std::move(last));
    return;
  }
  std::lock_guard lock(rollups_->mutex);
  PushEnd(snapshot);
}

// The rest of the snapshot comes first: it may have results that those of the end replace.
void SinkRunner::PushEnd(const Ref<const Snapshot>& snapshot) {
  if (!snapshot || std::exchange(rollups_->ended_tick, snapshot->tick) == snapshot->tick) return;
  if (Ref<const Snapshot> last = selector_.SelectLast(rollups_->Apply(snapshot, setup_.name)))
    Push(std::move(last));
  Push(rollups_->rollup->ApplyLast(snapshot));
}

// The mutex keeps the order of ticks: no offered snapshot is newer than that of the hub.
Ref<const Snapshot> SinkRunner::EndIntervals(const LatestSnapshot& hub) {
  if (!rollups_) return {};
  std::lock_guard lock(rollups_->mutex);
  Ref<const Snapshot> snapshot = hub.latest();
  PushEnd(snapshot);
  return snapshot;
}

bool SinkRunner::TakeRollups(const SinkRunner& former) {
  constexpr std::string_view kOption = "rollups";
  if (!rollups_ || !former.rollups_ || !setup_.config.Has(kOption) || !former.setup_.config.Has(kOption) ||
      setup_.config.Groups(kOption) != former.setup_.config.Groups(kOption))
    return false;
  rollups_ = former.rollups_;
  return true;
}

void SinkRunner::BeginIntervals(const Ref<const Snapshot>& snapshot) {
  if (!rollups_ || !snapshot) return;
  std::lock_guard lock(rollups_->mutex);
  static_cast<void>(rollups_->Apply(snapshot, setup_.name));
}

std::optional<RollupStats> SinkRunner::rollup_stats() const {
  return rollups_ ? std::optional(rollups_->rollup->stats()) : std::nullopt;
}

bool SinkRunner::WaitUntilWritten(Instant deadline) {
  if (!setup_.spec->threaded) return true;
  std::unique_lock lock(shared_->mutex);
  const Duration left = deadline - shared_->clock.Now();
  return shared_->idle.wait_for(lock, left, [this] {
    return !shared_->writing && shared_->queue.empty() && shared_->event_buffer.empty();
  });
}

void SinkRunner::Push(Ref<const Snapshot> snapshot) {
  if (!setup_.spec->threaded) return Deliver(*shared_, *snapshot);
  NeedThread();
  {
    std::lock_guard lock(shared_->mutex);
    if (shared_->queue.PushDroppingOldest(std::move(snapshot)))
      ++shared_->stats.dropped[static_cast<size_t>(SinkDropReason::kOverload)];
  }
  shared_->wake.notify_one();
}

void SinkRunner::Run(const std::shared_ptr<Shared>& shared) {
  while (true) {
    Ref<const Snapshot> snapshot;
    Ref<const Events> events;
    Instant flush_by;
    bool ends = false;
    {
      std::unique_lock lock(shared->mutex);
      shared->writing = false;
      shared->idle.notify_all();
      shared->wake.wait(
          lock, [&] { return shared->stopping || !shared->queue.empty() || !shared->event_buffer.empty(); });
      if (auto first = shared->event_buffer.Pop()) events = std::move(*first);
      else if (auto next = shared->queue.Pop()) snapshot = std::move(*next);
      shared->writing = snapshot || events;
      flush_by = shared->flush_by;
      ends = shared->ends;
    }
    if (events) {
      Deliver(*shared, *events);
      continue;
    }
    if (snapshot) {
      Deliver(*shared, *snapshot);
      continue;
    }
    Status flushed = Finish(*shared, ends, flush_by);
    if (!flushed) Log(LogLevel::kWarn, shared->name, "flush", flushed.detail, shared->name);
    break;
  }
  {
    std::lock_guard lock(shared->mutex);
    shared->done = true;
  }
  shared->ended.notify_all();
}

// Flushes even if the end of the stream failed.
Status SinkRunner::Finish(Shared& shared, bool ends, Instant deadline) {
  Status ended = ends ? shared.sink->EndStream() : Ok();
  Status flushed = shared.sink->Flush(deadline);
  return ended ? flushed : ended;
}

void SinkRunner::BeginStop(Instant deadline) {
  if (!setup_.spec->threaded) return;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    shared_->flush_by = deadline;
  }
  shared_->wake.notify_all();
}

bool SinkRunner::Stop(Instant deadline) {
  if (!setup_.spec->threaded) {
    bool first = false, ends = false;
    {
      std::lock_guard lock(shared_->mutex);
      first = !std::exchange(shared_->stopping, true);
      ends = shared_->ends;
    }
    if (first) static_cast<void>(Finish(*shared_, ends, deadline));
    return true;
  }
  // No thread is started after this, so `thread_` is final.
  BeginStop(deadline);
  {
    std::lock_guard one_at_a_time(thread_mutex_);
    if (!thread_.joinable()) return DropWaiting(), true;
  }
  bool done = false;
  {
    std::unique_lock lock(shared_->mutex);
    Duration left = deadline + kStopGrace - shared_->clock.Now();
    done = shared_->ended.wait_for(lock, left, [&] { return shared_->done; });
  }
  DropWaiting();
  if (done) thread_.join();
  else thread_.detach();
  return done;
}

void SinkRunner::DropWaiting() {
  std::lock_guard lock(shared_->mutex);
  while (shared_->queue.Pop()) ++shared_->stats.dropped[static_cast<size_t>(SinkDropReason::kShutdown)];
  while (shared_->event_buffer.Pop())
    ++shared_->stats.events_dropped[static_cast<size_t>(SinkDropReason::kShutdown)];
}

SinkStats SinkRunner::stats() const {
  std::lock_guard lock(shared_->mutex);
  SinkStats stats = shared_->stats;
  stats.queued = shared_->queue.size();
  stats.events_queued = shared_->event_buffer.size();
  return stats;
}

}  // namespace gpulens
