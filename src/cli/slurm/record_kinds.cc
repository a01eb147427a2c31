#include "cli/slurm/record_kinds.h"

namespace gpulens {
namespace {

using enum ColumnType;

constexpr RecordColumn kNode[] = {
    {"cpus", kInt},           {"tmp_disk", kMebibytes}, {"free_mem", kMebibytes},  {"memory", kMebibytes},
    {"prio_tier", kInt},      {"weight", kInt},         {"nodes", kInt},           {"gres", kGres},
    {"gres_used", kTres},     {"timestamp", kTime},     {"prio_job_factor", kInt}, {"cpu_load", kReal},
    {"sockets", kInt},        {"cores", kInt},          {"threads", kInt},         {"timelimit", kMinutes},
    {"defaulttime", kMinutes}};

constexpr QueueColumn kQueue[] = {{"tres-per-node", "tres_per_node"},
                                  {"MinCpus", "min_cpus"},
                                  {"JobArrayID", "array_id"},
                                  {"JobID", "id"},
                                  {"Name", "name"},
                                  {"TimeLimit", "time_limit"},
                                  {"MinMemory", "min_memory"},
                                  {"Command", "command"},
                                  {"Priority", "priority"},
                                  {"State", "state"},
                                  {"UserName", "user"},
                                  {"NumCPUs", "cpus"},
                                  {"NumNodes", "nodes"},
                                  {"TimeLeft", "time_left"},
                                  {"TimeUsed", "time_used"},
                                  {"NodeList", "node_list"},
                                  {"Dependency", "dependency"},
                                  {"StartTime", "start_time"},
                                  {"SubmitTime", "submit_time"},
                                  {"EligibleTime", "eligible_time"},
                                  {"AccrueTime", "accrue_time"},
                                  {"PendingTime", "pending_time"},
                                  {"Comment", "comment"},
                                  {"Partition", "partition"},
                                  {"Account", "account"},
                                  {"QOS", "qos"},
                                  {"Reason", "reason"},
                                  {"tres-alloc", "tres_alloc"},
                                  {"Reservation", "reservation"},
                                  {"Requeue", "requeue"},
                                  {"Feature", "feature"},
                                  {"RestartCnt", "restarts"},
                                  {"SchedNodes", "scheduled_nodes"}};

constexpr RecordColumn kJob[] = {{"tres_per_node", kGres}, {"min_cpus", kInt},     {"time_limit", kSpan},
                                 {"min_memory", kSize},    {"priority", kReal},    {"cpus", kInt},
                                 {"nodes", kInt},          {"time_left", kSpan},   {"time_used", kSpan},
                                 {"start_time", kTime},    {"submit_time", kTime}, {"eligible_time", kTime},
                                 {"accrue_time", kTime},   {"pending_time", kInt}, {"tres_alloc", kTres},
                                 {"requeue", kInt},        {"restarts", kInt}};

constexpr RecordColumn kAccounting[] = {{"alloc_cpus", kInt},
                                        {"alloc_nodes", kInt},
                                        {"alloc_tres", kTres},
                                        {"assoc_id", kInt},
                                        {"ave_cpu", kSpan},
                                        {"ave_disk_read", kSize},
                                        {"ave_disk_write", kSize},
                                        {"ave_pages", kCount},
                                        {"ave_rss", kSize},
                                        {"ave_vm_size", kSize},
                                        {"consumed_energy_raw", kReal},
                                        {"cpu_time", kSpan},
                                        {"cpu_time_raw", kInt},
                                        {"db_index", kInt},
                                        {"elapsed", kSpan},
                                        {"elapsed_raw", kInt},
                                        {"eligible", kTime},
                                        {"end", kTime},
                                        {"gid", kInt},
                                        {"max_disk_read", kSize},
                                        {"max_disk_write", kSize},
                                        {"max_pages", kCount},
                                        {"max_rss", kSize},
                                        {"max_vm_size", kSize},
                                        {"min_cpu", kSpan},
                                        {"ncpus", kInt},
                                        {"nnodes", kInt},
                                        {"n_cpus", kInt},
                                        {"n_nodes", kInt},
                                        {"n_tasks", kInt},
                                        {"ntasks", kInt},
                                        {"planned", kSpan},
                                        {"planned_cpu_raw", kInt},
                                        {"priority", kInt},
                                        {"req_cpus", kInt},
                                        {"req_mem", kSize},
                                        {"req_nodes", kInt},
                                        {"req_tres", kTres},
                                        {"reserved", kSpan},
                                        {"resv_cpu", kSpan},
                                        {"resv_cpu_raw", kInt},
                                        {"start", kTime},
                                        {"submit", kTime},
                                        {"suspended", kSpan},
                                        {"system_cpu", kSpan},
                                        {"timelimit", kSpan},
                                        {"total_cpu", kSpan},
                                        {"uid", kInt},
                                        {"user_cpu", kSpan}};

constexpr RecordColumn kQos[] = {
    {"priority", kInt},           {"grace_time", kSpan},    {"preempt_exempt_time", kSpan},
    {"usage_thres", kReal},       {"usage_factor", kReal},  {"grp_tres", kTres},
    {"grp_tres_mins", kTres},     {"grp_jobs", kInt},       {"grp_tres_run_mins", kTres},
    {"grp_submit", kInt},         {"grp_wall", kSpan},      {"max_tres", kTres},
    {"max_tres_per_node", kTres}, {"max_tres_mins", kTres}, {"max_wall", kSpan},
    {"max_tres_pu", kTres},       {"max_jobs_pu", kInt},    {"max_submit_pu", kInt},
    {"max_tres_pa", kTres},       {"max_jobs_pa", kInt},    {"max_submit_pa", kInt},
    {"min_tres", kTres}};

constexpr RecordColumn kPartition[] = {{"default_time", kSpan},
                                       {"grace_time", kInt},
                                       {"max_nodes", kInt},
                                       {"max_time", kSpan},
                                       {"min_nodes", kInt},
                                       {"max_cpus_per_node", kInt},
                                       {"priority_job_factor", kInt},
                                       {"priority_tier", kInt},
                                       {"total_cpus", kInt},
                                       {"total_nodes", kInt},
                                       {"def_mem_per_node", kMebibytes},
                                       {"max_mem_per_node", kMebibytes},
                                       {"def_mem_per_cpu", kMebibytes},
                                       {"max_mem_per_cpu", kMebibytes},
                                       {"tres", kTres}};

constexpr RecordColumn kPriority[] = {
    {"priority", kReal},  {"site", kReal},    {"age", kReal},      {"assoc", kReal},
    {"fairshare", kReal}, {"jobsize", kReal}, {"job_size", kReal}, {"partition_factor", kReal},
    {"qos", kReal},       {"nice", kReal}};

constexpr RecordColumn kShare[] = {{"raw_shares", kInt},  {"norm_shares", kReal},   {"raw_usage", kReal},
                                   {"norm_usage", kReal}, {"effectv_usage", kReal}, {"fair_share", kReal},
                                   {"level_fs", kReal},   {"grp_tres_mins", kTres}, {"tres_run_mins", kTres}};

}  // namespace

const RecordKind kNodeKind{&kRecordSlurmNode, kNode};
const RecordKind kJobKind{&kRecordSlurmJob, kJob};
const RecordKind kAccountingKind{&kRecordSlurmAccounting, kAccounting};
const RecordKind kQosKind{&kRecordSlurmQos, kQos};
const RecordKind kUserKind{&kRecordSlurmUser, {}};
const RecordKind kPartitionKind{&kRecordSlurmPartition, kPartition};
const RecordKind kConfigKind{&kRecordSlurmConfig, {}};
const RecordKind kPriorityKind{&kRecordSlurmPriority, kPriority};
const RecordKind kShareKind{&kRecordSlurmShare, kShare};

std::span<const QueueColumn> QueueColumns() noexcept { return kQueue; }

}  // namespace gpulens
