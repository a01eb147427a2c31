#include "pipeline/pipeline.h"

#include <pthread.h>

#include <algorithm>

#include "base/log.h"
#include "net/io_loop.h"
#include "plugins/agent_stats.h"
#include "plugins/event_queue.h"

namespace gpulens {
namespace {

// A tick waits this long for the collectors that it started; slower ones join the next tick.
constexpr Duration kLongestGrace = std::chrono::milliseconds(250);
constexpr int kStuckIntervals = 3;
// The first frames wait this long for enrichers: otherwise the first series of a pod would lack its name.
constexpr Duration kFirstLooks = std::chrono::milliseconds(250);

void AddFrame(Snapshot& snapshot, Ref<const Frame> frame, Precedence precedence, bool overdue,
              Duration period) {
  std::string_view source = frame->source;
  snapshot.frames.push_back({std::move(frame), source, precedence, overdue, period});
}

// Memory of this process and of the reader processes in `stats`, which may be null. Shared pages count once.
uint64_t MemoryOfAllProcesses(const AgentStats* stats) {
  uint64_t bytes = ResidentBytes(0, true);
  if (!stats) return bytes;
  for (const int32_t pid : {stats->nvml_driver_pid.load(), stats->amdsmi_driver_pid.load()}) {
    if (pid > 0) bytes += ResidentBytes(pid, false);
  }
  return bytes;
}

Duration Grace(Duration interval) { return std::min(interval / 2, kLongestGrace); }

}  // namespace

// Sinks that share a runner are adjacent.
void Pipeline::ForEachRunner(const std::vector<RunningSink>& sinks, const auto& action) {
  const SinkRunner* last = nullptr;
  for (const RunningSink& sink : sinks) {
    if (sink.runner && sink.runner.get() != last) action(*sink.runner);
    last = sink.runner.get();
  }
}

Pipeline::Pipeline(Env& env, Workers& workers, LatestSnapshot& hub, SeriesBudget& budget)
    : env_(env),
      workers_(workers),
      hub_(hub),
      budget_(budget),
      memory_(*env.clock, [this] { return MemoryOfAllProcesses(env_.stats); }),
      enrichers_(env),
      self_(budget),
      delivery_(env) {}

Pipeline::~Pipeline() { Stop(env_.clock->Now()); }

void Pipeline::Start() {
  enrichers_.AwaitFirst(kFirstLooks);
  {
    std::lock_guard lock(mutex_);
    Instant now = env_.clock->Now();
    tick_task_ = scheduler_.Add(plan_.interval, plan_.interval, now);
    for (const auto& running : running_) scheduler_.DueAt(running->task, now);
    closed_at_ns_ = now.boot_ns;
    started_ = true;
  }
  started_status_ = StartThread(thread_, [this] {
    ::pthread_setname_np(::pthread_self(), "scheduler");
    Loop();
  });
}

bool Pipeline::Stop(Instant deadline) {
  StopReceivers(deadline);
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  enrichers_.Stop();
  if (thread_.joinable()) thread_.join();
  workers_.Stop();
  auto sinks = std::make_shared<const std::vector<RunningSink>>();
  {
    std::lock_guard lock(mutex_);
    sinks.swap(sinks_);
  }
  const Ref<const Snapshot> last = hub_.latest();
  // In parallel: a sink whose receiver is away takes all the time, and the data of others must reach their
  // queues.
  ForEachRunner(*sinks, [&](SinkRunner& runner) {
    runner.OfferLast(last);
    runner.BeginStop(deadline);
  });
  StopSinks(*sinks, deadline);
  for (const auto& [name, end] : delivery_.Finish(deadline)) {
    if (!end) Log(LogLevel::kWarn, name, "flush", end.detail, name);
  }
  return !left_behind_;
}

Pipeline::Running* Pipeline::Find(Scheduler::TaskId task) {
  for (const auto& running : running_) {
    if (running->task == task) return running.get();
  }
  return nullptr;
}

void Pipeline::Loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    Instant now = env_.clock->Now();
    bool late = now.boot_ns - scheduler_.due_ns(tick_task_) > plan_.interval.count() / 2;
    scheduler_.Run(now, decision_);
    for (Scheduler::TaskId task : decision_.timed_out) {
      if (Running* running = Find(task)) running->instance->TimedOut();
    }
    for (Scheduler::TaskId task : decision_.start) {
      if (task != tick_task_) continue;
      scheduler_.Finished(task);
      ++tick_;
      late_ += late;
      tick_open_ = true;
      tick_opened_ns_ = now.boot_ns;
      close_by_ns_ = now.boot_ns + Grace(plan_.interval).count();
    }
    for (Scheduler::TaskId task : decision_.start) StartTask(task);
    bool waiting = std::ranges::any_of(
        running_, [&](const auto& r) { return r->started_in_tick == tick_ && scheduler_.running(r->task); });
    int64_t wake_at = decision_.wake_at_ns;
    if (tick_open_ && (!waiting || now.boot_ns >= close_by_ns_)) {
      tick_open_ = false;
      if (closing_) ++late_;
      else closing_ = workers_.Post([this] { CloseTick(); });
    } else if (tick_open_) {
      wake_at = std::min(wake_at, close_by_ns_);
    }
    wake_.wait_for(lock, Duration(std::max<int64_t>(0, wake_at - now.boot_ns)));
  }
}

void Pipeline::StartTask(Scheduler::TaskId task) {
  Running* running = task == tick_task_ ? nullptr : Find(task);
  if (!running) return;
  running->started_in_tick = tick_;
  if (!workers_.Post([running] { running->pipeline->RunInstance(running); })) scheduler_.Finished(task);
}

void Pipeline::RunInstance(Running* running) {
  Instance& instance = *running->instance;
  if (!instance.Ready()) return Finished(running->task);
  if (instance.fetches() && env_.io)
    return env_.io->Post([running] { running->pipeline->FetchInstance(running); });
  running->fetched = Ok();
  CollectInstance(running);
}

void Pipeline::FetchInstance(Running* running) {
  Instant deadline = env_.clock->Now() + running->instance->setup().deadline;
  running->instance->Fetch(deadline, [running](Status fetched) {
    Pipeline* pipeline = running->pipeline;
    running->fetched = std::move(fetched);
    if (!pipeline->workers_.Post([running] { running->pipeline->CollectInstance(running); })) {
      pipeline->Finished(running->task);
    }
  });
}

void Pipeline::CollectInstance(Running* running) {
  running->instance->Collect(running->fetched);
  // A source that only begins with its first run (a reader process) has values long before a slow collector's
  // next turn: it is run again at the next tick.
  if (!running->instance->fetches() && !running->instance->answered()) {
    std::lock_guard lock(mutex_);
    scheduler_.DueWith(running->task, tick_task_);
  }
  Finished(running->task);
}

void Pipeline::Finished(Scheduler::TaskId task) {
  {
    std::lock_guard lock(mutex_);
    scheduler_.Finished(task);
    if (!tick_open_) return;
  }
  wake_.notify_all();
}

void Pipeline::UpdateResource() {
  const uint64_t generation = enrichers_.generation();
  if (generation == described_ && plan_.resource == own_resource_) return;
  described_ = generation;
  own_resource_ = plan_.resource;
  resource_ = own_resource_.OverlaidOn(enrichers_.Resource());
}

void Pipeline::Gather(Snapshot& snapshot) {
  gathered_.clear();
  {
    std::lock_guard lock(mutex_);
    snapshot.tick = tick_;
    UpdateResource();
    snapshot.resource = resource_;
    for (const auto& running : running_) {
      if (running->predecessor && running->instance->latest()) running->predecessor.reset();
      gathered_.push_back(running->predecessor ? running->predecessor : running->instance);
    }
    analyzing_ = analyzers_;
    offered_ = sinks_;
    receiving_ = receivers_;
  }
  snapshot.frames.clear();
  for (const auto& instance : gathered_) {
    Ref<const Frame> frame = instance->latest();
    if (!frame) continue;
    Instance::Age age = instance->AgeOf(*frame, snapshot.closed_at);
    if (age == Instance::Age::kExpired) continue;
    Precedence precedence = instance->setup().spec->scraped ? Precedence::kPassThrough : Precedence::kNative;
    AddFrame(snapshot, std::move(frame), precedence, age == Instance::Age::kOverdue,
             instance->setup().period);
  }
}

// Removes series of pages that a driver also provides, before analyzers count them twice.
void Pipeline::DropRepeats(Snapshot& snapshot) {
  overlap_.Apply(snapshot, [this](std::string_view source, uint64_t series) {
    for (const auto& instance : gathered_) {
      if (instance->name() == source) instance->CountDuplicates(series);
    }
  });
}

void Pipeline::Analyze(Snapshot& snapshot) {
  analyzer_views_.clear();
  for (const auto& running : analyzing_) {
    Instant started = env_.clock->Now();
    if (std::exchange(running->described, described_) != described_)
      running->table.Redescribe(snapshot.closed_at.unix_ns);
    running->writer.Begin(snapshot.closed_at);
    Status status = running->analyzer->Analyze(snapshot, running->writer);
    AddFrame(snapshot, running->writer.Finish(), Precedence::kNative, false, {});
    running->stats.duration = env_.clock->Now() - started;
    if (!status) {
      ++running->stats.errors[static_cast<size_t>(status.code)];
      Log(LogLevel::kWarn, running->setup.spec->name, "analyzer", status.detail);
    }
    analyzer_views_.push_back({running->setup.spec->name, running->stats});
  }
}

// Whether every collector has run or reported why it cannot.
bool Pipeline::AllAnswered() const {
  return std::ranges::all_of(gathered_, [](const auto& instance) { return instance->answered(); });
}

void Pipeline::UpdateSelf(Snapshot& snapshot) {
  SelfMetrics::Input input;
  input.now = snapshot.closed_at;
  input.resource = snapshot.resource;
  input.instances = gathered_;
  input.analyzers = analyzer_views_;
  enrichers_.Read(enricher_views_);
  input.enrichers = enricher_views_;
  delivery_.Tidy();
  sink_views_.clear();
  for (const RunningSink& sink : *offered_) sink_views_.push_back({sink.name, sink.runner.get()});
  input.sinks = sink_views_;
  input.delivery = &delivery_;
  received_.transports.clear();
  for (const auto& running : receiving_) running->receiver->ReadStats(received_);
  input.received = &received_;
  input.ready = AllAnswered();
  input.simulated = env_.demo;
  input.memory_limit = memory_.limit();
  {
    std::lock_guard lock(mutex_);
    input.tick_duration = tick_duration_;
    input.late_ticks = late_;
  }
  AddFrame(snapshot, self_.Update(input), Precedence::kNative, false, {});
}

// Offers the events that analyzers completed in this tick to the sinks.
void Pipeline::HandOutEvents(const Snapshot& snapshot) {
  if (!env_.events) return;
  std::vector<Event> ready = env_.events->TakeReady();
  if (ready.empty()) return;
  Ref<Events> events = MakeRef<Events>();
  events->resource = snapshot.resource;
  events->list = std::move(ready);
  for (Event& event : events->list) {
    if (event.entity) event.attributes = event.attributes.OverlaidOn(enrichers_.Describe(*event.entity));
  }
  Ref<const Events> published(events);
  ForEachRunner(*offered_, [&](SinkRunner& runner) { runner.Offer(published); });
  if (event_listener_) event_listener_(published);
}

void Pipeline::CloseTick() {
  Ref<Snapshot> snapshot = snapshots_.Take();
  snapshot->closed_at = env_.clock->Now();
  Gather(*snapshot);
  DropRepeats(*snapshot);
  Analyze(*snapshot);
  UpdateSelf(*snapshot);
  Ref<const Snapshot> published(snapshot);
  hub_.Put(published);
  HandOutEvents(*snapshot);
  ForEachRunner(*offered_, [&](SinkRunner& runner) { runner.Offer(published); });
  if (listener_) listener_(published);
  std::lock_guard lock(mutex_);
  tick_duration_ = Duration(env_.clock->Now().boot_ns - tick_opened_ns_);
  closing_ = false;
  ++closed_;
  closed_at_ns_ = snapshot->closed_at.boot_ns;
}

Duration Pipeline::interval() const {
  std::lock_guard lock(mutex_);
  return plan_.interval;
}

uint64_t Pipeline::ticks() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

bool Pipeline::Stuck(Instant now) const {
  std::lock_guard lock(mutex_);
  Duration quiet(now.boot_ns - closed_at_ns_);
  return started_ && quiet > std::max<Duration>(plan_.interval * kStuckIntervals, std::chrono::seconds(3));
}

std::vector<Pipeline::InstanceView> Pipeline::instances() const {
  std::vector<std::shared_ptr<Instance>> list;
  {
    std::lock_guard lock(mutex_);
    for (const auto& running : running_) list.push_back(running->instance);
  }
  std::vector<InstanceView> views;
  for (const auto& instance : list) {
    InstanceStats stats = instance->stats();
    bool answered = stats.answered();
    views.push_back(
        {instance->name(), instance->setup().spec, instance->setup().period, std::move(stats), answered});
  }
  return views;
}

}  // namespace gpulens
