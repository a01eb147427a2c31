// Applies a plan at the start and at a reload: equal parts keep running.

#include <algorithm>

#include "base/result.h"
#include "pipeline/pipeline.h"

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
    auto old =
        std::ranges::find_if(running_, [&](const auto& r) { return r && r->instance->name() == setup.name; });
    if (old != running_.end() && (*old)->instance->SameAs(setup)) {
      next.push_back(std::move(*old));
      continue;
    }
    auto added = std::make_unique<Running>();
    if (old != running_.end()) added->predecessor = (*old)->instance;
    setup.table = TableOptions(std::move(setup.table));
    // Bounds scraped series. Our own readings are few, and never refused.
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
  const auto present = CopyOf(analyzers_);
  for (const PipelinePlan::AnalyzerSetup& setup : plan.analyzers) {
    auto old = std::ranges::find_if(present, [&](const auto& a) { return a->setup == setup; });
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

Status Pipeline::MakeSinks(const PipelinePlan& plan, std::vector<RunningSink>& out,
                           Delivery::Plan& delivery) {
  const auto present = CopyOf(sinks_);
  for (const SinkRunner::Setup& setup : plan.sinks) {
    RETURN_IF_ERROR(delivery_.Add({setup.name, setup.spec, setup.config}, delivery));
    if (setup.spec->network) {
      ASSIGN_OR_RETURN(RunningSink made, MakeNetworkSink(setup, plan, out));
      if (made.log) delivery.destinations.back().own = made.log;
      // After those that it shares a runner with.
      auto at = std::find_if(out.rbegin(), out.rend(), [&](const RunningSink& one) {
        return made.runner && one.runner == made.runner;
      });
      out.insert(at == out.rend() ? out.end() : at.base(), std::move(made));
      continue;
    }
    RunningSink sink{setup.name, setup.spec, setup.config, {}, nullptr, nullptr};
    auto old = std::ranges::find_if(*present, [&](const RunningSink& one) {
      return one.name == setup.name && one.spec == setup.spec && one.config == setup.config;
    });
    if (old != present->end()) {
      sink.runner = old->runner;
    } else {
      ASSIGN_OR_RETURN(auto made, setup.spec->create(setup.config, env_));
      ASSIGN_OR_RETURN(sink.runner, SinkRunner::Make(setup, std::move(made), *env_.clock));
    }
    out.push_back(std::move(sink));
  }
  return Ok();
}

// Reuses the encoder of a sink of this plan, or of a running one, or makes one.
Result<Pipeline::RunningSink> Pipeline::MakeNetworkSink(const SinkRunner::Setup& setup,
                                                        const PipelinePlan& plan,
                                                        const std::vector<RunningSink>& made) {
  RunningSink sink{setup.name, setup.spec, setup.config, EncoderConfig(setup.config, *setup.spec->network),
                   nullptr,    nullptr};
  if (!Delivery::SendsOwn(setup.config)) return sink;
  const auto same = [&](const RunningSink& one) {
    return one.runner && one.spec == sink.spec && one.encoder_config == sink.encoder_config;
  };
  if (auto at = std::ranges::find_if(made, same); at != made.end()) {
    sink.runner = at->runner;
    sink.log = at->log;
    return sink;
  }
  std::vector<std::string> members;
  RequestLogOptions options = LogOptionsOf(setup.config, delivery_.DefaultFolder(setup.name));
  for (const SinkRunner::Setup& other : plan.sinks) {
    if (other.spec != setup.spec || !Delivery::SendsOwn(other.config) ||
        !(EncoderConfig(other.config, *setup.spec->network) == sink.encoder_config))
      continue;
    members.push_back(other.name);
    options.max_bytes = std::max(options.max_bytes, other.config.Group("queue").Size("max_bytes"));
  }
  const auto present = CopyOf(sinks_);
  sink.log = delivery_.LogOf(setup.name, members, std::move(options));
  const auto running = std::ranges::find_if(
      *present, [&](const RunningSink& one) { return same(one) && one.log == sink.log; });
  if (running != present->end()) {
    sink.runner = running->runner;
    return sink;
  }
  ASSIGN_OR_RETURN(auto encoder,
                   setup.spec->network->encoder(setup.config, env_, std::make_unique<LogWriter>(sink.log)));
  ASSIGN_OR_RETURN(sink.runner, SinkRunner::Make(setup, std::move(encoder), *env_.clock));
  return sink;
}

Status Pipeline::MakeReceivers(const PipelinePlan& plan, std::vector<std::shared_ptr<RunningReceiver>>& out) {
  const auto present = CopyOf(receivers_);
  for (const PipelinePlan::ReceiverSetup& setup : plan.receivers) {
    auto old = std::ranges::find_if(present, [&](const auto& r) {
      return r->setup == setup && r->stated == plan.stated && r->memory_limit == plan.memory_limit;
    });
    if (old != present.end()) {
      out.push_back(*old);
      continue;
    }
    const ReceiverContext context{
        .env = env_,
        .forward = delivery_,
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
}

namespace {

// Sinks that export no received data, for a message: "prometheus, webhook send the agent's own data alone".
std::string NamesWithoutReceived(const PipelinePlan& plan) {
  if (plan.sinks.empty()) return "none is on";
  std::string names;
  for (const SinkRunner::Setup& sink : plan.sinks) names += (names.empty() ? "" : ", ") + sink.name;
  return names + (plan.sinks.size() == 1 ? " sends" : " send") + " the agent's own data alone";
}

}  // namespace

void Pipeline::StopSinks(const std::vector<RunningSink>& sinks, Instant deadline) {
  for (const RunningSink& sink : sinks) {
    if (sink.runner && !sink.runner->Stop(deadline)) left_behind_ = true;
  }
}

// Roll-ups continue where a runner is replaced for all its sinks by one with equal rules.
std::vector<Pipeline::RollupMove> Pipeline::PlanRollups(const std::vector<RunningSink>& next) {
  const auto present = CopyOf(sinks_);
  const auto among = [](const std::vector<RunningSink>& sinks, const std::shared_ptr<SinkRunner>& runner) {
    return std::ranges::any_of(sinks, [&](const auto& one) { return one.runner == runner; });
  };
  std::vector<RollupMove> moves;
  for (const RunningSink& sink : *present) {
    if (!sink.runner || !sink.runner->rollup_stats() || among(next, sink.runner)) continue;
    auto move = std::ranges::find_if(moves, [&](const auto& m) { return m.from == sink.runner; });
    const bool first = move == moves.end();
    if (first) (move = moves.emplace(moves.end()))->from = sink.runner;
    const auto after = std::ranges::find_if(next, [&](const auto& one) { return one.name == sink.name; });
    (after == next.end() ? move->removed : move->stays) = true;
    const auto runner = after == next.end() ? nullptr : after->runner;
    if (first) move->to = runner;
    else if (move->to != runner) move->to = nullptr;
  }
  for (auto move = moves.begin(); move != moves.end(); ++move) {
    const bool taken =
        std::any_of(moves.begin(), move, [&](const auto& before) { return before.to == move->to; });
    if (!move->to || taken || among(*present, move->to) || !move->to->TakeRollups(*move->from))
      move->to = nullptr;
  }
  return moves;
}

// Runners with new rules count from the snapshot with which the former ones end.
void Pipeline::MoveRollups(const std::vector<RollupMove>& moves, const std::vector<RunningSink>& before) {
  Ref<const Snapshot> last;
  for (const RollupMove& move : moves) {
    if (!move.to && move.stays) last = move.from->EndIntervals(hub_);
  }
  if (!last) last = hub_.latest();
  for (const RunningSink& sink : *sinks_) {
    const auto same = [&](const auto& one) { return one.runner == sink.runner; };
    const bool goes_on = std::ranges::any_of(before, same) ||
                         std::ranges::any_of(moves, [&](const auto& move) { return move.to == sink.runner; });
    if (sink.runner && !goes_on) sink.runner->BeginIntervals(last);
  }
}

Status Pipeline::Apply(PipelinePlan plan) {
  // All that may fail comes first and changes nothing.
  std::vector<std::shared_ptr<RunningAnalyzer>> analyzers;
  std::vector<RunningSink> sinks, replaced;
  std::vector<std::shared_ptr<RunningReceiver>> receivers, gone;
  Delivery::Plan delivery;
  RETURN_IF_ERROR(MakeAnalyzers(plan, analyzers));
  RETURN_IF_ERROR(MakeSinks(plan, sinks, delivery));
  ASSIGN_OR_RETURN(EnricherSet::List enrichers, enrichers_.Make(plan.enrichers));
  delivery_.PlanReceived(!plan.receivers.empty(), delivery);
  if (!plan.receivers.empty() && !delivery.received && !delivery.discards)
    return {Code::kInvalidArgument,
            "receivers: no sink accepts received data: " + NamesWithoutReceived(plan) +
                "; switch on sinks.otlp or sinks.remote_write"};
  RETURN_IF_ERROR(MakeReceivers(plan, receivers));
  enrichers_.Adopt(std::move(enrichers));
  const std::vector<RollupMove> moves = PlanRollups(sinks);
  // Before the removed sinks lose their senders.
  const Instant encoded_by = env_.clock->Now() + std::chrono::seconds(1);
  for (const RollupMove& move : moves)
    if (move.removed) static_cast<void>(move.from->EndIntervals(hub_));
  for (const RollupMove& move : moves)
    if (move.removed) static_cast<void>(move.from->WaitUntilWritten(encoded_by));
  // Readers are attached before anything is appended for them. Running parts continue meanwhile.
  delivery_.Apply(std::move(delivery), env_.clock->Now() + std::chrono::seconds(1));
  {
    std::lock_guard lock(mutex_);
    ApplyInstances(plan.instances);
    analyzers_ = std::move(analyzers);
    for (const RunningSink& sink : *sinks_) {
      if (std::ranges::none_of(sinks, [&](const RunningSink& one) { return one.runner == sink.runner; }))
        replaced.push_back(sink);
    }
    const auto before =
        std::exchange(sinks_, std::make_shared<const std::vector<RunningSink>>(std::move(sinks)));
    MoveRollups(moves, *before);
    for (const auto& receiver : receivers_) {
      if (std::ranges::find(receivers, receiver) == receivers.end()) gone.push_back(receiver);
    }
    receivers_ = std::move(receivers);
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
