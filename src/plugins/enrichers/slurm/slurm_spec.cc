// The spec of the enricher: when it can work, and what it says where it cannot.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/process.h"
#include "plugins/enrichers/slurm/slurm.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

std::string HostNameOf() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

bool IsFolder(const std::string& path) {
  struct stat facts{};
  return !path.empty() && ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

// What says that jobs of Slurm may run here; empty: nothing does.
std::string Sign(const Config& config, const Env& env) {
  const std::string& mapping = config.Text("job_mapping");
  if (IsFolder(mapping)) return mapping;
  const std::string& folder = config.Text("programs");
  if (auto program = FindProgram(folder.empty() ? "scontrol" : folder + "/scontrol")) return *program;
  const std::string root = env.root == "/" ? "" : env.root;
  for (const char* path :
       {"/sys/fs/cgroup/system.slice/slurmstepd.scope", "/var/spool/slurmd", "/etc/slurm"}) {
    if (IsFolder(root + path)) return root + path;
  }
  return {};
}

Result<std::unique_ptr<Enricher>> Create(const Config& config, Env& env) {
  if (Sign(config, env).empty())
    return Status{Code::kUnavailable, "no scontrol, no job's control group and no folder of mappings"};
  slurm::JobEnricher::Options options;
  options.root = env.root;
  options.node_name = config.Text("node_name");
  options.host_name = HostNameOf();
  options.mapping = config.Text("job_mapping");
  options.programs = config.Text("programs");
  options.scontrol = config.Bool("scontrol");
  options.call_timeout = config.Time("call_timeout");
  return std::unique_ptr<Enricher>(std::make_unique<slurm::JobEnricher>(std::move(options), *env.clock));
}

std::vector<Finding> Probe(const Config& config, Env& env) {
  const std::string sign = Sign(config, env);
  if (sign.empty())
    return {{Finding::kNotHere, "slurm jobs", "",
             "no scontrol, no job's control group and no folder of mappings", ""}};
  return {{Finding::kFound, "slurm jobs", sign, {}, {}}};
}

constexpr OptionSpec kOptions[] = {
    {.key = "interval",
     .type = OptionType::kTime,
     .fallback = "10s",
     .help = "How often jobs and processes are read.",
     .min = 1},
    {.key = "node_name", .fallback = "", .help = "Slurm's name of this machine; empty: taken from its jobs."},
    {.key = "job_mapping",
     .fallback = "",
     .help = "A folder with a file per GPU index whose lines are job ids, as prologs write it."},
    {.key = "scontrol",
     .type = OptionType::kBool,
     .fallback = "true",
     .help = "Run scontrol once for each new job on this machine."},
    {.key = "programs", .fallback = "", .help = "The folder of Slurm's programs; empty: those in PATH."},
    {.key = "call_timeout",
     .type = OptionType::kTime,
     .fallback = "3s",
     .help = "Timeout of one scontrol, which is then killed.",
     .min = 0.05},
};

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
    .probe = &Probe};

}  // namespace gpulens
