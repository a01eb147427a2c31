#include "plugins/enrichers/slurm/slurm.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/host_name.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "sources/slurm/parse/table.h"
#include "sources/slurm/parse/words.h"

namespace gpulens::slurm {
namespace {

using Attribute = AttributeSet::Attribute;
using Ids = std::set<std::string>;

constexpr std::pair<std::string_view, std::string JobFacts::*> kKeys[] = {
    {"slurm.job.name", &JobFacts::name},
    {"slurm.job.user", &JobFacts::user},
    {"slurm.job.account", &JobFacts::account},
    {"slurm.job.partition", &JobFacts::partition},
    {"slurm.job.qos", &JobFacts::qos},
    {"slurm.array.job.id", &JobFacts::array_job},
    {"slurm.array.task.id", &JobFacts::array_task},
    {"slurm.job.nodes", &JobFacts::nodes}};

AttributeSet Describe(const std::string& id, const JobFacts* facts, const std::string& step) {
  std::vector<Attribute> out = {{"slurm.job.id", id}};
  if (!step.empty()) out.push_back({"slurm.job.step", step});
  for (const auto& [key, member] : kKeys) {
    if (facts && !(facts->*member).empty()) out.push_back({key, facts->*member});
  }
  return AttributeSet(out);
}

const JobFacts* FactsOf(const JobEvidence& evidence, const std::string& id) {
  std::optional<uint64_t> number = ParseInt<uint64_t>(id);
  auto at = number ? evidence.jobs.find(*number) : evidence.jobs.end();
  return at == evidence.jobs.end() ? nullptr : &at->second;
}

std::string ListOf(const Ids& ids) {
  std::string out;
  for (const std::string& id : ids) out += (out.empty() ? "" : ",") + id;
  return out;
}

// Of a board whose slices these jobs use: its readings belong to none of them alone.
AttributeSet DescribeSliced(const Ids& ids) {
  const std::string names = ListOf(ids);
  return AttributeSet({{"gpu.allocation", "shared"}, {"slurm.job.ids", names}});
}

AttributeSet DescribeAll(const JobEvidence& evidence, const Ids& ids) {
  if (ids.empty()) return {};
  AttributeSet first = Describe(*ids.begin(), FactsOf(evidence, *ids.begin()), {});
  if (ids.size() == 1) return first;
  const std::string names = ListOf(ids);
  std::vector<Attribute> common = {{"gpu.allocation", "shared"}, {"slurm.job.ids", names}};
  std::vector<AttributeSet> others;
  for (auto at = std::next(ids.begin()); at != ids.end(); ++at)
    others.push_back(Describe(*at, FactsOf(evidence, *at), {}));
  for (auto [key, value] : first) {
    const bool all = std::ranges::all_of(
        others, [&](const AttributeSet& other) { return other.Has(key) && other.Find(key, false) == value; });
    if (all) common.push_back({key, value});
  }
  return AttributeSet(common);
}

// Jobs of one GPU by source: a prolog, Slurm's lists, control groups, environments.
struct GpuJobs {
  Ids mapped, listed, seen, claimed;

  const Ids& Users() const { return !seen.empty() ? seen : claimed; }
  const Ids& Holders() const {
    const Ids& stated = !mapped.empty() ? mapped : listed;
    // All known users must be among the holders.
    return stated.empty() || !std::ranges::includes(stated, seen) ? Users() : stated;
  }
};

// Returns the GPU at a position in Slurm's list; none where another GPU is known to have its number.
std::optional<int> IndexOf(const JobEvidence& evidence, int place) {
  for (const auto& [index, file] : evidence.files) {
    if (file == place) return index;
  }
  return evidence.files.contains(place) ? std::nullopt : std::optional(place);
}

// Pause before a job without an answer is queried again.
constexpr Duration kQueryAgain = std::chrono::seconds(60);
constexpr size_t kMostQueried = 16;  // in one scan
constexpr size_t kMostDescribed = 4096;
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

JobAnswers Answer(const JobEvidence& evidence) {
  JobAnswers out;
  std::map<int, GpuJobs> jobs;
  for (const auto& [pid, process] : evidence.processes) {
    const std::string id = std::to_string(process.job.job);
    JobFacts facts = process.job.facts;
    if (const JobFacts* known = FactsOf(evidence, id)) {
      facts = *known;
      facts.Add(process.job.facts);
    }
    out.processes[pid] = Describe(id, &facts, process.job.step);
    if (process.gpu < 0) continue;
    GpuJobs& gpu = jobs[process.gpu];
    (process.job.by_cgroup ? gpu.seen : gpu.claimed).insert(id);
  }
  for (const auto& [index, ids] : evidence.mapping) jobs[index].mapped.insert(ids.begin(), ids.end());
  for (const auto& [id, facts] : evidence.jobs) {
    for (int place : facts.gpus.value_or(std::vector<int>())) {
      if (auto index = IndexOf(evidence, place)) jobs[*index].listed.insert(std::to_string(id));
    }
  }
  for (const auto& [index, gpu] : jobs) {
    out.gpus[index] = DescribeAll(evidence, gpu.Holders());
    if (const Ids users = gpu.Users(); !users.empty()) out.used[index] = DescribeSliced(users);
  }
  return out;
}

JobEnricher::JobEnricher(Options options, const Clock& clock)
    : options_(std::move(options)), clock_(clock), background_([this](Instant deadline) { Scan(deadline); }) {
  SlurmPrograms::Options programs{options_.programs, options_.call_timeout, kMostOutput,
                                  background_.stop_fd()};
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
    // Of a part of a GPU only the processes are known.
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
  if (described_.size() < kMostDescribed) described_[*pid] = static_cast<int>(index);
  auto at = answers_.processes.find(*pid);
  return at == answers_.processes.end() ? AttributeSet() : at->second;
}

AttributeSet JobEnricher::DescribeGpu(const Entity& gpu) const {
  const std::optional<int64_t> index = IntOf(gpu, "gpu.index");
  if (!index) return {};
  const std::optional<int> file = ParseInt<int>(gpu.facts.Text("gpu.minor"));
  std::lock_guard lock(mutex_);
  if (file && files_.size() < kMostDescribed) files_[static_cast<int>(*index)] = *file;
  const auto& answers = IsTrue(gpu, "gpu.mig.enabled") ? answers_.used : answers_.gpus;
  auto at = answers.find(static_cast<int>(*index));
  return at == answers.end() ? AttributeSet() : at->second;
}

void JobEnricher::Scan(Instant deadline) {
  JobEvidence evidence = Gather();
  status_ = QueryController(evidence, deadline);
  JobAnswers answers = Answer(evidence);
  std::lock_guard lock(mutex_);
  if (answers == answers_) return;
  answers_ = std::move(answers);
  generation_.fetch_add(1, std::memory_order_relaxed);
}

JobEvidence JobEnricher::Gather() {
  JobEvidence evidence;
  std::map<int64_t, int> described;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(described_, [&](const auto& entry) { return !IsHere(options_.root, entry.first); });
    described = described_;
    evidence.files = files_;
  }
  for (const auto& [pid, gpu] : described) {
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

// Answers of the controller take precedence over those of a job's processes.
Status JobEnricher::QueryController(JobEvidence& evidence, Instant deadline) {
  std::erase_if(queried_, [&](const auto& entry) { return !evidence.jobs.contains(entry.first); });
  std::string node = options_.node_name;
  for (const auto& [id, facts] : evidence.jobs) {
    if (node.empty()) node = facts.node_name;
  }
  if (node.empty()) node = options_.host_name.substr(0, options_.host_name.find('.'));
  Status failed;
  size_t queries = 0;
  for (auto& [id, facts] : evidence.jobs) {
    auto known = queried_.find(id);
    const Duration left = deadline - clock_.Now();
    const bool again =
        known == queried_.end() || (!known->second.answered && clock_.Now() - known->second.at > kQueryAgain);
    if (options_.scontrol && again && failed && queries < kMostQueried && left.count() > 0) {
      ++queries;
      Result<Queried> answer = QueryJob(id, node, deadline);
      if (!answer) failed = answer.error();
      known = queried_.insert_or_assign(id, answer ? *answer : Queried{false, false, clock_.Now(), {}}).first;
    }
    if (known == queried_.end() || !known->second.answered) continue;
    JobFacts strong = known->second.facts;
    strong.Add(facts);
    facts = std::move(strong);
  }
  const auto unclear =
      std::ranges::count_if(queried_, [](const auto& entry) { return entry.second.unclear; });
  unclear_.store(static_cast<uint64_t>(unclear), std::memory_order_relaxed);
  // A missing scontrol is not a failure.
  return failed.code == Code::kUnavailable ? Ok() : failed;
}

// Queries scontrol for one job by this name: a number, or "12_3" of an array. None: an answer about several
// jobs, or an ambiguous one.
Result<std::optional<Job>> JobEnricher::QueryScontrol(uint64_t job, const std::string& name,
                                                      Instant deadline) {
  ASSIGN_OR_RETURN(std::string text,
                   programs_->Run("scontrol", {"show", "job", "-d", name}, deadline - clock_.Now()));
  std::vector<Job> jobs = ParseJobs(text);
  if (jobs.empty()) return Status{Code::kDataLoss, "scontrol printed nothing about job " + name};
  if (jobs.size() != 1 || jobs.front().id != job || jobs.front().ambiguous) return std::optional<Job>();
  return std::optional<Job>(std::move(jobs.front()));
}

// Queries squeue, which has no indices of GPUs.
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
  ASSIGN_OR_RETURN(SlurmTable table, ParseRows(text, delimiter, kColumns));
  for (size_t row = 0; row < table.rows.size(); ++row) {
    if (ParseInt<uint64_t>(table.At(row, "JobID")) != job) continue;
    auto text_of = [&](std::string_view column) {
      std::string_view value = table.At(row, column);
      return IsAbsent(value) ? std::string() : CleanText(value);
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

Result<JobEnricher::Queried> JobEnricher::QueryJob(uint64_t job, const std::string& node, Instant deadline) {
  ASSIGN_OR_RETURN(std::optional<Job> single, QueryScontrol(job, std::to_string(job), deadline));
  if (single) return Queried{true, false, clock_.Now(), FactsOf(*single, node)};
  // The answer about an array's first job has all its tasks, or a text of the user imitates lines of
  // scontrol.
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

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr OptionSpec kOptions[] = {
    TimeOption("interval", "10s", "How often jobs and processes are read.", 1),
    TextOption("node_name", {}, "Slurm's name of this machine; empty: taken from its jobs."),
    TextOption("job_mapping", {},
               "A folder with a file per GPU index whose lines are job ids, as prologs write it."),
    BoolOption("scontrol", true, "Run scontrol once for each new job on this machine."),
    TextOption("programs", {}, "The folder of Slurm's programs; empty: those in PATH."),
    TimeOption("call_timeout", "3s", "Timeout of one scontrol, which is then killed.", 0.05),
};
using Options = OptionsOf<kOptions>;

bool IsFolder(const std::string& path) {
  struct stat facts{};
  return !path.empty() && ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

// A program or folder by which Slurm's jobs may run here; may be empty.
std::string FindSign(const Options& options, const Env& env) {
  const std::string& mapping = options.Text("job_mapping");
  if (IsFolder(mapping)) return mapping;
  const std::string& folder = options.Text("programs");
  if (auto program = ResolveProgram(folder.empty() ? "scontrol" : folder + "/scontrol")) return *program;
  const std::string root = env.root == "/" ? "" : env.root;
  for (const char* path :
       {"/sys/fs/cgroup/system.slice/slurmstepd.scope", "/var/spool/slurmd", "/etc/slurm"}) {
    if (IsFolder(root + path)) return root + path;
  }
  return {};
}

void NeededRights(const Config& config, const Env&, Rights& out) {
  const Options options(config);
  if (!options.Bool("scontrol")) return;
  const std::string& folder = options.Text("programs");
  slurm::AllowProgram(folder, "scontrol", {"show", "job", "-d"}, slurm::Digits(), out.programs);
  std::vector<std::string> prefixes = slurm::Digits();
  prefixes.push_back("JobID:" + std::string(slurm::kDelimiterStart));
  slurm::AllowProgram(folder, "squeue", {"--all", "--array", "--noheader", "-j", "-O"}, std::move(prefixes),
                      out.programs);
}

Result<std::unique_ptr<Enricher>> Create(const Config& config, Env& env) {
  if (FindSign(config, env).empty())
    return Status{Code::kUnavailable, "no scontrol, no job's control group and no folder of mappings"};
  const Options options(config);
  slurm::JobEnricher::Options out;
  out.root = env.root;
  out.node_name = options.Text("node_name");
  out.host_name = HostName();
  out.mapping = options.Text("job_mapping");
  out.programs = options.Text("programs");
  out.scontrol = options.Bool("scontrol");
  out.call_timeout = options.Time("call_timeout");
  return std::unique_ptr<Enricher>(std::make_unique<slurm::JobEnricher>(std::move(out), *env.clock));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  const std::string sign = FindSign(config, env);
  if (sign.empty())
    return {{Finding::kNotHere, "slurm jobs", "",
             "no scontrol, no job's control group and no folder of mappings", ""}};
  return {{Finding::kFound, "slurm jobs", sign, {}, {}}};
}

}  // namespace

extern const EnricherSpec slurm_enricher;
const EnricherSpec slurm_enricher{
    .name = "slurm",
    .help =
        "Slurm's job, user, account, partition, array, step and QOS of GPUs and "
        "processes.",
    .period = seconds(10),
    .timeout = seconds(5),
    .options = kOptions,
    .create = &Create,
    .probe = &Probe,
    .rights = &NeededRights};

}  // namespace gpulens
