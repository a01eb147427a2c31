// The host collector: parts that read /proc, /sys and system calls, each at its own interval, and the probe
// for `gpulens doctor`.

#include "plugins/collectors/host/host_part.h"

#include <algorithm>
#include <cstdio>

#include "base/result.h"
#include "base/text.h"
#include "catalog/host.h"
#include "catalog/row.h"
#include "sources/host/devices.h"
#include "sources/host/process.h"

namespace gpulens {
namespace {

constexpr int64_t kRetry = 60'000'000'000;
// Tolerance for runs that come a little early.
constexpr int64_t kSlack = 250'000'000;

bool IsQuiet(Code code) noexcept { return code == Code::kUnavailable || code == Code::kPermissionDenied; }

}  // namespace

Status HostPart::Collect(FrameWriter& out) {
  int64_t now = out.read_at().boot_ns;
  if (due_ns_ != 0 && now + kSlack < due_ns_) {
    for (Series series : good_) out.Keep(series);
    return last_;
  }
  good_.clear();
  any_ = false;
  if (!pace_.needs.empty() && !host_.files.Exists(pace_.needs.c_str())) {
    if (!pace_.essential) return Later(now + kRetry, Ok());
    return Later(now, {Code::kUnavailable, "no " + pace_.needs + " below " + host_.files.root() + "/"});
  }
  Status status = Read(out);
  if (!IsQuiet(status.code) || pace_.essential) return Later(now + pace_.every.count(), std::move(status));
  return Later(now + (any_ ? pace_.every.count() : kRetry), Ok());
}

Status HostPart::Later(int64_t due_ns, Status status) {
  due_ns_ = due_ns;
  last_ = std::move(status);
  return last_;
}

void HostPart::Declare(SeriesTable& table, HostSeries& series, const EntityRef& on) {
  int64_t start = series.since_ == HostSeries::Since::kBoot ? host_.boot_unix_ns : 0;
  series.series_ = table.Declare(*series.desc_, on, series.extra_, {.start_unix_ns = start});
  series.declared_ = true;
}

void HostPart::Note(Series series) {
  any_ = true;
  if (pace_.every.count() != 0) good_.push_back(series);
}

void HostPart::Refuse(FrameWriter& out, HostSeries& series, const EntityRef& on, Validation why) {
  if (!series.declared_) Declare(out.table(), series, on);
  if (series.series_) out.Reject(series.series_, why);
}

uint64_t Counter32::Carry(uint64_t raw, bool went_on) noexcept {
  constexpr uint64_t kRange = uint64_t{1} << 32, kQuarter = kRange / 4;
  if (raw < last_) {
    bool wrapped = went_on && last_ < kRange && last_ >= kRange - kQuarter && raw < kQuarter;
    carried_ = wrapped ? carried_ + kRange : 0;
  }
  last_ = raw;
  return carried_ + raw;
}

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view name) noexcept {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return MatchesStars(pattern, name, '?'); });
}

namespace {

constexpr std::string_view kEnergyRemedy =
    "sudo gpulens agent   or, where local users may see fine-grained power (CVE-2020-8694), until the next "
    "boot:\nsudo chmod o+r /sys/class/powercap/intel-rapl:*/energy_uj";

// "4.0 CPUs, 16.0 GiB"; empty without a limit.
std::string LimitsOf(const CgroupLimits& cgroup) {
  std::string out;
  char text[48];
  if (cgroup.cpus) {
    std::snprintf(text, sizeof text, "%.1f CPUs", *cgroup.cpus);
    out = text;
  }
  if (cgroup.memory_bytes) {
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(*cgroup.memory_bytes) / 0x1p30);
    out.append(out.empty() ? "" : ", ").append(text);
  }
  return out;
}

Finding HostFinding(HostFiles& files, bool has_cgroup) {
  Finding host{.kind = Finding::kFound, .subject = "host", .what = {}, .why = {}, .remedy = {}};
  for (const char* folder : {"proc", "sys"}) {
    if (files.Exists(folder)) host.what.append(host.what.empty() ? "/" : ", /").append(folder);
  }
  if (has_cgroup) host.what += ", cgroup v2";
  if (files.Exists("proc/stat") && files.Exists("proc/meminfo")) return host;
  host.kind = Finding::kBroken;
  host.why = "no proc/stat and proc/meminfo below " + files.root() + "/";
  host.remedy = "set collectors.host.root to the folder where the root of the machine is mounted";
  return host;
}

void AddContainer(HostFiles& files, const CgroupLimits* cgroup, std::vector<Finding>& findings) {
  MachineIdentity machine;
  if (!ReadMachineIdentity(files, machine) || machine.container.empty()) return;
  std::string what = machine.container == "unknown" ? "runs in a container" : machine.container;
  std::string limits = cgroup ? LimitsOf(*cgroup) : std::string();
  if (!limits.empty()) what += ", cgroup v2 limits of this container (" + limits + ")";
  findings.push_back(
      {.kind = Finding::kFound,
       .subject = "container",
       .what = std::move(what),
       .why = "network, mounts and processes are those of the container",
       .remedy = "mount the root of the machine at /host and set collectors.host.root: /host"});
}

void AddEnergy(HostFiles& files, std::vector<Finding>& findings) {
  std::vector<EnergyZone> zones;
  Status status = EnergyReader(files).Read(zones);
  if (status.code == Code::kUnavailable) return;
  Finding energy{
      .kind = Finding::kFound, .subject = "cpu energy", .what = "Intel RAPL", .why = {}, .remedy = {}};
  if (!status) {
    energy.kind = Finding::kBroken;
    energy.why = status.detail;
  }
  if (status.code == Code::kPermissionDenied) {
    energy.kind = Finding::kNoPermission;
    energy.what = "Intel RAPL is here but only root may read it";
    energy.remedy = kEnergyRemedy;
  }
  findings.push_back(std::move(energy));
}

void AddPressure(HostFiles& files, std::vector<Finding>& findings) {
  if (files.Exists("proc/pressure/cpu")) return;
  findings.push_back({.kind = Finding::kNotHere,
                      .subject = "pressure",
                      .what = "no pressure stall information (PSI)",
                      .why = "the kernel is older than 4.20, was built without it, or has it switched off",
                      .remedy = "add psi=1 to the kernel's command line"});
}

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

  // A part that fails does not keep the others from reading; returns the first failure.
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

constexpr std::string_view kTemperatures[] = {"none", "main", "all"};
constexpr OptionSpec kDisks[] = {
    TextsOption("exclude", {}, "Block devices to leave out; * matches any text, ? one character")};
constexpr OptionSpec kFileSystems[] = {
    TextsOption("exclude", {}, "Mount points to leave out, such as /boot/*")};
constexpr OptionSpec kNetwork[] = {TextsOption("exclude", "[veth*, cali*, lxc*]",
                                               "Interfaces to leave out; by default those of containers")};
constexpr OptionSpec kOptions[] = {
    TextOption("root", "/", "Folder that contains the machine's /proc and /sys"),
    BoolOption("per_cpu", false, "Add time and frequency of each CPU"),
    BoolOption("processes", false, "Count processes by state, which reads all of them"),
    BoolOption("pressure_shares", false, "Add the kernel's averages of pressure"),
    BoolOption("entropy", false, "Add the entropy of the kernel's pool"),
    TextOption("temperatures", "main", "Which sensors are read; main: processors and NVMe drives",
               kTemperatures),
    GroupOption("disks", "Block devices", kDisks),
    GroupOption("filesystems", "File systems", kFileSystems),
    GroupOption("network", "Network interfaces", kNetwork)};
using Options = OptionsOf<kOptions>;

HostOptions ReadHostOptions(const Options& options) {
  using Temperatures = HostOptions::Temperatures;
  const std::string& temperatures = options.Text("temperatures");
  return {.per_cpu = options.Bool("per_cpu"),
          .processes = options.Bool("processes"),
          .pressure_shares = options.Bool("pressure_shares"),
          .entropy = options.Bool("entropy"),
          .temperatures = temperatures == "none"  ? Temperatures::kNone
                          : temperatures == "all" ? Temperatures::kAll
                                                  : Temperatures::kMain,
          .disks_exclude = OptionsOf<kDisks>(options.Group("disks")).Texts("exclude"),
          .filesystems_exclude = OptionsOf<kFileSystems>(options.Group("filesystems")).Texts("exclude"),
          .network_exclude = OptionsOf<kNetwork>(options.Group("network")).Texts("exclude")};
}

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  return MakeHostCollector(config, env, HostSeams{});
}

}  // namespace

std::vector<Finding> ProbeHost(const Config& config, Env& env) {
  std::vector<Finding> findings;
  auto files = HostFiles::Open(HostRoot(config, env));
  if (!files) {
    findings.push_back({.kind = Finding::kBroken,
                        .subject = "host",
                        .what = "the root cannot be opened",
                        .why = files.error().detail,
                        .remedy = "set collectors.host.root to a folder that exists"});
    return findings;
  }
  CgroupLimits cgroup;
  // A malformed file does not make it absent.
  bool has_cgroup = ReadCgroupLimits(*files, cgroup).code != Code::kUnavailable;
  findings.push_back(HostFinding(*files, has_cgroup));
  if (findings.front().kind == Finding::kBroken) return findings;
  AddContainer(*files, has_cgroup ? &cgroup : nullptr, findings);
  AddEnergy(*files, findings);
  AddPressure(*files, findings);
  return findings;
}

const std::string& HostRoot(const Config& config, const Env& env) {
  const std::string& root = Options(config).Text("root");
  return root == "/" ? env.root : root;
}

Result<std::unique_ptr<Collector>> MakeHostCollector(const Config& config, const Env& env,
                                                     const HostSeams& seams) {
  const std::string& root = HostRoot(config, env);
  ASSIGN_OR_RETURN(HostFiles files, HostFiles::Open(root));
  if (!files.Exists("proc") && !files.Exists("sys"))
    return Status{Code::kUnavailable, "neither proc nor sys below " + root};
  return std::unique_ptr<Collector>(
      std::make_unique<HostCollector>(std::move(files), ReadHostOptions(config), seams));
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
