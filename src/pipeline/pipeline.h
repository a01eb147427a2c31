// Schedules collectors, closes ticks, runs analyzers and hands snapshots to sinks.
//
// Threads: one of its own that only sleeps and decides; collecting and closing happen on the
// workers, waiting on the I/O loop. All public functions are thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "base/workers.h"
#include "pipeline/delivery/delivery.h"
#include "pipeline/enricher_set.h"
#include "pipeline/instance.h"
#include "pipeline/scheduler.h"
#include "pipeline/self_metrics.h"
#include "pipeline/sink_runner.h"
#include "plugins/latest_snapshot.h"
#include "quality/gpu_overlap.h"

namespace gpulens {

// What shall run. Made from the configuration; comparing two tells what a reload changes.
struct PipelinePlan {
  struct AnalyzerSetup {
    const AnalyzerSpec* spec = nullptr;
    Config config;
  };
  struct ReceiverSetup {
    const ReceiverSpec* spec = nullptr;
    Config config;
    friend bool operator==(const ReceiverSetup&, const ReceiverSetup&) = default;
  };
  Duration interval = std::chrono::seconds(1);
  AttributeSet resource;
  AttributeSet stated;  // the part of it that the configuration states: it holds for others' data, too
  uint64_t memory_limit = 0;
  std::vector<Instance::Setup> instances;
  std::vector<EnricherSet::Setup> enrichers;
  std::vector<AnalyzerSetup> analyzers;
  std::vector<SinkRunner::Setup> sinks;
  std::vector<ReceiverSetup> receivers;
};

class Pipeline {
 public:
  struct InstanceView {
    std::string name;
    const CollectorSpec* spec;
    Duration period;
    InstanceStats stats;
    bool answered;  // has run, or said why it cannot
  };

  // All arguments outlive the pipeline; the I/O loop is stopped before the pipeline is destroyed.
  Pipeline(Env& env, Workers& workers, LatestSnapshot& hub, SeriesBudget& budget);
  ~Pipeline();

  // Makes what `plan` wants and keeps what is equal: its frames, queues and counters. A changed
  // instance runs beside the old one until it has a frame. Nothing changes when a sink or an
  // analyzer cannot be made.
  Status Apply(PipelinePlan plan);
  // See status().
  void Start();
  // kExhausted when there was no room for the scheduler's thread: then nothing is collected.
  Status status() const { return started_status_; }
  // Ends in this order: nothing received, no new runs, workers stopped, sinks flushed and delivered until
  // `deadline`. False when the thread of a sink, now or in an Apply before, had to be left behind: it may use
  // the environment and the I/O loop, so the caller ends the process without destroying them.
  bool Stop(Instant deadline);

  // Ticks closed so far.
  uint64_t ticks() const;
  // True when no tick was closed for three intervals: /health says 503.
  bool Stuck(Instant now) const;
  std::vector<InstanceView> instances() const;
  // Calls back, from a worker, after each closed tick. Set before Start.
  void OnTick(std::function<void(const Ref<const Snapshot>&)> listener) { listener_ = std::move(listener); }

 private:
  // One collector under way. Jobs and callbacks carry a plain pointer to it (a small capture does
  // not allocate), so it stays until its last run has finished.
  struct Running {
    Pipeline* pipeline = nullptr;
    std::shared_ptr<Instance> instance;
    Scheduler::TaskId task = 0;
    uint64_t started_in_tick = 0;
    Status fetched;                         // between Fetch and Collect
    std::shared_ptr<Instance> predecessor;  // shown until this one has a frame
  };
  struct RunningAnalyzer;
  // A receiver is made anew when what it tells of others' data has changed.
  struct RunningReceiver {
    PipelinePlan::ReceiverSetup setup;
    AttributeSet stated;
    uint64_t memory_limit;
    std::unique_ptr<Receiver> receiver;
  };

  // One sink of the plan. Network sinks that differ only in where they send share what encodes.
  struct RunningSink {
    std::string name;
    const SinkSpec* spec = nullptr;
    Config config, encoder_config;       // the second, of a network sink, without what says where it sends
    std::shared_ptr<SinkRunner> runner;  // null: it sends received data alone
    std::shared_ptr<RequestLog> log;     // of a network sink
  };

  // What becomes of the roll-ups of a runner that ends.
  struct RollupMove {
    std::shared_ptr<SinkRunner> from;
    std::shared_ptr<SinkRunner> to;  // goes on with them; null: their open intervals end
    bool removed = false;            // a sink that has them is not in the plan
    bool stays = false;              // one is
  };

  void Loop();
  static void ForEachRunner(const std::vector<RunningSink>& sinks, const auto& action);
  void StartTask(Scheduler::TaskId task);
  void RunInstance(Running* running);
  void FetchInstance(Running* running);
  void CollectInstance(Running* running);
  void Finished(Scheduler::TaskId task);
  void CloseTick();
  Ref<Snapshot> TakeSnapshot();
  void UpdateResource();
  void Gather(Snapshot& snapshot);
  void DropRepeats(Snapshot& snapshot);
  void Analyze(Snapshot& snapshot);
  void UpdateSelf(Snapshot& snapshot);
  void HandOutEvents(const Snapshot& snapshot);
  SeriesTable::Options TableOptions(SeriesTable::Options own);
  bool AllAnswered() const;
  Running* Find(Scheduler::TaskId task);
  void ApplyInstances(std::vector<Instance::Setup>& setups);
  Status MakeAnalyzers(const PipelinePlan& plan, std::vector<std::shared_ptr<RunningAnalyzer>>& out);
  Status MakeSinks(const PipelinePlan& plan, std::vector<RunningSink>& out, Delivery::Plan& delivery);
  Result<RunningSink> MakeNetworkSink(const SinkRunner::Setup& setup, const PipelinePlan& plan,
                                      const std::vector<RunningSink>& made);
  Status MakeReceivers(const PipelinePlan& plan, std::vector<std::shared_ptr<RunningReceiver>>& out);
  std::vector<RollupMove> PlanRollups(const std::vector<RunningSink>& next);
  void MoveRollups(const std::vector<RollupMove>& moves, const std::vector<RunningSink>& before);
  void StopReceivers(Instant deadline);
  void StopSinks(const std::vector<RunningSink>& sinks, Instant deadline);

  Env& env_;
  Workers& workers_;
  LatestSnapshot& hub_;
  SeriesBudget& budget_;
  MemoryWatch memory_;
  EnricherSet enrichers_;
  std::function<void(const Ref<const Snapshot>&)> listener_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  Scheduler scheduler_;
  Scheduler::Decision decision_;
  Scheduler::TaskId tick_task_ = 0;
  PipelinePlan plan_;
  std::vector<std::unique_ptr<Running>> running_;
  std::vector<std::unique_ptr<Running>> leaving_;  // removed, their last run not finished
  std::vector<std::shared_ptr<RunningAnalyzer>> analyzers_;
  std::shared_ptr<const std::vector<RunningSink>> sinks_ = std::make_shared<const std::vector<RunningSink>>();
  std::vector<std::shared_ptr<RunningReceiver>> receivers_;
  uint64_t tick_ = 0, closed_ = 0, late_ = 0;
  Duration tick_duration_{};
  bool tick_open_ = false, closing_ = false, stopping_ = false, started_ = false;
  int64_t tick_opened_ns_ = 0, close_by_ns_ = 0, closed_at_ns_ = 0;

  // Used only while a tick closes; `closing_` keeps that to one worker.
  std::vector<Ref<Snapshot>> snapshots_;
  std::vector<std::shared_ptr<Instance>> gathered_;
  std::vector<std::shared_ptr<RunningAnalyzer>> analyzing_;
  std::vector<AnalyzerView> analyzer_views_;
  std::shared_ptr<const std::vector<RunningSink>> offered_;
  std::vector<SelfMetrics::SinkView> sink_views_;
  std::vector<std::shared_ptr<RunningReceiver>> receiving_;
  ReceiverStats received_;
  GpuOverlap overlap_;
  std::vector<EnricherSet::View> enricher_views_;
  uint64_t described_ = 0;                // the enrichers' generation that `resource_` shows
  AttributeSet resource_, own_resource_;  // with what enrichers know of the machine; the plan's
  SelfMetrics self_;

  Delivery delivery_;
  std::atomic<bool> left_behind_{false};  // a sink's thread

  Status started_status_;
  std::thread thread_;
};

}  // namespace gpulens
