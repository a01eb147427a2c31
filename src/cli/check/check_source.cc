#include "cli/check/check_source.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "agent/plugin_tables.h"
#include "agent/run/plan.h"
#include "agent/status/query_status.h"
#include "base/result.h"
#include "base/workers.h"
#include "cli/check/check_table.h"
#include "net/client/http_client.h"
#include "net/io_loop.h"

namespace gpulens {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kPageLimit = 64u << 20;

bool Reads(std::span<const MetricDesc* const> metrics) {
  std::span<const MetricDesc* const> wanted = AllCheckMetrics();
  return std::any_of(metrics.begin(), metrics.end(), [&](const MetricDesc* metric) {
    return std::find(wanted.begin(), wanted.end(), metric) != wanted.end();
  });
}

PipelinePlan PlanOfChecks(const Config& config, bool demo) {
  PipelinePlan plan = MakePlan(config, {demo, ""});
  std::erase_if(plan.instances, [](const Instance::Setup& setup) { return !Reads(setup.spec->metrics); });
  std::erase_if(plan.analyzers, [](const auto& setup) { return !Reads(setup.spec->metrics); });
  plan.sinks.clear();
  // Somebody waits.
  plan.interval = std::min<Duration>(plan.interval, milliseconds(500));
  for (Instance::Setup& setup : plan.instances)
    setup.period = std::min<Duration>(setup.period, milliseconds(500));
  return plan;
}

// One pipeline for one look.
class Look {
 public:
  Look(const Config& config, const LookOptions& options)
      : options_(options), budget_(static_cast<uint64_t>(config.Group("limits").Int("series"))) {
    env_.io = &io_;
    env_.http = &client_;
    env_.workers = &workers_;
    env_.latest = &hub_;
    env_.demo = options.demo;
    plan_ = PlanOfChecks(config, options.demo);
  }

  Result<CheckData> Run() {
    if (plan_.instances.empty()) return Status{Code::kUnavailable, "no collector of GPUs is switched on"};
    io_.Start();
    pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, budget_);
    Status status = pipeline_->Apply(std::move(plan_));
    if (status) {
      pipeline_->OnTick([this](const Ref<const Snapshot>&) {
        std::lock_guard lock(mutex_);
        ++ticks_;
        wake_.notify_all();
      });
      pipeline_->Start();
      Wait();
      if (data_.gpus.empty()) status = WhyNothing();
    }
    pipeline_->Stop(env_.clock->Now() + seconds(1));
    io_.Stop();
    if (!status) return status;
    return std::move(data_);
  }

 private:
  void Wait() {
    Instant started = env_.clock->Now();
    std::optional<Instant> first;
    for (uint64_t seen = 0;;) {
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, milliseconds(200), [&] { return ticks_ > seen; });
        seen = ticks_;
      }
      if (Ref<const Snapshot> snapshot = hub_.latest()) data_ = ReadSnapshot(*snapshot, AllCheckMetrics());
      Instant now = env_.clock->Now();
      if (!data_.gpus.empty()) {
        if (!first) first = now;
        if (options_.enough(data_) || now - *first > options_.more) return;
      }
      if (now - started > options_.timeout || NobodyTries()) return;
    }
  }

  // Every collector has said that its GPUs are not here.
  bool NobodyTries() const {
    auto instances = pipeline_->instances();
    return std::all_of(instances.begin(), instances.end(), [](const Pipeline::InstanceView& view) {
      return view.stats.runs_ok == 0 && view.stats.last.code == Code::kUnavailable;
    });
  }

  Status WhyNothing() const {
    for (const Pipeline::InstanceView& view : pipeline_->instances()) {
      if (!view.stats.last.ok()) return {view.stats.last.code, view.name + ": " + view.stats.last.detail};
    }
    return {Code::kUnavailable, "no GPU was found"};
  }

  const LookOptions& options_;
  IoLoop io_;
  HttpClient client_{io_};
  Workers workers_{2};
  LatestSnapshot hub_;
  SeriesBudget budget_;
  Env env_;
  PipelinePlan plan_;
  std::unique_ptr<Pipeline> pipeline_;
  CheckData data_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  uint64_t ticks_ = 0;
};

}  // namespace

Result<CheckData> QueryAgent(const std::string& url, Duration timeout) {
  ASSIGN_OR_RETURN(HttpUrl parsed, ParseHttpUrl(url));
  if (parsed.tls)
    return Status{Code::kInvalidArgument, "https is not supported here; use the agent's loopback address"};
  // Checks read rows of every level, whatever the sink shows.
  if (!parsed.has_path || parsed.target == "/" || parsed.target == "/metrics")
    parsed.target = "/metrics?metrics=all";
  ASSIGN_OR_RETURN(std::string body, ReadAgentPage(parsed, "text/plain;version=0.0.4", timeout, kPageLimit));
  ASSIGN_OR_RETURN(CheckData data, ReadPage(body, AllCheckMetrics()));
  data.watched = true;
  data.source = "the agent at http://" + parsed.Authority();
  return data;
}

Result<CheckData> LookHere(const Config& config, const LookOptions& options) {
  ASSIGN_OR_RETURN(CheckData data, Look(config, options).Run());
  data.source = options.demo ? "simulated GPUs" : "the GPUs, read by this process";
  return data;
}

}  // namespace gpulens
