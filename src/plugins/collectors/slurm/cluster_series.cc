#include "plugins/collectors/slurm/cluster_series.h"

#include "catalog/slurm.h"

namespace gpulens {
namespace {

constexpr std::string_view kNodeState = "slurm.node.state", kCpuState = "slurm.cpu.state",
                           kGpuState = "slurm.gpu.state", kJobState = "slurm.job.state",
                           kJobEvent = "slurm.job.event";
constexpr double kMicro = 1e-6;

struct Said {
  const MetricDesc* desc;
  std::optional<double> slurm::Sdiag::* member;
  double scale = 1;
};
constexpr Said kSaid[] = {
    {&kSlurmControllerThreads, &slurm::Sdiag::server_threads},
    {&kSlurmControllerAgents, &slurm::Sdiag::agents},
    {&kSlurmControllerAgentThreads, &slurm::Sdiag::agent_threads},
    {&kSlurmControllerAgentQueue, &slurm::Sdiag::agent_queue},
    {&kSlurmControllerDatabaseQueue, &slurm::Sdiag::dbd_agent_queue},
    {&kSlurmSchedulerCycles, &slurm::Sdiag::cycles},
    {&kSlurmSchedulerTime, &slurm::Sdiag::cycle_sum, kMicro},
    {&kSlurmSchedulerCycleLast, &slurm::Sdiag::cycle_last, kMicro},
    {&kSlurmSchedulerCycleLongest, &slurm::Sdiag::cycle_max, kMicro},
    {&kSlurmSchedulerCycleMean, &slurm::Sdiag::cycle_mean, kMicro},
    {&kSlurmSchedulerQueue, &slurm::Sdiag::queue_length},
    {&kSlurmBackfillJobs, &slurm::Sdiag::backfilled},
    {&kSlurmBackfillCycles, &slurm::Sdiag::backfill_cycles},
    {&kSlurmBackfillTime, &slurm::Sdiag::backfill_cycle_sum, kMicro},
    {&kSlurmBackfillCycleLast, &slurm::Sdiag::backfill_cycle_last, kMicro},
    {&kSlurmBackfillCycleLongest, &slurm::Sdiag::backfill_cycle_max, kMicro},
    {&kSlurmBackfillCycleMean, &slurm::Sdiag::backfill_cycle_mean, kMicro},
    {&kSlurmBackfillQueue, &slurm::Sdiag::backfill_queue},
};

struct SaidEvent {
  const char* event;
  std::optional<double> slurm::Sdiag::* member;
};
constexpr SaidEvent kSaidEvents[] = {{"submitted", &slurm::Sdiag::jobs_submitted},
                                     {"started", &slurm::Sdiag::jobs_started},
                                     {"completed", &slurm::Sdiag::jobs_completed},
                                     {"canceled", &slurm::Sdiag::jobs_canceled},
                                     {"failed", &slurm::Sdiag::jobs_failed}};

// Counted things are whole numbers; a double that is one goes into either cell.
void Put(FrameWriter& out, Series series, const MetricDesc& desc, double value) {
  if (desc.number == Number::kInt) {
    out.SetInt(series, static_cast<int64_t>(value));
  } else {
    out.Set(series, value);
  }
}

}  // namespace

void StateSeries::Write(const Amounts& amounts, const EntityRef& entity, FrameWriter& out) {
  for (const auto& [state, value] : amounts) {
    auto at = by_state_.find(state);
    if (at == by_state_.end()) {
      Series series = out.table().Declare(desc_, entity, {{key_, std::string_view(state)}});
      at = by_state_.emplace(state, series).first;
    }
    Put(out, at->second, desc_, value);
  }
  for (const auto& [state, series] : by_state_) {
    if (!amounts.contains(state)) Put(out, series, desc_, 0);
  }
}

ClusterSeries::ClusterSeries(const std::string& cluster)
    : cluster_(cluster.empty()
                   ? MakeRef<Entity>("slurm_cluster", AttributeSet())
                   : MakeRef<Entity>("slurm_cluster",
                                     AttributeSet({{"slurm.cluster.name", std::string_view(cluster)}}))),
      nodes_(kSlurmNodes, kNodeState),
      cpus_(kSlurmCpus, kCpuState),
      gpus_(kSlurmGpus, kGpuState),
      jobs_(kSlurmJobs, kJobState),
      jobs_cpus_(kSlurmJobsCpus, kJobState),
      jobs_gpus_(kSlurmJobsGpus, kJobState),
      jobs_nodes_(kSlurmJobsNodes, kJobState),
      ended_(kSlurmEndedJobs, kJobState),
      events_(kSlurmControllerJobs, kJobEvent) {}

void ClusterSeries::Set(const MetricDesc& desc, std::optional<double> value, FrameWriter& out) {
  Series& series = plain_[&desc];
  if (!value) {
    if (series) out.Clear(series);
    return;
  }
  if (!series) series = out.table().Declare(desc, cluster_);
  Put(out, series, desc, *value);
}

void ClusterSeries::Write(const ClusterReading& reading, FrameWriter& out) {
  ++round_;
  out.ReadAt(reading.at);
  if (reading.nodes) WriteNodes(*reading.nodes, out);
  if (reading.queue) WriteQueue(*reading.queue, out);
  if (reading.ended) WriteEnded(*reading.ended, out);
  if (reading.diagnosis) WriteDiagnosis(*reading.diagnosis, out);
  // Half a table says nothing of a partition's end.
  if (reading.nodes && reading.queue) WritePartitions(reading, out);
}

void ClusterSeries::WriteNodes(const NodeNumbers& nodes, FrameWriter& out) {
  nodes_.Write(nodes.nodes, cluster_, out);
  cpus_.Write(nodes.cpus, cluster_, out);
  gpus_.Write(nodes.gpus, cluster_, out);
  Set(kSlurmNodesDown, nodes.down, out);
  Set(kSlurmNodesSilent, nodes.silent, out);
}

void ClusterSeries::WriteQueue(const QueueNumbers& queue, FrameWriter& out) {
  jobs_.Write(queue.jobs, cluster_, out);
  jobs_cpus_.Write(queue.cpus, cluster_, out);
  jobs_gpus_.Write(queue.gpus, cluster_, out);
  jobs_nodes_.Write(queue.nodes, cluster_, out);
  Set(kSlurmJobsUnowned, queue.without_user, out);
  Set(kSlurmJobsDistributed, queue.distributed, out);
  Set(kSlurmUsersActive, queue.active_users, out);
  Set(kSlurmUsersQueued, queue.queued_users, out);
  Set(kSlurmUserJobsMean, queue.jobs_per_user.mean, out);
  Set(kSlurmUserJobsDeviation, queue.jobs_per_user.deviation, out);
  WriteAccounts(queue, out);
}

void ClusterSeries::WriteEnded(const EndedNumbers& ended, FrameWriter& out) {
  ended_.Write(ended.jobs, cluster_, out);
  Set(kSlurmEndedCpusMean, ended.mean_cpus, out);
  Set(kSlurmEndedGpusMean, ended.mean_gpus, out);
  Set(kSlurmEndedRuntimeMean, ended.runtime.mean, out);
  Set(kSlurmEndedRuntimeDeviation, ended.runtime.deviation, out);
  Set(kSlurmEndedWaitMean, ended.wait.mean, out);
  Set(kSlurmEndedWaitDeviation, ended.wait.deviation, out);
  Set(kSlurmEndedSuspendedMean, ended.suspended.mean, out);
  Set(kSlurmEndedSuspendedDeviation, ended.suspended.deviation, out);
}

void ClusterSeries::WriteDiagnosis(const slurm::Sdiag& said, FrameWriter& out) {
  for (const Said& row : kSaid) {
    const std::optional<double>& value = said.*row.member;
    Set(*row.desc, value ? std::optional(*value * row.scale) : std::nullopt, out);
  }
  for (const SaidEvent& row : kSaidEvents) {
    if (said.*row.member) said_events_[row.event] = *(said.*row.member);
  }
  events_.Write(said_events_, cluster_, out);
}

void ClusterSeries::WritePartitions(const ClusterReading& reading, FrameWriter& out) {
  for (const auto& [name, numbers] : reading.partitions) {
    auto at = partitions_.find(name);
    if (at == partitions_.end()) {
      Partition fresh{
          MakeRef<Entity>("slurm_partition", AttributeSet({{"slurm.partition.name", std::string_view(name)}}),
                          cluster_),
          {kSlurmPartitionNodes, kNodeState},
          {kSlurmPartitionCpus, kCpuState},
          {kSlurmPartitionGpus, kGpuState},
          {kSlurmPartitionJobs, kJobState}};
      at = partitions_.emplace(name, std::move(fresh)).first;
    }
    Partition& series = at->second;
    series.round = round_;
    series.nodes.Write(numbers.nodes, series.entity, out);
    series.cpus.Write(numbers.cpus, series.entity, out);
    series.gpus.Write(numbers.gpus, series.entity, out);
    series.jobs.Write(numbers.jobs, series.entity, out);
  }
  std::erase_if(partitions_, [&](const auto& entry) {
    if (entry.second.round == round_) return false;
    out.table().Retire(entry.second.entity);
    return true;
  });
}

void ClusterSeries::WriteAccounts(const QueueNumbers& queue, FrameWriter& out) {
  for (const auto& [name, numbers] : queue.accounts) {
    auto at = accounts_.find(name);
    if (at == accounts_.end()) {
      Account fresh{MakeRef<Entity>("slurm_account",
                                    AttributeSet({{"slurm.account.name", std::string_view(name)}}), cluster_),
                    {kSlurmAccountJobs, kJobState},
                    {},
                    {},
                    {}};
      fresh.cpus = out.table().Declare(kSlurmAccountCpus, fresh.entity);
      fresh.gpus = out.table().Declare(kSlurmAccountGpus, fresh.entity);
      fresh.nodes = out.table().Declare(kSlurmAccountNodes, fresh.entity);
      at = accounts_.emplace(name, std::move(fresh)).first;
    }
    Account& series = at->second;
    series.round = round_;
    series.jobs.Write(numbers.jobs, series.entity, out);
    Put(out, series.cpus, kSlurmAccountCpus, numbers.cpus);
    Put(out, series.gpus, kSlurmAccountGpus, numbers.gpus);
    Put(out, series.nodes, kSlurmAccountNodes, numbers.nodes);
  }
  std::erase_if(accounts_, [&](const auto& entry) {
    if (entry.second.round == round_) return false;
    out.table().Retire(entry.second.entity);
    return true;
  });
}

}  // namespace gpulens
