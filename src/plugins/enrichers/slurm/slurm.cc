#include "plugins/enrichers/slurm/slurm.h"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/parse.h"
#include "base/result.h"
#include "sources/slurm/delimiter.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/parse/words.h"

namespace gpulens::slurm {
namespace {

// A job whose controller did not answer is asked for again after a while, not every time.
constexpr Duration kQueryAgain = std::chrono::seconds(60);
constexpr size_t kMostQueried = 16;  // in one look
constexpr size_t kMostWanted = 4096;
constexpr size_t kMostOutput = 1u << 20;
constexpr Duration kReserve = std::chrono::milliseconds(200);

std::optional<int64_t> IntOf(const Entity& entity, std::string_view key) {
  const AttributeSet::Value value = entity.attributes.Find(key, false);
  const int64_t* number = std::get_if<int64_t>(&value);
  return number ? std::optional(*number) : std::nullopt;
}

bool IsTrue(const Entity& entity, std::string_view key) {
  const AttributeSet::Value value = entity.attributes.Find(key, false);
  const bool* truth = std::get_if<bool>(&value);
  return truth && *truth;
}

const Entity* GpuOf(const Entity& entity) {
  for (const Entity* at = &entity; at; at = at->parent.get()) {
    if (at->type == "gpu") return at;
  }
  return nullptr;
}

bool IsHere(const std::string& root, int64_t pid) {
  const std::string path = (root == "/" ? "" : root) + "/proc/" + std::to_string(pid);
  return ::access(path.c_str(), F_OK) == 0;
}

JobFacts FactsOf(const Job& job, const std::string& node) {
  JobFacts facts;
  facts.name = job.name;
  facts.user = job.user;
  facts.account = job.account;
  facts.partition = job.partition;
  facts.qos = job.qos;
  if (job.array_job) facts.array_job = std::to_string(*job.array_job);
  facts.array_task = job.array_task;
  if (job.node_count) facts.nodes = std::to_string(*job.node_count);
  if (job.running()) facts.gpus = GpusOn(job, node);
  return facts;
}

}  // namespace

JobEnricher::JobEnricher(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), background_([this](Instant deadline) { Look(deadline); }) {
  Programs::Options programs{options_.programs, options_.call_timeout, kMostOutput, background_.stop_fd()};
  programs_.emplace(std::move(programs), clock_);
  static_cast<void>(background_.Start());
}

void JobEnricher::Fetch(Instant deadline, std::function<void(Status)> done) {
  background_.Request(deadline + -kReserve, [this, done = std::move(done)] { done(status_); });
}

AttributeSet JobEnricher::Describe(const Entity& entity) const {
  const Entity* gpu = GpuOf(entity);
  if (gpu && IsTrue(*gpu, "simulated")) return {};
  for (const Entity* at = &entity; at; at = at->parent.get()) {
    if (at->type == "process") return DescribeProcess(*at, gpu);
    // Of a part of a GPU only its processes tell whose it is.
    if (at->type == "mig" || at->type == "gpu.partition" || at->type == "vgpu") return {};
    if (at->type == "gpu") return DescribeGpu(*at);
  }
  return {};
}

AttributeSet JobEnricher::DescribeProcess(const Entity& process, const Entity* gpu) const {
  const std::optional<int64_t> pid = IntOf(process, "process.pid");
  if (!pid || *pid <= 0) return {};
  const int64_t index = gpu ? IntOf(*gpu, "gpu.index").value_or(-1) : -1;
  std::lock_guard lock(mutex_);
  if (wanted_.size() < kMostWanted) wanted_[*pid] = static_cast<int>(index);
  auto at = answers_.processes.find(*pid);
  return at == answers_.processes.end() ? AttributeSet() : at->second;
}

AttributeSet JobEnricher::DescribeGpu(const Entity& gpu) const {
  const std::optional<int64_t> index = IntOf(gpu, "gpu.index");
  if (!index) return {};
  const std::optional<int> file = ParseInt<int>(gpu.facts.Text("gpu.minor"));
  std::lock_guard lock(mutex_);
  if (file && files_.size() < kMostWanted) files_[static_cast<int>(*index)] = *file;
  const auto& answers = IsTrue(gpu, "gpu.mig.enabled") ? answers_.used : answers_.gpus;
  auto at = answers.find(static_cast<int>(*index));
  return at == answers.end() ? AttributeSet() : at->second;
}

void JobEnricher::Look(Instant deadline) {
  Evidence evidence = Gather();
  status_ = QueryController(evidence, deadline);
  Answers answers = Answer(evidence);
  std::lock_guard lock(mutex_);
  if (answers == answers_) return;
  answers_ = std::move(answers);
  generation_.fetch_add(1, std::memory_order_relaxed);
}

Evidence JobEnricher::Gather() {
  Evidence evidence;
  std::map<int64_t, int> wanted;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(wanted_, [&](const auto& entry) { return !IsHere(options_.root, entry.first); });
    wanted = wanted_;
    evidence.files = files_;
  }
  for (const auto& [pid, gpu] : wanted) {
    std::optional<ProcessJob> job = JobOfProcess(options_.root, pid);
    if (!job) continue;
    evidence.jobs[job->job].Add(job->facts);
    evidence.processes[pid] = {gpu, std::move(*job)};
  }
  for (uint64_t job : LocalJobs(options_.root)) evidence.jobs[job];
  if (!options_.mapping.empty()) {
    if (auto mapping = ReadJobMapping(options_.mapping)) evidence.mapping = std::move(*mapping);
  }
  for (const auto& [index, ids] : evidence.mapping) {
    for (const std::string& id : ids) {
      if (auto number = ParseInt<uint64_t>(id); number && *number != 0) evidence.jobs[*number];
    }
  }
  return evidence;
}

// What the controller says stands above what a job's processes say.
Status JobEnricher::QueryController(Evidence& evidence, Instant deadline) {
  std::erase_if(queried_, [&](const auto& entry) { return !evidence.jobs.contains(entry.first); });
  std::string node = options_.node_name;
  for (const auto& [id, facts] : evidence.jobs) {
    if (node.empty()) node = facts.node_name;
  }
  if (node.empty()) node = options_.host_name.substr(0, options_.host_name.find('.'));
  Status failed;
  size_t asked = 0;
  for (auto& [id, facts] : evidence.jobs) {
    auto known = queried_.find(id);
    const Duration left = deadline - clock_.Now();
    const bool again =
        known == queried_.end() || (!known->second.told && clock_.Now() - known->second.at > kQueryAgain);
    if (options_.scontrol && again && failed && asked < kMostQueried && left.count() > 0) {
      ++asked;
      Result<Queried> said = QueryOne(id, node, deadline);
      if (!said) failed = said.error();
      known = queried_.insert_or_assign(id, said ? *said : Queried{false, false, clock_.Now(), {}}).first;
    }
    if (known == queried_.end() || !known->second.told) continue;
    JobFacts strong = known->second.facts;
    strong.Add(facts);
    facts = std::move(strong);
  }
  const auto unclear =
      std::ranges::count_if(queried_, [](const auto& entry) { return entry.second.unclear; });
  unclear_.store(static_cast<uint64_t>(unclear), std::memory_order_relaxed);
  // Without scontrol there is less to tell, and that is no fault.
  return failed.code == Code::kUnavailable ? Ok() : failed;
}

// What scontrol says of one job, asked for by this name: a number, or "12_3" of an array. Nothing: not of
// this job alone, or not beyond doubt.
Result<std::optional<Job>> JobEnricher::QueryScontrol(uint64_t job, const std::string& name,
                                                      Instant deadline) {
  ASSIGN_OR_RETURN(std::string text,
                   programs_->Run("scontrol", {"show", "job", "-d", name}, deadline - clock_.Now()));
  std::vector<Job> told = ParseJobs(text);
  if (told.empty()) return Status{Code::kDataLoss, "scontrol printed nothing about job " + name};
  if (told.size() != 1 || told.front().id != job || told.front().ambiguous) return std::optional<Job>();
  return std::optional<Job>(std::move(told.front()));
}

// The same of squeue, which tells no indices of GPUs.
Result<std::optional<Job>> JobEnricher::QueryQueue(uint64_t job, Instant deadline) {
  constexpr std::string_view kColumns[] = {"JobID", "Name",  "UserName", "Account",    "Partition",
                                           "QOS",   "State", "NumNodes", "ArrayJobID", "ArrayTaskID"};
  const std::string delimiter = MakeDelimiter();
  std::string format;
  for (std::string_view column : kColumns)
    format += (format.empty() ? "" : ",") + std::string(column) + ":" + delimiter;
  ASSIGN_OR_RETURN(
      std::string text,
      programs_->Run("squeue", {"--all", "--array", "--noheader", "-j", std::to_string(job), "-O", format},
                     deadline - clock_.Now()));
  ASSIGN_OR_RETURN(Table table, ParseRows(text, delimiter, kColumns));
  for (size_t row = 0; row < table.rows.size(); ++row) {
    if (ParseInt<uint64_t>(table.At(row, "JobID")) != job) continue;
    auto text_of = [&](std::string_view column) {
      std::string_view value = table.At(row, column);
      return SaysNothing(value) ? std::string() : CleanText(value);
    };
    Job out;
    out.id = job;
    out.name = text_of("Name");
    out.user = text_of("UserName");
    out.account = text_of("Account");
    out.partition = text_of("Partition");
    out.qos = text_of("QOS");
    out.state = text_of("State");
    out.node_count = ParseInt<int64_t>(table.At(row, "NumNodes"));
    out.array_task = text_of("ArrayTaskID");
    if (!out.array_task.empty()) out.array_job = ParseInt<uint64_t>(table.At(row, "ArrayJobID"));
    return std::optional<Job>(std::move(out));
  }
  return std::optional<Job>();
}

Result<JobEnricher::Queried> JobEnricher::QueryOne(uint64_t job, const std::string& node, Instant deadline) {
  ASSIGN_OR_RETURN(std::optional<Job> told, QueryScontrol(job, std::to_string(job), deadline));
  if (told) return Queried{true, false, clock_.Now(), FactsOf(*told, node)};
  // An array's first job is asked for with all its tasks, or a text of the user passes for lines of scontrol.
  Queried out{true, true, clock_.Now(), {}};
  Result<std::optional<Job>> queued = QueryQueue(job, deadline);
  if (!queued && queued.error().code != Code::kUnavailable) return std::move(queued).error();
  if (!queued || !*queued) return out;
  const Job& known = **queued;
  if (known.array_job && !known.array_task.empty()) {
    auto task = QueryScontrol(job, std::to_string(*known.array_job) + "_" + known.array_task, deadline);
    if (task && *task) return Queried{true, false, clock_.Now(), FactsOf(**task, node)};
  }
  out.facts = FactsOf(known, node);
  return out;
}

}  // namespace gpulens::slurm
