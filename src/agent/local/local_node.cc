#include "agent/local/local_node.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "agent/api/api.h"
#include "agent/api/event_ring.h"
#include "agent/api/experiments.h"
#include "agent/api/explain.h"
#include "agent/api/history_pages.h"
#include "agent/api/why.h"
#include "agent/demo/demo.h"
#include "agent/plugin_tables.h"
#include "agent/run/plan.h"
#include "agent/targets/found_targets.h"
#include "base/result.h"
#include "history/history.h"
#include "net/client/http_client.h"
#include "pipeline/pipeline.h"
#include "plugins/event_queue.h"
#include "plugins/gpu_pod_table.h"
#include "plugins/reader_control.h"

namespace gpulens {

class LocalNode::Impl {
 public:
  Impl(const Schema& schema, const Config& config, bool demo)
      : schema_(schema),
        config_(config),
        budget_(static_cast<uint64_t>(config.Group("limits").Int("series"))),
        history_({config.Group("history").Time("window"),
                  static_cast<size_t>(config.Group("history").Size("memory"))}) {
    env_.io = &io_;
    env_.http = &client_;
    env_.workers = &workers_;
    env_.latest = &hub_;
    env_.events = &events_;
    env_.gpu_pods = &gpu_pods_;
    job_pages_.Configure(JobPagesOptions(config));
    env_.job_pages = &job_pages_;
    env_.demo = demo;
    history_.Begin();
    const NodeReadings readings{&history_, [this] { return hub_.latest(); }, env_.clock, demo,
                                [this] { return config_.Time("interval"); }};
    AddNowPage(api_, readings);
    AddHistoryPage(api_, readings);
    event_ring_.Begin({.store = {}, .start_ns = env_.clock->Now().unix_ns});
    AddEventsPage(api_, event_ring_, *env_.clock);
    AddWhyPage(api_, readings);
    AddExplainPage(api_);
    AddExperimentsPage(api_, config_.Group("experiments").Text("db"));
  }
  // The discoveries first: they call Apply.
  ~Impl() {
    if (discoveries_) discoveries_->Stop();
    {
      std::lock_guard lock(plan_mutex_);
      ending_ = true;
    }
    if (pipeline_) pipeline_->Stop(env_.clock->Now() + std::chrono::seconds(1));
    if (demo_) demo_->Stop();
    io_.Stop();
    workers_.Stop();
  }

  Status Start(Duration wait) {
    io_.Start();
    RETURN_IF_ERROR(io_.status());
    RETURN_IF_ERROR(workers_.status());
    if (env_.demo) RETURN_IF_ERROR(StartDemo());
    pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, budget_);
    discoveries_ = std::make_unique<DiscoveryRunner>(env_, AllDiscoveries(), [this] { TakeFound(); });
    RETURN_IF_ERROR(pipeline_->Apply(Plan()));
    pipeline_->OnTick([this](const Ref<const Snapshot>& snapshot) {
      history_.Observe(*snapshot);
      std::lock_guard lock(mutex_);
      ++ticks_;
      wake_.notify_all();
    });
    pipeline_->OnEvents([this](const Ref<const Events>& events) { event_ring_.Add(*events); });
    pipeline_->Start();
    RETURN_IF_ERROR(pipeline_->status());
    // The engines of a machine that shows its GPUs are worth a later look, not a failure.
    RETURN_IF_ERROR(discoveries_->Apply(config_));
    AwaitReadings(wait);
    return Ok();
  }

  Api& api() noexcept { return api_; }

 private:
  Status StartDemo() {
    ASSIGN_OR_RETURN(const std::string scenario, demo::FindScenario({}));
    if (scenario.empty()) return Ok();
    ASSIGN_OR_RETURN(demo_, demo::Demo::Start(scenario, env_));
    env_.simulated = &demo_->node();
    nvml_control_.SetProfileFile(demo_->profile_fd());
    env_.nvml = &nvml_control_;
    return Ok();
  }

  PipelinePlan Plan() const {
    std::vector<FoundTarget> found;
    if (demo_) found = demo_->targets();
    for (FoundTarget& target : discoveries_->found()) found.push_back(std::move(target));
    PipelinePlan plan = MakePlan(WithFound(config_, schema_, found), {env_.demo, HostName()});
    if (demo_) demo::Demo::ReplaceEnrichers(plan.enrichers);
    plan.sinks.clear();
    plan.receivers.clear();
    return plan;
  }

  void TakeFound() {
    std::lock_guard lock(plan_mutex_);
    if (!ending_) static_cast<void>(pipeline_->Apply(Plan()));
  }

  // Two ticks after the last collector has answered, analyzers have seen its values.
  void AwaitReadings(Duration wait) {
    const Instant end = env_.clock->Now() + wait;
    std::unique_lock lock(mutex_);
    for (uint64_t answered_at = 0; env_.clock->Now() - end < Duration{};) {
      const auto instances = pipeline_->instances();
      if (answered_at == 0 && std::ranges::all_of(instances, &Pipeline::InstanceView::answered))
        answered_at = ticks_ + 1;
      if (answered_at != 0 && ticks_ > answered_at) return;
      wake_.wait_for(lock, std::chrono::milliseconds(50));
    }
  }

  const Schema& schema_;
  const Config config_;
  IoLoop io_;
  Workers workers_{2, 8192};
  HttpClient client_{io_};
  LatestSnapshot hub_;
  EventQueue events_;
  GpuPodTable gpu_pods_;
  ReaderControl nvml_control_;
  JobPages job_pages_;
  SeriesBudget budget_;
  Env env_;
  History history_;
  EventRing event_ring_;
  Api api_;
  std::unique_ptr<demo::Demo> demo_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<DiscoveryRunner> discoveries_;
  std::mutex plan_mutex_;  // one Apply at a time
  bool ending_ = false;    // under plan_mutex_

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  uint64_t ticks_ = 0;
};

Result<std::unique_ptr<LocalNode>> LocalNode::Start(const Schema& schema, const Config& config, bool demo,
                                                    Duration wait) {
  auto impl = std::make_unique<Impl>(schema, config, demo);
  RETURN_IF_ERROR(impl->Start(wait));
  return std::unique_ptr<LocalNode>(new LocalNode(std::move(impl)));
}

LocalNode::LocalNode(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalNode::~LocalNode() = default;

Result<std::string> LocalNode::Get(std::string_view target) const { return impl_->api().Get(target); }

}  // namespace gpulens
