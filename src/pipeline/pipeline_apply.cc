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

Status Pipeline::Apply(PipelinePlan plan) {
  // First all that may fail, without a change; then the change.
  std::vector<std::shared_ptr<RunningAnalyzer>> analyzers;
  std::vector<std::shared_ptr<SinkRunner>> sinks, replaced;
  RETURN_IF_ERROR(MakeAnalyzers(plan, analyzers));
  RETURN_IF_ERROR(MakeSinks(plan, sinks));
  ASSIGN_OR_RETURN(EnricherSet::List enrichers, enrichers_.Make(plan.enrichers));
  enrichers_.Adopt(std::move(enrichers));
  {
    std::lock_guard lock(mutex_);
    ApplyInstances(plan.instances);
    analyzers_ = std::move(analyzers);
    for (const auto& sink : sinks_) {
      if (std::find(sinks.begin(), sinks.end(), sink) == sinks.end()) replaced.push_back(sink);
    }
    sinks_ = std::move(sinks);
    if (started_ && plan.interval != plan_.interval) {
      scheduler_.Remove(tick_task_);
      tick_task_ = scheduler_.Add(plan.interval, plan.interval, env_.clock->Now());
    }
    plan_ = std::move(plan);
  }
  wake_.notify_all();
  for (const auto& sink : replaced) sink->Stop(env_.clock->Now() + std::chrono::seconds(1));
  return Ok();
}

}  // namespace gpulens
