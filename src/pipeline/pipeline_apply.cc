// How a plan becomes what runs, at start and at a reload: what is equal stays.

#include <algorithm>

#include "base/result.h"
#include "pipeline/pipeline.h"
#include "pipeline/running_analyzer.h"

namespace gpulens {

SeriesTable::Options Pipeline::TableOptions(SeriesTable::Options own) {
  own.budget = &budget_;
  own.describe = [this](const Entity& entity) { return enrichers_.Describe(entity); };
  return own;
}

void Pipeline::ApplyInstances(std::vector<Instance::Setup>& setups) {
  // All start with a tick, so that a tick shows what its own runs read.
  Instant first = env_.clock->Now();
  if (started_) first.boot_ns = scheduler_.due_ns(tick_task_);
  std::vector<std::unique_ptr<Running>> next;
  for (Instance::Setup& setup : setups) {
    auto old = std::find_if(running_.begin(), running_.end(),
                            [&](const auto& r) { return r && r->instance->name() == setup.name; });
    if (old != running_.end() && (*old)->instance->SameAs(setup)) {
      next.push_back(std::move(*old));
      continue;
    }
    auto added = std::make_unique<Running>();
    if (old != running_.end()) added->predecessor = (*old)->instance;
    setup.table = TableOptions(std::move(setup.table));
    // What others bring has no bound but this one. Our own readings are few, and the last to go.
    if (setup.spec->scraped) setup.table.has_room = [this] { return memory_.HasRoom(); };
    setup.enrichers = &enrichers_;
    added->pipeline = this;
    added->task = scheduler_.Add(setup.period, setup.deadline, first);
    added->instance = std::make_shared<Instance>(std::move(setup), env_);
    next.push_back(std::move(added));
  }
  for (auto& gone : running_) {
    if (!gone) continue;
    scheduler_.Remove(gone->task);
    leaving_.push_back(std::move(gone));
  }
  std::erase_if(leaving_, [&](const auto& r) { return !scheduler_.running(r->task); });
  running_ = std::move(next);
}

Status Pipeline::MakeAnalyzers(const PipelinePlan& plan, std::vector<std::shared_ptr<RunningAnalyzer>>& out) {
  std::unique_lock lock(mutex_);
  const auto present = analyzers_;
  lock.unlock();
  for (const PipelinePlan::AnalyzerSetup& setup : plan.analyzers) {
    auto old = std::find_if(present.begin(), present.end(), [&](const auto& a) {
      return a->setup.spec == setup.spec && a->setup.config == setup.config;
    });
    if (old != present.end()) {
      out.push_back(*old);
      continue;
    }
    ASSIGN_OR_RETURN(auto made, setup.spec->create(setup.config, env_));
    out.push_back(
        std::make_shared<RunningAnalyzer>(setup, std::move(made), TableOptions({}), plan.interval * 10));
  }
  return Ok();
}

Status Pipeline::MakeSinks(const PipelinePlan& plan, std::vector<std::shared_ptr<SinkRunner>>& out) {
  std::unique_lock lock(mutex_);
  const auto present = sinks_;
  lock.unlock();
  for (const SinkRunner::Setup& setup : plan.sinks) {
    auto old = std::find_if(present.begin(), present.end(), [&](const auto& s) {
      return s->setup().spec == setup.spec && s->setup().config == setup.config;
    });
    if (old != present.end()) {
      out.push_back(*old);
      continue;
    }
    ASSIGN_OR_RETURN(auto made, setup.spec->create(setup.config, env_));
    out.push_back(std::make_shared<SinkRunner>(setup, std::move(made), *env_.clock));
  }
  return Ok();
}

Status Pipeline::MakeReceivers(const PipelinePlan& plan, std::vector<std::shared_ptr<RunningReceiver>>& out) {
  std::unique_lock lock(mutex_);
  const auto present = receivers_;
  lock.unlock();
  for (const PipelinePlan::ReceiverSetup& setup : plan.receivers) {
    auto old = std::find_if(present.begin(), present.end(), [&](const auto& r) {
      return r->setup == setup && r->stated == plan.stated && r->memory_limit == plan.memory_limit;
    });
    if (old != present.end()) {
      out.push_back(*old);
      continue;
    }
    const ReceiverContext context{
        .env = env_,
        .forward = fan_,
        .stated = plan.stated,
        .host_name = plan.resource.Text("host.name"),
        .memory_limit = plan.memory_limit,
        .describer = {[this](const Entity& entity) { return enrichers_.Describe(entity); },
                      [this] { return enrichers_.generation(); }}};
    ASSIGN_OR_RETURN(auto made, setup.spec->create(setup.config, context));
    out.push_back(std::make_shared<RunningReceiver>(setup, plan.stated, plan.memory_limit, std::move(made)));
  }
  return Ok();
}

void Pipeline::StopReceivers(Instant deadline) {
  std::vector<std::shared_ptr<RunningReceiver>> receivers;
  {
    std::lock_guard lock(mutex_);
    receivers.swap(receivers_);
  }
  for (const auto& running : receivers) running->receiver->Stop(deadline);
  fan_.Set({});
}

namespace {

// Those sinks that cannot pass on what is received, for people: "prometheus, remote_write send the agent's
// own data alone".
std::string NamesWithoutOtlp(const std::vector<std::shared_ptr<SinkRunner>>& sinks) {
  std::string names;
  size_t count = 0;
  for (const auto& sink : sinks) {
    if (sink->takes_otlp()) continue;
    names += (names.empty() ? "" : ", ") + std::string(sink->name());
    ++count;
  }
  if (count == 0) return "none is on";
  return names + (count == 1 ? " sends" : " send") + " the agent's own data alone";
}

}  // namespace

void Pipeline::StopSinks(const std::vector<std::shared_ptr<SinkRunner>>& sinks, Instant deadline) {
  for (const auto& sink : sinks) {
    if (!sink->Stop(deadline)) left_behind_ = true;
  }
}

Status Pipeline::Apply(PipelinePlan plan) {
  // First all that may fail, without a change; then the change.
  std::vector<std::shared_ptr<RunningAnalyzer>> analyzers;
  std::vector<std::shared_ptr<SinkRunner>> sinks, replaced;
  std::vector<std::shared_ptr<RunningReceiver>> receivers, gone;
  RETURN_IF_ERROR(MakeAnalyzers(plan, analyzers));
  RETURN_IF_ERROR(MakeSinks(plan, sinks));
  ASSIGN_OR_RETURN(EnricherSet::List enrichers, enrichers_.Make(plan.enrichers));
  std::vector<OtlpFan::Taker> takers;
  for (const auto& sink : sinks) {
    if (!sink->takes_otlp()) continue;
    takers.push_back([sink](const Ref<const ReceivedOtlp>& received, OtlpFan::Done done) {
      sink->Offer(received, std::move(done));
    });
  }
  if (!plan.receivers.empty() && takers.empty())
    return {Code::kInvalidArgument, "receivers: no sink takes what is received: " + NamesWithoutOtlp(sinks) +
                                        "; switch sinks.otlp on"};
  RETURN_IF_ERROR(MakeReceivers(plan, receivers));
  enrichers_.Adopt(std::move(enrichers));
  {
    std::lock_guard lock(mutex_);
    ApplyInstances(plan.instances);
    analyzers_ = std::move(analyzers);
    for (const auto& sink : sinks_) {
      if (std::find(sinks.begin(), sinks.end(), sink) == sinks.end()) replaced.push_back(sink);
    }
    sinks_ = std::move(sinks);
    for (const auto& receiver : receivers_) {
      if (std::find(receivers.begin(), receivers.end(), receiver) == receivers.end())
        gone.push_back(receiver);
    }
    receivers_ = std::move(receivers);
    fan_.Set(std::move(takers));
    if (started_ && plan.interval != plan_.interval) {
      scheduler_.Remove(tick_task_);
      tick_task_ = scheduler_.Add(plan.interval, plan.interval, env_.clock->Now());
    }
    memory_.SetLimit(plan.memory_limit);
    plan_ = std::move(plan);
  }
  wake_.notify_all();
  for (const auto& running : gone) running->receiver->Stop(env_.clock->Now() + std::chrono::seconds(1));
  StopSinks(replaced, env_.clock->Now() + std::chrono::seconds(1));
  return Ok();
}

}  // namespace gpulens
