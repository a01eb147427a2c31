#include "cli/slurm/record_maker.h"

#include <cmath>
#include <deque>
#include <utility>

#include "base/parse.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {

namespace {

// Texts of users may be whole scripts.
constexpr size_t kMostText = 16384;
constexpr double kMebibyte = 1024.0 * 1024, kExact = 9007199254740992.0;

// The attributes of one record, with the texts they point to.
class RecordAttributes {
 public:
  void Text(std::string_view key, std::string_view value) {
    std::string clean = slurm::CleanText(value.substr(0, kMostText));
    list_.push_back({key, std::string_view(texts_.emplace_back(std::move(clean)))});
  }
  void Number(std::string_view key, std::optional<double> value) {
    if (!value) return;
    const bool whole = std::floor(*value) == *value && std::abs(*value) < kExact;
    if (whole) {
      list_.push_back({key, static_cast<int64_t>(*value)});
    } else {
      list_.push_back({key, *value});
    }
  }
  // A quantity with fractions, always of the same type.
  void Fraction(std::string_view key, std::optional<double> value) {
    if (value) list_.push_back({key, *value});
  }
  // A number whose key is put together.
  void Under(std::string key, std::optional<double> value) {
    if (value) Number(texts_.emplace_back(std::move(key)), value);
  }
  AttributeSet Make() const { return AttributeSet(std::span<const AttributeSet::Attribute>(list_)); }

 private:
  std::deque<std::string> texts_;
  std::vector<AttributeSet::Attribute> list_;
};

void AddTres(RecordAttributes& out, const std::string& key, std::string_view value) {
  out.Text(key, value);
  for (const auto& [name, number] : slurm::ParseTres(value)) {
    const std::string part = slurm::SnakeCase(name);
    if (!part.empty()) out.Under(key + "." + part, number);
  }
}

void AddTime(RecordAttributes& out, std::string_view key, std::string_view value, bool utc) {
  const std::optional<int64_t> seconds = slurm::ParseTime(value);
  if (!seconds) return;
  out.Text(key, utc ? std::string(Trim(value)) + "Z" : std::string(Trim(value)));
}

// Absent for Slurm's words for "no limit".
std::optional<double> Minutes(std::string_view value) {
  if (auto span = slurm::ParseSpan(value)) return span;
  std::optional<uint32_t> minutes = ParseInt<uint32_t>(value);
  return minutes ? std::optional(*minutes * 60.0) : std::nullopt;
}

std::optional<double> Real(std::string_view value) {
  std::optional<double> number = ParseDouble(value);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<double> Whole(std::string_view value) {
  std::optional<int64_t> number = ParseInt<int64_t>(value);
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

void AddValue(RecordAttributes& out, const std::string& key, ColumnType type, std::string_view value,
              bool utc) {
  switch (type) {
    case ColumnType::kText: out.Text(key, value); break;
    case ColumnType::kInt: out.Number(key, Whole(value)); break;
    case ColumnType::kReal: out.Fraction(key, Real(value)); break;
    case ColumnType::kCount: out.Number(key, slurm::ParseCount(value)); break;
    case ColumnType::kSpan: out.Fraction(key, slurm::ParseSpan(value)); break;
    case ColumnType::kMinutes: out.Fraction(key, Minutes(value)); break;
    case ColumnType::kSize: out.Number(key, slurm::ParseSize(value)); break;
    case ColumnType::kMebibytes: out.Number(key, slurm::ParseSize(value, kMebibyte)); break;
    case ColumnType::kTres: AddTres(out, key, value); break;
    case ColumnType::kGres:
      out.Text(key, value);
      out.Under(key + ".gpu", slurm::GresCount(value, "gpu"));
      break;
    case ColumnType::kTime: AddTime(out, key, value, utc); break;
  }
}

ColumnType TypeOf(const RecordKind& kind, std::string_view name) {
  for (const RecordColumns& columns : kind.typed) {
    for (std::string_view rest = columns.names; !rest.empty();) {
      if (TakeUntil(rest, ' ') == name) return columns.type;
    }
  }
  return ColumnType::kText;
}

using enum ColumnType;

constexpr RecordColumns kNode[] = {
    {kInt, "cpus prio_tier weight nodes prio_job_factor sockets cores threads"},
    {kMebibytes, "tmp_disk free_mem memory"},
    {kGres, "gres"},
    {kTres, "gres_used"},
    {kTime, "timestamp"},
    {kReal, "cpu_load"},
    {kMinutes, "timelimit defaulttime"},
};

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

constexpr RecordColumns kJob[] = {
    {kGres, "tres_per_node"},
    {kInt, "min_cpus cpus nodes pending_time requeue restarts"},
    {kSpan, "time_limit time_left time_used"},
    {kSize, "min_memory"},
    {kReal, "priority"},
    {kTime, "start_time submit_time eligible_time accrue_time"},
    {kTres, "tres_alloc"},
};

constexpr RecordColumns kAccounting[] = {
    {kInt,
     "alloc_cpus alloc_nodes assoc_id cpu_time_raw db_index elapsed_raw gid ncpus nnodes n_cpus "
     "n_nodes n_tasks ntasks planned_cpu_raw priority req_cpus req_nodes resv_cpu_raw uid"},
    {kTres, "alloc_tres req_tres"},
    {kSpan,
     "ave_cpu cpu_time elapsed min_cpu planned reserved resv_cpu suspended system_cpu timelimit "
     "total_cpu user_cpu"},
    {kSize,
     "ave_disk_read ave_disk_write ave_rss ave_vm_size max_disk_read max_disk_write max_rss "
     "max_vm_size req_mem"},
    {kCount, "ave_pages max_pages"},
    {kReal, "consumed_energy_raw"},
    {kTime, "eligible end start submit"},
};

constexpr RecordColumns kQos[] = {
    {kInt, "priority grp_jobs grp_submit max_jobs_pu max_submit_pu max_jobs_pa max_submit_pa"},
    {kSpan, "grace_time preempt_exempt_time grp_wall max_wall"},
    {kReal, "usage_thres usage_factor"},
    {kTres,
     "grp_tres grp_tres_mins grp_tres_run_mins max_tres max_tres_per_node max_tres_mins "
     "max_tres_pu max_tres_pa min_tres"},
};

constexpr RecordColumns kPartition[] = {
    {kSpan, "default_time max_time"},
    {kInt,
     "grace_time max_nodes min_nodes max_cpus_per_node priority_job_factor priority_tier "
     "total_cpus total_nodes"},
    {kMebibytes, "def_mem_per_node max_mem_per_node def_mem_per_cpu max_mem_per_cpu"},
    {kTres, "tres"},
};

constexpr RecordColumns kPriority[] = {
    {kReal, "priority site age assoc fairshare jobsize job_size partition_factor qos nice"},
};

constexpr RecordColumns kShare[] = {
    {kInt, "raw_shares"},
    {kReal, "norm_shares raw_usage norm_usage effectv_usage fair_share level_fs"},
    {kTres, "grp_tres_mins tres_run_mins"},
};

}  // namespace

RecordMaker::RecordMaker(const RecordKind& kind, std::span<const std::string> columns, RecordContext context)
    : kind_(kind), context_(std::move(context)) {
  for (const std::string& column : columns) {
    // Names from a configuration have dots of their own.
    std::string name = column.find('.') == std::string::npos ? slurm::SnakeCase(column) : column;
    if (name == "partition" || name == "partition_name") partition_ = columns_.size();
    if (!context_.time_column.empty() && name == context_.time_column) time_ = columns_.size();
    const ColumnType type = TypeOf(kind, name);
    columns_.push_back({name.empty() ? std::string() : std::string(kind.desc->prefix) + name, type});
  }
}

Event RecordMaker::Make(std::span<const std::string_view> values, Instant now) const {
  RecordAttributes out;
  std::string_view partition;
  std::optional<int64_t> at;
  for (size_t i = 0; i < columns_.size() && i < values.size(); ++i) {
    if (columns_[i].key.empty() || slurm::IsAbsent(values[i])) continue;
    AddValue(out, columns_[i].key, columns_[i].type, values[i], context_.utc);
    if (partition_ == i) partition = values[i];
    if (time_ == i && context_.utc) at = slurm::ParseTime(values[i]);
  }
  if (!context_.cluster.empty()) {
    out.Text(kRecordCluster, context_.cluster);
    if (partition.ends_with('*')) partition.remove_suffix(1);
    if (context_.derive_cluster && !partition.empty())
      out.Text(kRecordDerivedCluster, context_.cluster + "." + std::string(partition));
  }
  Event event;
  event.at = now;
  // Of a past event only the wall clock is known, not the boot time.
  if (at) event.at.unix_ns = *at * 1'000'000'000;
  event.name = kind_.desc->name;
  event.attributes = out.Make();
  event.severity = EventSeverity::kInfo;
  return event;
}

Status RecordSender::Add(Event record) {
  if (!failed_) return failed_;
  batch_.list.push_back(std::move(record));
  return batch_.list.size() < kBatch ? Ok() : Send();
}

Status RecordSender::Send() {
  if (!failed_ || batch_.list.empty()) return failed_;
  batch_.resource = resource_;
  const size_t count = batch_.list.size();
  failed_ = sink_.Write(batch_);
  batch_.list.clear();
  if (failed_) sent_ += count;
  return failed_;
}

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
