// The host collector: what /proc, /sys and the system calls beside them say of this machine, each part at
// its own pace.

#include "catalog/host.h"
#include "base/result.h"
#include "catalog/row.h"
#include "plugins/collectors/host/host_part.h"

namespace gpulens {
namespace {

class HostCollector final : public Collector {
 public:
  HostCollector(HostFiles files, HostOptions options, HostSeams seams)
      : host_(std::move(files), std::move(options), seams) {
    AddCpuParts(host_, parts_);
    AddMemoryParts(host_, parts_);
    AddDiskParts(host_, parts_);
    AddNetworkParts(host_, parts_);
    AddRdmaParts(host_, parts_);
    AddMachineParts(host_, parts_);
  }

  // One part that fails does not keep the others from reading; the first failure is told.
  Status Collect(FrameWriter& out) override {
    Status first;
    for (const auto& part : parts_) {
      Status status = part->Collect(out);
      if (first && !status) first = std::move(status);
    }
    return first;
  }

 private:
  HostContext host_;
  HostParts parts_;
};

HostOptions OptionsOf(const Config& config) {
  using Temperatures = HostOptions::Temperatures;
  const std::string& temperatures = config.Text("temperatures");
  HostOptions options;
  options.per_cpu = config.Bool("per_cpu");
  options.processes = config.Bool("processes");
  options.pressure_shares = config.Bool("pressure_shares");
  options.entropy = config.Bool("entropy");
  if (temperatures == "none") options.temperatures = Temperatures::kNone;
  if (temperatures == "all") options.temperatures = Temperatures::kAll;
  options.disks_exclude = config.Group("disks").Texts("exclude");
  options.filesystems_exclude = config.Group("filesystems").Texts("exclude");
  options.network_exclude = config.Group("network").Texts("exclude");
  return options;
}

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  return MakeHostCollector(config, env, HostSeams{});
}

constexpr std::string_view kTemperatures[] = {"none", "main", "all"};
constexpr OptionSpec kDisks[] = {{.key = "exclude",
                                  .type = OptionType::kTexts,
                                  .help = "Block devices to leave out; * matches any text, ? one character"}};
constexpr OptionSpec kFileSystems[] = {
    {.key = "exclude", .type = OptionType::kTexts, .help = "Mount points to leave out, such as /boot/*"}};
constexpr OptionSpec kNetwork[] = {{.key = "exclude",
                                    .type = OptionType::kTexts,
                                    .fallback = "[veth*, cali*, lxc*]",
                                    .help = "Interfaces to leave out; by default those of containers"}};

constexpr OptionSpec kOptions[] = {
    {.key = "root", .fallback = "/", .help = "Folder that contains the machine's /proc and /sys"},
    {.key = "per_cpu",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Add time and frequency of each CPU"},
    {.key = "processes",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Count processes by state, which reads all of them"},
    {.key = "pressure_shares",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Add the kernel's averages of pressure"},
    {.key = "entropy",
     .type = OptionType::kBool,
     .fallback = "false",
     .help = "Add the entropy of the kernel's pool"},
    {.key = "temperatures",
     .fallback = "main",
     .help = "Which sensors are read; main: processors and NVMe drives",
     .allowed = kTemperatures},
    {.key = "disks", .type = OptionType::kGroup, .help = "Block devices", .children = kDisks},
    {.key = "filesystems", .type = OptionType::kGroup, .help = "File systems", .children = kFileSystems},
    {.key = "network", .type = OptionType::kGroup, .help = "Network interfaces", .children = kNetwork}};

}  // namespace

const std::string& HostRoot(const Config& config, const Env& env) {
  const std::string& root = config.Text("root");
  return root == "/" ? env.root : root;
}

Result<std::unique_ptr<Collector>> MakeHostCollector(const Config& config, const Env& env,
                                                     const HostSeams& seams) {
  const std::string& root = HostRoot(config, env);
  ASSIGN_OR_RETURN(HostFiles files, HostFiles::Open(root));
  if (!files.Exists("proc") && !files.Exists("sys")) {
    return Status{Code::kUnavailable, "neither proc nor sys below " + root};
  }
  return std::unique_ptr<Collector>(
      std::make_unique<HostCollector>(std::move(files), OptionsOf(config), seams));
}

extern const CollectorSpec host_collector;
const CollectorSpec host_collector{
    .name = "host",
    .help = "Processors, memory, disks, network and other counters of the kernel.",
    .period = std::chrono::seconds(1),
    .ttl = std::chrono::seconds(10),
    .options = kOptions,
    .metrics = kHostRows,
    .create = &Create,
    .probe = &ProbeHost};

}  // namespace gpulens
