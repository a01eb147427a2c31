#include "plugins/collectors/slurm/cluster.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "base/threads.h"
#include "catalog/slurm.h"
#include "plugins/plugin.h"
#include "sources/slurm/parse/words.h"

namespace gpulens {
namespace {

// Names of accounts and partitions come from outside.
constexpr size_t kMostAccounts = 10'000, kMostPartitions = 1000;

constexpr std::string_view kUp[] = {"allocated", "mixed",   "idle",    "completing",
                                    "draining",  "failing", "planned", "reserved"};
constexpr std::string_view kDown[] = {"down",
                                      "drained",
                                      "maint",
                                      "fail",
                                      "future",
                                      "inval",
                                      "perfctrs",
                                      "powered_down",
                                      "powering_down",
                                      "powering_up",
                                      "reboot",
                                      "reboot_issued",
                                      "reboot_requested",
                                      "power_down",
                                      "power_up",
                                      "blocked",
                                      "unknown",
                                      "error"};

// "1/1/0/2" as allocated, idle, other.
struct Cpus {
  double allocated = 0, idle = 0, other = 0;
};
std::optional<Cpus> ParseCpus(std::string_view text) {
  std::optional<double> parts[4];
  for (auto& part : parts) part = slurm::ParseCount(TakeUntil(text, '/'));
  if (!parts[0] || !parts[1] || !parts[2] || !parts[3]) return std::nullopt;
  return Cpus{*parts[0], *parts[1], *parts[2]};
}

// In an unknown state of a node, only the used GPUs are known.
void AddGpus(StateAmounts& to, double all, double used, std::optional<bool> up) {
  to["allocated"] += used;
  if (up) to[*up ? "idle" : "down"] += std::max(0.0, all - used);
}

// The GPUs of a job: the allocated ones, else those requested on each node.
double GpusOf(const slurm::SlurmTable& table, size_t row, double nodes) {
  if (auto have = slurm::TresOf(table.At(row, "tres_alloc"), "gres/gpu")) return *have;
  std::optional<double> each = slurm::GresCount(table.At(row, "tres_per_node"), "gpu");
  return each.value_or(0) * nodes;
}

template <typename Map>
typename Map::mapped_type* Entry(Map& map, std::string_view name, size_t most) {
  auto at = map.find(name);
  if (at == map.end() && map.size() >= most) return nullptr;
  return at != map.end() ? &at->second : &map[slurm::CleanText(name)];
}

std::string_view Bare(std::string_view partition) {
  if (partition.ends_with('*')) partition.remove_suffix(1);
  return partition;
}

// Arguments of -O; the columns are kQueueColumns and kNodeColumns.
constexpr std::string_view kQueueFields[] = {"JobID",   "State",    "UserName",   "Account",      "Partition",
                                             "NumCPUs", "NumNodes", "tres-alloc", "tres-per-node"};
constexpr std::string_view kNodeFields[] = {"NodeList",  "Gres",      "GresUsed",
                                            "CPUsState", "StateLong", "PartitionName"};

constexpr const char* kEndedFields = "JobIDRaw,State,Submit,Start,End,ElapsedRaw,Suspended,AllocTRES";

std::string FormatOf(std::span<const std::string_view> fields, std::string_view delimiter) {
  std::string out;
  for (std::string_view field : fields)
    ((out += out.empty() ? "" : ",") += field) += ":" + std::string(delimiter);
  return out;
}

// Whether a program failed with these words: about an unknown option, or without a database.
bool Mentions(const Status& status, std::string_view words) {
  return status.detail.find(words) != std::string::npos;
}

constexpr std::string_view kNodeState = "slurm.node.state", kCpuState = "slurm.cpu.state",
                           kGpuState = "slurm.gpu.state", kJobState = "slurm.job.state",
                           kJobEvent = "slurm.job.event";
constexpr double kMicro = 1e-6;

struct DiagnosisRow {
  const MetricDesc* desc;
  std::optional<double> slurm::Sdiag::* member;
  double scale = 1;
};
constexpr DiagnosisRow kDiagnosis[] = {
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

constexpr std::pair<const char*, std::optional<double> slurm::Sdiag::*> kJobEvents[] = {
    {"submitted", &slurm::Sdiag::jobs_submitted},
    {"started", &slurm::Sdiag::jobs_started},
    {"completed", &slurm::Sdiag::jobs_completed},
    {"canceled", &slurm::Sdiag::jobs_canceled},
    {"failed", &slurm::Sdiag::jobs_failed}};

void Put(FrameWriter& out, Series series, const MetricDesc& desc, double value) {
  if (desc.number == Number::kInt) out.SetInt(series, static_cast<int64_t>(value));
  else out.Set(series, value);
}

}  // namespace

void SampleSpreadBuilder::Add(double value) noexcept {
  count_ += 1;
  const double step = value - mean_;
  mean_ += step / count_;
  squares_ += step * (value - mean_);
}

SampleSpread SampleSpreadBuilder::Make() const noexcept {
  SampleSpread out;
  if (count_ >= 1) out.mean = mean_;
  if (count_ >= 2) out.deviation = std::sqrt(squares_ / (count_ - 1));
  return out;
}

std::string PlainState(std::string_view state) {
  std::string out;
  for (char c : Trim(state)) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool word = (c >= 'a' && c <= 'z') || c == '_';
    // "CANCELLED by 1000", "drained*", "mixed+drain", "idle~".
    if (!word) break;
    out += c;
  }
  return out;
}

std::optional<bool> IsUp(std::string_view plain_state) noexcept {
  if (std::ranges::find(kUp, plain_state) != std::end(kUp)) return true;
  if (std::ranges::find(kDown, plain_state) != std::end(kDown)) return false;
  return std::nullopt;
}

NodeNumbers AddUpNodes(const slurm::SlurmTable& table, PartitionTable& partitions) {
  NodeNumbers out;
  std::set<std::string, std::less<>> seen;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::string_view printed = table.At(row, "state");
    std::string state = PlainState(printed);
    const std::optional<bool> up = IsUp(state);
    if (!up) state = "unknown";
    const std::optional<Cpus> cpus = ParseCpus(table.At(row, "cpus"));
    const std::optional<double> gpus = slurm::GresCount(table.At(row, "gres"), "gpu");
    const std::optional<double> used = slurm::GresCount(table.At(row, "gres_used"), "gpu");
    auto add = [&](auto& to) {
      to.nodes[state] += 1;
      if (gpus && used) AddGpus(to.gpus, *gpus, *used, up);
      if (!cpus) return;
      to.cpus["allocated"] += cpus->allocated;
      to.cpus["idle"] += cpus->idle;
      to.cpus["other"] += cpus->other;
    };
    if (auto* partition = Entry(partitions, Bare(table.At(row, "partition")), kMostPartitions))
      add(*partition);
    if (!seen.emplace(table.At(row, "node")).second) continue;
    add(out);
    out.down += up.has_value() && !*up;
    out.silent += printed.find('*') != std::string_view::npos;
  }
  return out;
}

QueueNumbers AddUpQueue(const slurm::SlurmTable& table, PartitionTable& partitions) {
  QueueNumbers out;
  std::map<std::string, double, std::less<>> running_of;
  std::set<std::string, std::less<>> queued;
  double running = 0, distributed = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::string state = PlainState(table.At(row, "state"));
    if (state.empty()) continue;
    const double nodes = slurm::ParseCount(table.At(row, "nodes")).value_or(0);
    const double cpus = slurm::ParseCount(table.At(row, "cpus")).value_or(0);
    const double gpus = GpusOf(table, row, nodes);
    const std::string_view user = table.At(row, "user"), account = table.At(row, "account");
    const bool runs = state == "running";
    out.jobs[state] += 1;
    out.cpus[state] += cpus;
    out.gpus[state] += gpus;
    out.nodes[state] += nodes;
    running += runs;
    distributed += runs && nodes > 1;
    if (slurm::IsAbsent(user) || user == "nobody") {
      out.without_user += 1;
    } else if (runs || state == "pending") {
      queued.emplace(user);
      if (runs) running_of[std::string(user)] += 1;
    }
    // A waiting job may name several partitions; it counts in the first.
    std::string_view first = table.At(row, "partition");
    if (auto* partition = Entry(partitions, TakeUntil(first, ','), kMostPartitions))
      partition->jobs[state] += 1;
    if (slurm::IsAbsent(account)) continue;
    AccountNumbers* of = Entry(out.accounts, account, kMostAccounts);
    if (!of) continue;
    of->jobs[state] += 1;
    if (!runs) continue;
    of->cpus += cpus;
    of->gpus += gpus;
    of->nodes += nodes;
  }
  SampleSpreadBuilder per_user;
  for (const auto& [user, count] : running_of) per_user.Add(count);
  out.jobs_per_user = per_user.Make();
  out.active_users = static_cast<double>(running_of.size());
  out.queued_users = static_cast<double>(queued.size());
  if (running > 0) out.distributed = distributed / running;
  return out;
}

EndedNumbers AddUpEnded(const slurm::SlurmTable& table, int64_t from, int64_t to) {
  EndedNumbers out;
  SampleSpreadBuilder runtime, wait, suspended;
  double seconds = 0, cpu_seconds = 0, gpu_seconds = 0;
  for (size_t row = 0; row < table.rows.size(); ++row) {
    const std::optional<int64_t> end = slurm::ParseTime(table.At(row, "End"));
    const std::string state = PlainState(table.At(row, "State"));
    if (!end || *end < from || *end >= to || state.empty()) continue;
    out.jobs[state] += 1;
    const std::optional<int64_t> start = slurm::ParseTime(table.At(row, "Start"));
    const std::optional<int64_t> submit = slurm::ParseTime(table.At(row, "Submit"));
    if (start && submit && *start >= *submit) wait.Add(static_cast<double>(*start - *submit));
    if (auto held = slurm::ParseSpan(table.At(row, "Suspended"))) suspended.Add(*held);
    std::optional<double> ran = slurm::ParseCount(table.At(row, "ElapsedRaw"));
    if (!ran) continue;
    runtime.Add(*ran);
    const std::string_view tres = table.At(row, "AllocTRES");
    seconds += *ran;
    cpu_seconds += *ran * slurm::TresOf(tres, "cpu").value_or(0);
    gpu_seconds += *ran * slurm::TresOf(tres, "gres/gpu").value_or(0);
  }
  out.runtime = runtime.Make();
  out.wait = wait.Make();
  out.suspended = suspended.Make();
  if (seconds > 0) {
    out.mean_cpus = cpu_seconds / seconds;
    out.mean_gpus = gpu_seconds / seconds;
  }
  return out;
}

Result<std::string> ClusterReader::Run(const char* program, std::vector<std::string> arguments,
                                       Instant deadline) {
  const Duration left = deadline - clock_.Now();
  if (left.count() <= 0) return Status{Code::kTimeout, "no time was left for " + std::string(program)};
  return programs_.Run(program, std::move(arguments), left);
}

ClusterReading ClusterReader::Read(Instant deadline) {
  ClusterReading out;
  out.at = clock_.Now();
  for (auto part : {&ClusterReader::ReadNodes, &ClusterReader::ReadQueue, &ClusterReader::ReadDiagnosis,
                    &ClusterReader::ReadEnded}) {
    Status status = (this->*part)(out, deadline);
    if (!status && out.status) out.status = std::move(status);
  }
  return out;
}

Result<slurm::SlurmTable> ClusterReader::ReadTable(const char* program, std::vector<std::string> arguments,
                                                   std::span<const std::string_view> fields,
                                                   std::span<const std::string_view> columns,
                                                   Instant deadline) {
  const std::string delimiter = slurm::MakeDelimiter();
  arguments.insert(arguments.end(), {"-O", FormatOf(fields, delimiter)});
  ASSIGN_OR_RETURN(std::string text, Run(program, std::move(arguments), deadline));
  return slurm::ParseRows(text, delimiter, columns);
}

Status ClusterReader::ReadNodes(ClusterReading& out, Instant deadline) {
  ASSIGN_OR_RETURN(slurm::SlurmTable table,
                   ReadTable("sinfo", {"-N", "-h"}, kNodeFields, kNodeColumns, deadline));
  out.nodes = AddUpNodes(table, out.partitions);
  return Ok();
}

Status ClusterReader::ReadQueue(ClusterReading& out, Instant deadline) {
  ASSIGN_OR_RETURN(slurm::SlurmTable table,
                   ReadTable("squeue", {"--all", "--array", "-h"}, kQueueFields, kQueueColumns, deadline));
  out.queue = AddUpQueue(table, out.partitions);
  return Ok();
}

Status ClusterReader::ReadDiagnosis(ClusterReading& out, Instant deadline) {
  if (!no_json_) {
    Result<std::string> text = Run("sdiag", {"--all", "--json"}, deadline);
    if (text) {
      ASSIGN_OR_RETURN(out.diagnosis, slurm::ParseSdiagJson(*text));
      return Ok();
    }
    no_json_ = Mentions(text.error(), "option");
    if (!no_json_) return text.error();
  }
  ASSIGN_OR_RETURN(std::string text, Run("sdiag", {"--all"}, deadline));
  ASSIGN_OR_RETURN(out.diagnosis, slurm::ParseSdiagText(text));
  return Ok();
}

// Without an accounting database there are no ended jobs, and that is not a failure.
Status ClusterReader::ReadEnded(ClusterReading& out, Instant deadline) {
  if (no_accounting_) return Ok();
  const int64_t now = clock_.Now().unix_ns / 1'000'000'000;
  const std::string delimiter = slurm::MakeDelimiter();
  const int64_t from = now - std::chrono::duration_cast<std::chrono::seconds>(window_).count();
  Result<std::string> text =
      Run("sacct",
          {"-a", "-X", "-P", "--delimiter=" + delimiter, "--duplicates", "--noconvert", "-S",
           slurm::TimeText(from), "-E", slurm::TimeText(now), "-o", kEndedFields},
          deadline);
  if (!text) {
    no_accounting_ =
        Mentions(text.error(), "accounting storage is disabled") || text.error().code == Code::kUnavailable;
    return no_accounting_ ? Ok() : text.error();
  }
  ASSIGN_OR_RETURN(slurm::SlurmTable table, slurm::ParseTable(*text, delimiter));
  out.ended = AddUpEnded(table, from, now);
  return Ok();
}

void StateSeries::Write(const StateAmounts& amounts, const EntityRef& entity, FrameWriter& out) {
  for (const auto& [state, value] : amounts) {
    auto at = by_state_.find(state);
    if (at == by_state_.end()) {
      Series series = out.table().Declare(desc_, entity, {{key_, state}});
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
                   : MakeRef<Entity>("slurm_cluster", AttributeSet({{"slurm.cluster.name", cluster}}))),
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
  // An incomplete reading does not show that a partition has ended.
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

void ClusterSeries::WriteDiagnosis(const slurm::Sdiag& diagnosis, FrameWriter& out) {
  for (const DiagnosisRow& row : kDiagnosis) {
    const std::optional<double>& value = diagnosis.*row.member;
    Set(*row.desc, value ? std::optional(*value * row.scale) : std::nullopt, out);
  }
  for (const auto& [event, member] : kJobEvents) {
    if (diagnosis.*member) job_events_[event] = *(diagnosis.*member);
  }
  events_.Write(job_events_, cluster_, out);
}

// Retires the elements that were not written in this round.
template <class Map>
void ClusterSeries::RetireOld(Map& map, FrameWriter& out) {
  std::erase_if(map, [&](const auto& entry) {
    if (entry.second.round == round_) return false;
    out.table().Retire(entry.second.entity);
    return true;
  });
}

void ClusterSeries::WritePartitions(const ClusterReading& reading, FrameWriter& out) {
  for (const auto& [name, numbers] : reading.partitions) {
    auto at = partitions_.find(name);
    if (at == partitions_.end()) {
      Partition fresh{
          MakeRef<Entity>("slurm_partition", AttributeSet({{"slurm.partition.name", name}}), cluster_),
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
  RetireOld(partitions_, out);
}

void ClusterSeries::WriteAccounts(const QueueNumbers& queue, FrameWriter& out) {
  for (const auto& [name, numbers] : queue.accounts) {
    auto at = accounts_.find(name);
    if (at == accounts_.end()) {
      Account fresh{MakeRef<Entity>("slurm_account", AttributeSet({{"slurm.account.name", name}}), cluster_),
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
  RetireOld(accounts_, out);
}

namespace {

using std::chrono::seconds;

// Reserved of a run's time for writing values.
constexpr Duration kReserve = std::chrono::milliseconds(300);
constexpr size_t kMostOutput = size_t{256} << 20;

constexpr OptionSpec kOptions[] = {
    BoolOption("watch_cluster", false,
               "Query the controller for the whole cluster; one agent per cluster is enough."),
    TextOption("cluster_name", {}, "slurm.cluster.name of every series; empty: no such attribute."),
    TextOption("programs", {}, "The folder of Slurm's programs; empty: those in PATH."),
    TimeOption("call_timeout", "30s", "Timeout of one run of a program, which is then killed.", 0.05),
    TimeOption("window", "5m", "slurm.ended.* cover jobs that ended within this time.", 1, 86400),
};
using Options = OptionsOf<kOptions>;

class SlurmCollector final : public Collector {
 public:
  SlurmCollector(const Options& options, const Clock& clock)
      : series_(options.Text("cluster_name")),
        background_([this](Instant deadline) { reading_ = reader_->Read(deadline); }) {
    slurm::SlurmPrograms::Options programs{options.Text("programs"), options.Time("call_timeout"),
                                           kMostOutput, background_.stop_fd()};
    reader_.emplace(std::move(programs), options.Time("window"), clock);
    static_cast<void>(background_.Start());
  }

  bool fetches() const noexcept override { return true; }
  void Fetch(Instant deadline, std::function<void(Status)> done) override {
    background_.Request(deadline + -kReserve, [done = std::move(done)] { done(Ok()); });
  }
  Status Collect(FrameWriter& out) override {
    const Instant begun = out.read_at();
    series_.Write(reading_, out);
    out.ReadAt(begun);
    return reading_.status;
  }

 private:
  ClusterReading reading_;
  std::optional<ClusterReader> reader_;
  ClusterSeries series_;
  Background background_;  // last: its thread ends before what it uses
};

std::string SinfoOf(const Options& options) {
  const std::string& folder = options.Text("programs");
  return folder.empty() ? "sinfo" : folder + "/sinfo";
}

// As Create decides in an agent, which alone is confined.
void NeededRights(const Config& config, const Env&, Rights& out) {
  const Options options(config);
  if (!options.Bool("watch_cluster")) return;
  const std::string& folder = options.Text("programs");
  const auto allow = [&](const char* program, std::vector<std::string> arguments,
                         std::vector<std::string> prefixes) {
    slurm::AllowProgram(folder, program, std::move(arguments), std::move(prefixes), out.programs);
  };
  const auto format = [](std::span<const std::string_view> fields) {
    return std::string(fields.front()) + ":" + std::string(slurm::kDelimiterStart);
  };
  allow("sinfo", {"-N", "-h", "-O"}, {format(kNodeFields)});
  allow("squeue", {"--all", "--array", "-h", "-O"}, {format(kQueueFields)});
  allow("sdiag", {"--all", "--json"}, {});
  std::vector<std::string> times = slurm::Digits();
  times.push_back("--delimiter=" + std::string(slurm::kDelimiterStart));
  allow("sacct", {"-a", "-X", "-P", "--duplicates", "--noconvert", "-S", "-E", "-o", kEndedFields},
        std::move(times));
}

constexpr std::string_view kOneIsEnough = "cluster metrics are disabled, as one agent per cluster is enough";
constexpr std::string_view kRemedy = "collectors: {slurm: {watch_cluster: true}}";

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  // In an agent each of a thousand nodes would query the same controller.
  if (env.stats && !Options(config).Bool("watch_cluster"))
    return Status{Code::kUnavailable, std::string(kOneIsEnough) + ": " + std::string(kRemedy)};
  if (auto program = ResolveProgram(SinfoOf(config)); !program) return program.error();
  return std::unique_ptr<Collector>(std::make_unique<SlurmCollector>(config, *env.clock));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  Finding finding;
  finding.subject = "slurm";
  auto program = ResolveProgram(SinfoOf(config));
  if (!program) {
    finding.kind =
        program.error().code == Code::kPermissionDenied ? Finding::kNoPermission : Finding::kNotHere;
    finding.why = program.error().detail;
    return {finding};
  }
  finding.what = *program;
  if (!Options(config).Bool("watch_cluster")) {
    finding.kind = Finding::kNotHere;
    finding.why = kOneIsEnough;
    finding.remedy = kRemedy;
  }
  return {finding};
}

}  // namespace

extern const CollectorSpec slurm_collector;
const CollectorSpec slurm_collector{.name = "slurm",
                                    .help = "A Slurm cluster, through its programs.",
                                    .period = seconds(300),
                                    .ttl = seconds(900),
                                    .options = kOptions,
                                    .metrics = kSlurmRows,
                                    .create = &Create,
                                    .probe = &Probe,
                                    .rights = &NeededRights};

}  // namespace gpulens
