// A Slurm cluster: nodes, CPUs, GPUs, jobs and users, what its scheduler does, and the same by account and
// by partition.
//
// A part of a whole has a name of its own, so what stands on an account or a partition is never added to the
// cluster's.
#pragma once

#include "catalog/row.h"

namespace gpulens {

inline constexpr MetricDesc kSlurmNodes = row::Essential(row::UpDown(
    "slurm.nodes", "{node}", "Nodes by state, without its flags.", row::kKeys<"slurm.node.state">));
inline constexpr MetricDesc kSlurmNodesDown = row::Essential(
    row::UpDown("slurm.nodes.down", "{node}",
                "Nodes whose state keeps jobs off: down, drained, failed, in maintenance, off."));
inline constexpr MetricDesc kSlurmNodesSilent = row::Essential(
    row::UpDown("slurm.nodes.not_responding", "{node}", "Nodes that do not answer the controller."));
inline constexpr MetricDesc kSlurmCpus = row::Standard(
    row::UpDown("slurm.cpus", "{cpu}", "CPUs by state: allocated, idle, other (on nodes that are not up).",
                row::kKeys<"slurm.cpu.state">));
inline constexpr MetricDesc kSlurmGpus = row::Essential(
    row::UpDown("slurm.gpus", "{gpu}", "GPUs by state: allocated, idle, down (idle on nodes that are down).",
                row::kKeys<"slurm.gpu.state">));
inline constexpr MetricDesc kSlurmJobs = row::Essential(
    row::UpDown("slurm.jobs", "{job}", "Jobs in the queue by state; a waiting array counts once.",
                row::kKeys<"slurm.job.state">));
inline constexpr MetricDesc kSlurmJobsCpus = row::Standard(row::UpDown(
    "slurm.jobs.cpus", "{cpu}", "CPUs that jobs have or request, by state.", row::kKeys<"slurm.job.state">));
inline constexpr MetricDesc kSlurmJobsGpus = row::Standard(row::UpDown(
    "slurm.jobs.gpus", "{gpu}", "GPUs that jobs have or request, by state.", row::kKeys<"slurm.job.state">));
inline constexpr MetricDesc kSlurmJobsNodes =
    row::Standard(row::UpDown("slurm.jobs.nodes", "{node}", "Nodes that jobs have or request, by state.",
                              row::kKeys<"slurm.job.state">));
inline constexpr MetricDesc kSlurmJobsUnowned = row::Standard(
    row::UpDown("slurm.jobs.without_user", "{job}", "Jobs in the queue whose user is no longer known."));
inline constexpr MetricDesc kSlurmJobsDistributed = row::Standard(row::Gauge(
    "slurm.jobs.distributed", "1", "Share of running jobs on more than one node.", {}, &row::kZeroToOne));
inline constexpr MetricDesc kSlurmUsersActive =
    row::Standard(row::Gauge("slurm.users.active", "{user}", "Users with a running job."));
inline constexpr MetricDesc kSlurmUsersQueued =
    row::Standard(row::Gauge("slurm.users.queued", "{user}", "Users with a running or a waiting job."));
inline constexpr MetricDesc kSlurmUserJobsMean = row::Standard(
    row::Real(row::Gauge("slurm.user.jobs.mean", "{job}", "Mean running jobs per user with running jobs.")));
inline constexpr MetricDesc kSlurmUserJobsDeviation = row::Standard(row::Real(row::Gauge(
    "slurm.user.jobs.deviation", "{job}", "Standard deviation (of a sample) of running jobs per user.")));

// Of jobs that ended within a window, five minutes by default, from the accounting; absent without one.
inline constexpr MetricDesc kSlurmEndedJobs =
    row::Standard(row::Gauge("slurm.ended.jobs", "{job}", "Jobs that ended within the window, by state.",
                             row::kKeys<"slurm.job.state">));
inline constexpr MetricDesc kSlurmEndedCpusMean = row::Standard(row::Real(
    row::Gauge("slurm.ended.cpus.mean", "{cpu}", "CPUs of jobs that ended, weighted by how long they ran.")));
inline constexpr MetricDesc kSlurmEndedGpusMean = row::Standard(row::Real(
    row::Gauge("slurm.ended.gpus.mean", "{gpu}", "GPUs of jobs that ended, weighted by how long they ran.")));
inline constexpr MetricDesc kSlurmEndedRuntimeMean =
    row::Standard(row::Gauge("slurm.ended.runtime.mean", "s", "How long jobs that ended had run."));
inline constexpr MetricDesc kSlurmEndedRuntimeDeviation =
    row::Standard(row::Gauge("slurm.ended.runtime.deviation", "s",
                             "Standard deviation (of a sample) of how long jobs that ended had run."));
inline constexpr MetricDesc kSlurmEndedWaitMean =
    row::Standard(row::Gauge("slurm.ended.wait.mean", "s", "From submission to start of jobs that ended."));
inline constexpr MetricDesc kSlurmEndedWaitDeviation = row::Standard(
    row::Gauge("slurm.ended.wait.deviation", "s",
               "Standard deviation (of a sample) from submission to start of jobs that ended."));
inline constexpr MetricDesc kSlurmEndedSuspendedMean = row::Standard(
    row::Gauge("slurm.ended.suspended.mean", "s", "How long jobs that ended had been suspended."));
inline constexpr MetricDesc kSlurmEndedSuspendedDeviation = row::Standard(
    row::Gauge("slurm.ended.suspended.deviation", "s",
               "Standard deviation (of a sample) of how long jobs that ended had been suspended."));

inline constexpr MetricDesc kSlurmAccountJobs =
    row::Standard(row::UpDown("slurm.account.jobs", "{job}", "Jobs of an account in the queue, by state.",
                              row::kKeys<"slurm.job.state">));
inline constexpr MetricDesc kSlurmAccountCpus =
    row::Standard(row::UpDown("slurm.account.cpus", "{cpu}", "CPUs that an account's running jobs have."));
inline constexpr MetricDesc kSlurmAccountGpus =
    row::Standard(row::UpDown("slurm.account.gpus", "{gpu}", "GPUs that an account's running jobs have."));
inline constexpr MetricDesc kSlurmAccountNodes = row::Standard(row::UpDown(
    "slurm.account.nodes", "{node}", "Nodes that an account's running jobs have; shared ones each time."));
inline constexpr MetricDesc kSlurmPartitionNodes = row::Standard(row::UpDown(
    "slurm.partition.nodes", "{node}", "Nodes of a partition by state.", row::kKeys<"slurm.node.state">));
inline constexpr MetricDesc kSlurmPartitionCpus = row::Standard(row::UpDown(
    "slurm.partition.cpus", "{cpu}", "CPUs of a partition by state.", row::kKeys<"slurm.cpu.state">));
inline constexpr MetricDesc kSlurmPartitionGpus = row::Standard(row::UpDown(
    "slurm.partition.gpus", "{gpu}", "GPUs of a partition by state.", row::kKeys<"slurm.gpu.state">));
inline constexpr MetricDesc kSlurmPartitionJobs =
    row::Standard(row::UpDown("slurm.partition.jobs", "{job}", "Jobs of a partition in the queue, by state.",
                              row::kKeys<"slurm.job.state">));

// The controller, as sdiag tells it.
inline constexpr MetricDesc kSlurmControllerThreads = row::Standard(
    row::Gauge("slurm.controller.threads", "{thread}", "Threads of the controller that serve calls."));
inline constexpr MetricDesc kSlurmControllerAgents =
    row::Standard(row::Gauge("slurm.controller.agents", "{agent}", "Agents of the controller."));
inline constexpr MetricDesc kSlurmControllerAgentThreads = row::Standard(
    row::Gauge("slurm.controller.agent.threads", "{thread}", "Threads of the controller's agents."));
inline constexpr MetricDesc kSlurmControllerAgentQueue = row::Standard(
    row::Gauge("slurm.controller.agent.queue", "{request}", "Requests that wait for an agent."));
inline constexpr MetricDesc kSlurmControllerDatabaseQueue = row::Standard(row::Gauge(
    "slurm.controller.database.queue", "{request}", "Messages that wait for the accounting database."));
inline constexpr MetricDesc kSlurmControllerJobs = row::Standard(row::Counter(
    "slurm.controller.jobs", "{job}", "Jobs by outcome since the controller's counters were reset.",
    row::kKeys<"slurm.job.event">));
inline constexpr MetricDesc kSlurmSchedulerCycles =
    row::Standard(row::Counter("slurm.scheduler.cycles", "{cycle}", "Cycles of the main scheduler."));
inline constexpr MetricDesc kSlurmSchedulerTime =
    row::Standard(row::Counter("slurm.scheduler.time", "s", "Time the main scheduler took."));
inline constexpr MetricDesc kSlurmSchedulerCycleLast = row::Standard(
    row::Gauge("slurm.scheduler.cycle.last", "s", "How long the main scheduler's last cycle took."));
inline constexpr MetricDesc kSlurmSchedulerCycleLongest =
    row::Standard(row::Gauge("slurm.scheduler.cycle.longest", "s",
                             "The longest cycle of the main scheduler since the counters were reset."));
inline constexpr MetricDesc kSlurmSchedulerCycleMean = row::Standard(
    row::Gauge("slurm.scheduler.cycle.mean", "s", "Mean length of the main scheduler's cycles."));
inline constexpr MetricDesc kSlurmSchedulerQueue = row::Standard(row::Gauge(
    "slurm.scheduler.queue", "{job}", "Jobs in the queue at the last cycle of the main scheduler."));
inline constexpr MetricDesc kSlurmBackfillJobs = row::Standard(row::Counter(
    "slurm.backfill.jobs", "{job}", "Jobs that were started early, since the controller started."));
inline constexpr MetricDesc kSlurmBackfillCycles =
    row::Standard(row::Counter("slurm.backfill.cycles", "{cycle}", "Cycles of the backfill scheduler."));
inline constexpr MetricDesc kSlurmBackfillTime =
    row::Standard(row::Counter("slurm.backfill.time", "s", "Time the backfill scheduler took."));
inline constexpr MetricDesc kSlurmBackfillCycleLast = row::Standard(
    row::Gauge("slurm.backfill.cycle.last", "s", "How long the backfill scheduler's last cycle took."));
inline constexpr MetricDesc kSlurmBackfillCycleLongest =
    row::Standard(row::Gauge("slurm.backfill.cycle.longest", "s",
                             "The longest cycle of the backfill scheduler since the counters were reset."));
inline constexpr MetricDesc kSlurmBackfillCycleMean = row::Standard(
    row::Gauge("slurm.backfill.cycle.mean", "s", "Mean length of the backfill scheduler's cycles."));
inline constexpr MetricDesc kSlurmBackfillQueue = row::Standard(row::Gauge(
    "slurm.backfill.queue", "{job}", "Jobs in the queue at the last cycle of the backfill scheduler."));

inline constexpr const MetricDesc* kSlurmRows[] = {&kSlurmNodes,
                                                   &kSlurmNodesDown,
                                                   &kSlurmNodesSilent,
                                                   &kSlurmCpus,
                                                   &kSlurmGpus,
                                                   &kSlurmJobs,
                                                   &kSlurmJobsCpus,
                                                   &kSlurmJobsGpus,
                                                   &kSlurmJobsNodes,
                                                   &kSlurmJobsUnowned,
                                                   &kSlurmJobsDistributed,
                                                   &kSlurmUsersActive,
                                                   &kSlurmUsersQueued,
                                                   &kSlurmUserJobsMean,
                                                   &kSlurmUserJobsDeviation,
                                                   &kSlurmEndedJobs,
                                                   &kSlurmEndedCpusMean,
                                                   &kSlurmEndedGpusMean,
                                                   &kSlurmEndedRuntimeMean,
                                                   &kSlurmEndedRuntimeDeviation,
                                                   &kSlurmEndedWaitMean,
                                                   &kSlurmEndedWaitDeviation,
                                                   &kSlurmEndedSuspendedMean,
                                                   &kSlurmEndedSuspendedDeviation,
                                                   &kSlurmAccountJobs,
                                                   &kSlurmAccountCpus,
                                                   &kSlurmAccountGpus,
                                                   &kSlurmAccountNodes,
                                                   &kSlurmPartitionNodes,
                                                   &kSlurmPartitionCpus,
                                                   &kSlurmPartitionGpus,
                                                   &kSlurmPartitionJobs,
                                                   &kSlurmControllerThreads,
                                                   &kSlurmControllerAgents,
                                                   &kSlurmControllerAgentThreads,
                                                   &kSlurmControllerAgentQueue,
                                                   &kSlurmControllerDatabaseQueue,
                                                   &kSlurmControllerJobs,
                                                   &kSlurmSchedulerCycles,
                                                   &kSlurmSchedulerTime,
                                                   &kSlurmSchedulerCycleLast,
                                                   &kSlurmSchedulerCycleLongest,
                                                   &kSlurmSchedulerCycleMean,
                                                   &kSlurmSchedulerQueue,
                                                   &kSlurmBackfillJobs,
                                                   &kSlurmBackfillCycles,
                                                   &kSlurmBackfillTime,
                                                   &kSlurmBackfillCycleLast,
                                                   &kSlurmBackfillCycleLongest,
                                                   &kSlurmBackfillCycleMean,
                                                   &kSlurmBackfillQueue};

}  // namespace gpulens
