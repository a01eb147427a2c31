// Schedules collectors, closes ticks, runs analyzers and hands snapshots to sinks.
//
// Its own thread only schedules; collectors run and ticks are closed on the workers, and waiting happens on
// the I/O loop. All public functions are thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "base/threads.h"
#include "pipeline/delivery/delivery.h"
#include "pipeline/enricher_set.h"
#include "pipeline/instance.h"
#include "pipeline/scheduler.h"
#include "pipeline/self_metrics.h"
#include "pipeline/sink_runner.h"
#include "plugins/latest_snapshot.h"
#include "quality/gpu_overlap.h"

namespace gpulens {

// The running parts by the configuration. A reload compares two plans.
struct PipelinePlan {
  struct AnalyzerSetup {
    const AnalyzerSpec* spec = nullptr;
    Config config;
    friend bool operator==(const AnalyzerSetup&, const AnalyzerSetup&) = default;
  };
  struct ReceiverSetup {
    const ReceiverSpec* spec = nullptr;
    Config config;
    friend bool operator==(const ReceiverSetup&, const ReceiverSetup&) = default;
  };
  Duration interval = std::chrono::seconds(1);
  AttributeSet resource;
  AttributeSet stated;  // configured attributes, which received data gets, too
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
    bool answered;  // has run, or reported why it cannot
  };

  // All arguments outlive the pipeline; the I/O loop is stopped before the pipeline is destroyed.
  Pipeline(Env& env, Workers& workers, LatestSnapshot& hub, SeriesBudget& budget);
  ~Pipeline();

  // Runs `plan`. Equal parts stay, with their frames, queues and counters. A changed instance runs in
  // parallel to the old one until it has a frame. Nothing changes when a sink or an analyzer cannot be
  // created.
  Status Apply(PipelinePlan plan);
  // See status().
  void Start();
  // kExhausted when the scheduler's thread could not be started: nothing is collected.
  Status status() const { return started_status_; }
  // Stops receivers, then collectors and workers, then flushes and delivers the sinks until `deadline`. False
  // when the thread of a sink hangs and was detached, now or in an earlier Apply: it may use the environment
  // and the I/O loop, so the caller ends the process without destroying them.
  bool Stop(Instant deadline);

  // Between two ticks.
  Duration interval() const;
  // Ticks closed so far.
  uint64_t ticks() const;
  // Whether no tick was closed for three intervals: /health responds 503.
  bool Stuck(Instant now) const;
  std::vector<InstanceView> instances() const;
  // Calls back, from a worker, after each closed tick. Set before Start.
  void OnTick(std::function<void(const Ref<const Snapshot>&)> listener) { listener_ = std::move(listener); }
  // The same with the events of a tick, with what enrichers know, before that tick's call.
  void OnEvents(std::function<void(const Ref<const Events>&)> listener) {
    event_listener_ = std::move(listener);
  }

 private:
  // A running collector. Jobs and callbacks have a plain pointer to it (a small capture does not allocate),
  // so it is kept until its last run has finished.
  struct Running {
    Pipeline* pipeline = nullptr;
    std::shared_ptr<Instance> instance;
    Scheduler::TaskId task = 0;
    uint64_t started_in_tick = 0;
    Status fetched;                         // between Fetch and Collect
    std::shared_ptr<Instance> predecessor;  // shown until this one has a frame
  };
  // Used only while a tick closes.
  struct RunningAnalyzer {
    RunningAnalyzer(PipelinePlan::AnalyzerSetup analyzer_setup, std::unique_ptr<Analyzer> made,
                    SeriesTable::Options table_options, Duration ttl)
        : setup(std::move(analyzer_setup)),
          analyzer(std::move(made)),
          table(std::move(table_options)),
          writer(table, ttl, std::string(setup.spec->name)) {}
    const PipelinePlan::AnalyzerSetup setup;
    const std::unique_ptr<Analyzer> analyzer;
    SeriesTable table;
    FrameWriter writer;
    AnalyzerStats stats;
    uint64_t described = 0;  // the enrichers' generation that the table shows
  };
  // A receiver is replaced when its configuration or these values change.
  struct RunningReceiver {
    PipelinePlan::ReceiverSetup setup;
    AttributeSet stated;
    uint64_t memory_limit;
    std::unique_ptr<Receiver> receiver;
  };

  // One sink of the plan. Network sinks that differ only in their destination share a runner.
  struct RunningSink {
    std::string name;
    const SinkSpec* spec = nullptr;
    Config config, encoder_config;       // of a network sink without its destination
    std::shared_ptr<SinkRunner> runner;  // null: sends received data only
    std::shared_ptr<RequestLog> log;     // of a network sink
  };

  // How the roll-ups of a runner that ends are continued.
  struct RollupMove {
    std::shared_ptr<SinkRunner> from;
    std::shared_ptr<SinkRunner> to;  // continues them; null: open intervals end
    bool removed = false;            // a sink that has them is not in the plan
    bool stays = false;              // one is
  };

  template <class Member>
  Member CopyOf(const Member& member) const {
    std::lock_guard lock(mutex_);
    return member;
  }
  void Loop();
  static void ForEachRunner(const std::vector<RunningSink>& sinks, const auto& action);
  void StartTask(Scheduler::TaskId task);
  void RunInstance(Running* running);
  void FetchInstance(Running* running);
  void CollectInstance(Running* running);
  void Finished(Scheduler::TaskId task);
  void CloseTick();
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
  std::function<void(const Ref<const Events>&)> event_listener_;

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
  // One published, one being built, one with a slow sink, one with a slow scrape.
  RefPool<Snapshot> snapshots_{4};
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
  AttributeSet resource_, own_resource_;  // with the enrichers' attributes; the plan's
  SelfMetrics self_;

  Delivery delivery_;
  std::atomic<bool> left_behind_{false};  // a sink's thread

  Status started_status_;
  std::thread thread_;
};

}  // namespace gpulens
