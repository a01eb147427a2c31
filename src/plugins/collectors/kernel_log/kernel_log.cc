// Collector of the kernel log: XIDs, SXids, RAS, PCIe errors, OOM kills and the like, reported as events.

#include "plugins/collectors/kernel_log/kernel_log.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/process.h"
#include "base/result.h"
#include "catalog/events.h"
#include "catalog/gpu.h"
#include "catalog/self.h"

namespace gpulens {
namespace {

using kernel_log::CleanText;
using kernel_log::ErrorGrade;
using kernel_log::KernelNotice;
using kernel_log::NoticeKind;

constexpr size_t kMaxSwitches = 64;
constexpr size_t kMaxMuted = 256;
constexpr int64_t kMinute = 60'000'000'000;

std::string_view SeverityOf(ErrorGrade grade) noexcept {
  constexpr std::string_view kNames[] = {"", "corrected", "deferred", "recoverable", "nonfatal", "fatal"};
  return kNames[static_cast<size_t>(grade)];
}

std::string BusOf(const KernelNotice& notice) { return notice.pci ? notice.pci->ToString() : ""; }

// Severity of the message beyond its code: by a link's own word, and by the driver's recovery action.
std::string_view XidSeverity(const KernelNotice& notice) noexcept {
  if (notice.action == "none") return "info";
  if (notice.action == "reset_gpu" || notice.action == "reboot") return "fatal";
  if (!notice.action.empty()) return "error";
  if (notice.grade == ErrorGrade::kFatal) return "fatal";
  return notice.grade == ErrorGrade::kNonFatal ? "warning" : "";
}

using kernel_log::LogStart;

constexpr std::string_view kSources[] = {"auto", "kmsg", "journald", "file"};
constexpr std::string_view kSince[] = {"now", "boot"};
constexpr OptionSpec kOptions[] = {
    TextOption("source", "auto", "Source of kernel messages; auto uses the first that can be read.",
               kSources),
    TextOption("path", {}, "With source: file, the file to follow."),
    TextOption("since", "now", "boot: report messages from before the agent started as events, too.", kSince),
};
using Options = OptionsOf<kOptions>;

constexpr std::string_view kStillWorks = "; XIDs reported by NVML and all metrics do not need it";
// Files with kernel messages only come first; of the others only lines of the kernel are used.
constexpr const char* kFiles[] = {"/var/log/kern.log", "/var/log/messages", "/var/log/syslog"};
constexpr const char* kJournals[] = {"/run/log/journal", "/var/log/journal"};
constexpr const char* kJournalctls[] = {"/usr/bin/journalctl", "/bin/journalctl"};

std::string Below(const Env& env, std::string_view path) {
  return (env.root == "/" ? "" : env.root) + std::string(path);
}

// The first of `paths` that may be opened for reading.
template <size_t kCount>
std::string FirstReadable(const Env& env, const char* const (&paths)[kCount]) {
  for (const char* path : paths) {
    std::string full = Below(env, path);
    if (::access(full.c_str(), R_OK) == 0) return full;
  }
  return {};
}

// journalctl reads the journal of this machine, which is the wrong one below another root.
std::string Journalctl(const Env& env) {
  if (env.root != "/") return {};
  for (const char* path : kJournalctls) {
    if (auto program = ResolveProgram(path)) return *program;
  }
  return {};
}
bool JournalReadable(const Env& env) { return SystemJournalReadable(env.root == "/" ? "" : env.root); }

Status Refused(const Status& why) {
  std::string detail = "kernel log: " + why.detail;
  if (why.code == Code::kPermissionDenied) detail += " (needs root or CAP_SYSLOG)";
  return {why.code, detail + std::string(kStillWorks)};
}

Result<ChosenLog> Made(Result<std::unique_ptr<kernel_log::LogReader>> reader, std::string_view source,
                       std::string place) {
  if (!reader) return Refused(reader.error());
  return ChosenLog{*std::move(reader), source, std::move(place)};
}

Result<ChosenLog> Journal(const Env& env, LogStart from) {
  std::string program = Journalctl(env);
  if (program.empty())
    return Status{Code::kUnavailable, "kernel log: no journalctl here" + std::string(kStillWorks)};
  if (!JournalReadable(env)) {
    return Status{
        Code::kPermissionDenied,
        "kernel log: no system.journal that may be read (needs root, or the group systemd-journal)" +
            std::string(kStillWorks)};
  }
  return Made(kernel_log::RunJournalctl(program, from, env.clock->Now()), "journald", program);
}

// The first log that can be read.
Result<ChosenLog> First(const Env& env, LogStart from) {
  std::string device = Below(env, "/dev/kmsg");
  auto kmsg = Made(kernel_log::OpenKmsg(device, from), "kmsg", device);
  if (kmsg) return kmsg;
  if (!Journalctl(env).empty() && JournalReadable(env)) {
    auto journal = Journal(env, from);
    if (journal) return journal;
  }
  if (std::string file = FirstReadable(env, kFiles); !file.empty()) {
    auto followed = Made(kernel_log::FollowFile(file, from), "file", file);
    if (followed) return followed;
  }
  return kmsg.error();
}

// Name of this collector in the event queue.
constexpr std::string_view kWatcher = "kernel_log";

class KernelLog final : public Collector {
 public:
  KernelLog(ChosenLog log, Env& env)
      : log_(std::move(log)), env_(env), maker_(env.events, log_.source, env.root) {
    visit_ = [this](Instant at, std::string_view text) {
      if (auto notice = notices_.Read(text)) maker_.Take(*notice, text, at);
    };
    Watch(true);
    Log(LogLevel::kDebug, "kernel_log", "reading", "reading " + log_.place);
  }
  ~KernelLog() override { Watch(false); }

  Status Collect(FrameWriter& out) override {
    if (!lost_) lost_ = out.table().Declare(kSelfKernelLogLost, {});
    Status status = log_.reader->Read(env_.clock->Now(), visit_);
    Watch(status.ok());
    if (!status) return status;
    out.Set(lost_, log_.reader->lost());
    maker_.WriteCounters(out);
    return Ok();
  }

 private:
  void Watch(bool works) {
    if (env_.events && works != watches_) env_.events->Watches(kWatcher, works);
    watches_ = works;
  }

  ChosenLog log_;
  Env& env_;
  EventMaker maker_;
  kernel_log::NoticeReader notices_;
  kernel_log::MessageVisitor visit_;
  Series lost_;
  bool watches_ = false;
};

void NeededRights(const Config& config, const Env& env, Rights& out) {
  const Options options(config);
  const std::string& source = options.Text("source");
  const bool automatic = source == "auto";
  if (automatic || source == "kmsg") {
    const std::string& path = options.Text("path");
    out.devices.push_back(source == "kmsg" && !path.empty() ? path : Below(env, "/dev/kmsg"));
    // With kernel.dmesg_restrict, as Debian has it, only who has it may open the device.
    out.capabilities.push_back(CAP_SYSLOG);
  }
  if (automatic || source == "journald") {
    if (std::string program = Journalctl(env); !program.empty())
      out.programs.push_back(kernel_log::RuleOfJournalctl(std::move(program)));
  }
}

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  ASSIGN_OR_RETURN(ChosenLog log, ChooseLog(config, env));
  return std::unique_ptr<Collector>(std::make_unique<KernelLog>(std::move(log), env));
}

std::vector<Finding> Probe(const Config& config, Env& env) { return ProbeLog(config, env); }

constexpr const MetricDesc* kMetrics[] = {&kSelfKernelLogLost, &kNvswitchSxidErrors};

}  // namespace

EventMaker::EventMaker(EventQueue* queue, std::string_view source, std::string root)
    : queue_(queue), source_(source), root_(std::move(root)), bus_(kernel_log::ReadPciBus(root_)) {
  for (const kernel_log::PciDevice& device : bus_) {
    if (device.IsNvswitch()) FindSwitch(device.address);
  }
}

EventMaker::Switch* EventMaker::FindSwitch(const PciAddress& address) {
  for (Switch& known : switches_) {
    if (known.device.address == address) return &known;
  }
  if (switches_.size() >= kMaxSwitches) return nullptr;
  Switch added;
  added.device.address = address;
  std::string id = address.ToString();
  added.entity = MakeRef<Entity>("nvswitch", AttributeSet({{"nvswitch.id", id}}));
  switches_.push_back(std::move(added));
  return &switches_.back();
}

void EventMaker::WriteCounters(FrameWriter& out) {
  for (Switch& each : switches_) {
    out.DeclareAndSet(each.fatal_series, kNvswitchSxidErrors, each.entity,
                      {{"nvswitch.sxid.severity", "fatal"}}, each.fatal);
    out.DeclareAndSet(each.non_fatal_series, kNvswitchSxidErrors, each.entity,
                      {{"nvswitch.sxid.severity", "non_fatal"}}, each.non_fatal);
  }
}

bool EventMaker::IsMuted(const std::string& key, Instant at) {
  std::erase_if(muted_, [&](const Muted& each) { return each.until_boot_ns <= at.boot_ns; });
  bool muted = std::ranges::any_of(muted_, [&](const Muted& each) { return each.key == key; });
  // Too many different keys within a minute are a flood, too.
  muted = muted || muted_.size() >= kMaxMuted;
  if (!muted) muted_.push_back({key, at.boot_ns + kMinute});
  else if (queue_) queue_->Suppressed(1);
  return muted;
}

void EventMaker::Report(std::string_view name, const KernelNotice& notice, Attributes attributes,
                        std::string_view message, Instant at) {
  if (!queue_) return;
  const std::string bus = BusOf(notice), process = CleanText(notice.process);
  if (!bus.empty()) attributes.push_back({kEventPciBusId, bus});
  if (notice.pid) attributes.push_back({"process.pid", *notice.pid});
  if (!process.empty()) attributes.push_back({"process.executable.name", process});
  if (notice.link) attributes.push_back({"gpu.interconnect.link_index", int64_t{*notice.link}});
  attributes.push_back({"event.source", source_});
  queue_->Report({.at = at,
                  .name = name,
                  .entity = {},
                  .attributes = AttributeSet(attributes),
                  .body = CleanText(message)});
}

void EventMaker::Take(const KernelNotice& notice, std::string_view message, Instant at) {
  auto report = [&](const EventDesc& event, Attributes attributes) {
    Report(event.name, notice, std::move(attributes), message, at);
  };
  switch (notice.kind) {
    case NoticeKind::kXid: return TakeXid(notice, message, at);
    case NoticeKind::kSxid: return TakeSxid(notice, message, at);
    case NoticeKind::kRas: return TakeRas(notice, message, at);
    case NoticeKind::kPcieError: return TakePcieError(notice, message, at);
    case NoticeKind::kOomScope:
      oom_pid_ = notice.pid.value_or(0);
      oom_cgroup_ = CleanText(notice.cgroup);
      return;
    case NoticeKind::kOomKill: {
      Attributes attributes;
      if (oom_pid_ == *notice.pid && !oom_cgroup_.empty()) attributes = {{"host.oom.cgroup", oom_cgroup_}};
      oom_pid_ = 0;
      return report(kEventHostOomKill, std::move(attributes));
    }
    case NoticeKind::kHardware: {
      // Corrected errors and throttling come in storms.
      bool stormy = notice.grade == ErrorGrade::kCorrected || notice.facts == "thermal.cpu_throttle";
      if (stormy && IsMuted(std::string(notice.type), at)) return;
      Attributes attributes = {{"host.error.type", notice.type}};
      if (notice.grade != ErrorGrade::kUnknown)
        attributes.push_back({"host.error.severity", SeverityOf(notice.grade)});
      return report(kEventHostHardwareError, std::move(attributes));
    }
    case NoticeKind::kDriverFault:
      // A module that has lost its context, or an engine that is stuck, repeats itself.
      if (IsMuted(std::string(notice.facts) + " " + BusOf(notice) + " " + CleanText(notice.process), at))
        return;
      return report(kEventGpuDriverFault, {{"gpu.driver.fault", notice.facts}});
    case NoticeKind::kGpuLost: return report(kEventGpuLost, {{"gpu.lost.reason", "fallen_off_bus"}});
    case NoticeKind::kGpuReset: return report(kEventGpuReset, {{"gpu.reset.reason", "recovery"}});
    case NoticeKind::kGpuHot:
      // The driver repeats it for as long as the GPU is hot.
      if (IsMuted("hot " + BusOf(notice) + std::string(notice.type), at)) return;
      return report(kEventGpuThermal, {{"gpu.thermal.action", notice.type}});
    case NoticeKind::kLinkFailure:
      return report(kEventGpuInterconnectFailure,
                    {{"gpu.interconnect.type", "nvlink"}, {"gpu.interconnect.error_type", notice.type}});
  }
}

void EventMaker::TakeXid(const KernelNotice& notice, std::string_view message, Instant at) {
  Attributes attributes = {{"gpu.xid.code", int64_t{*notice.code}}};
  if (notice.sub_code) attributes.push_back({"gpu.xid.sub_code", int64_t{*notice.sub_code}});
  if (!notice.action.empty()) attributes.push_back({"gpu.xid.action", notice.action});
  std::string_view severity = XidSeverity(notice);
  if (!severity.empty()) attributes.push_back({"gpu.xid.severity", severity});
  Report(kEventGpuXid.name, notice, std::move(attributes), message, at);
}

void EventMaker::TakeSxid(const KernelNotice& notice, std::string_view message, Instant at) {
  bool fatal = notice.grade == ErrorGrade::kFatal;
  if (Switch* known = FindSwitch(*notice.pci)) ++(fatal ? known->fatal : known->non_fatal);
  std::string id = notice.pci->ToString();
  KernelNotice without_bus = notice;
  without_bus.pci.reset();
  Report(kEventNvswitchSxid.name, without_bus,
         {{"nvswitch.id", id},
          {"nvswitch.sxid.code", int64_t{*notice.code}},
          {"nvswitch.sxid.severity", fatal ? "fatal" : "non_fatal"}},
         message, at);
}

void EventMaker::TakeRas(const KernelNotice& notice, std::string_view message, Instant at) {
  // Old drivers write the block in capitals.
  std::string block(notice.type);
  for (char& c : block) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Attributes attributes;
  if (notice.grade != ErrorGrade::kUnknown)
    attributes.push_back({"gpu.ras.severity", SeverityOf(notice.grade)});
  if (!block.empty()) attributes.push_back({"gpu.ras.block", block});
  if (notice.count) attributes.push_back({"gpu.ras.count", int64_t{*notice.count}});
  Report(kEventGpuRas.name, notice, std::move(attributes), message, at);
}

std::optional<PciAddress> EventMaker::GpuBehind(const PciAddress& reporter, std::string_view driver,
                                                Instant at) {
  if (at.boot_ns - bus_read_at_ns_ > kMinute) {  // devices come and go
    bus_ = kernel_log::ReadPciBus(root_);
    bus_read_at_ns_ = at.boot_ns;
  }
  std::optional<PciAddress> behind, in_slot;
  size_t gpus_in_slot = 0;
  for (const kernel_log::PciDevice& device : bus_) {
    if (!device.IsGpu()) continue;
    if (device.address == reporter) return reporter;
    if (device.address.SameSlot(reporter)) in_slot = device.address, ++gpus_in_slot;
    bool above = std::ranges::find(device.ports, reporter) != device.ports.end();
    if (above && behind) return reporter;  // a port above several GPUs
    if (above) behind = device.address;
  }
  if (behind) return behind;
  // Another function of the board, its audio or USB controller.
  if (gpus_in_slot == 1) return in_slot;
  // A GPU that has left the bus is not listed any more, but is known by its driver.
  constexpr std::string_view kGpuDrivers[] = {"nvidia", "amdgpu", "habanalabs", "xe", "i915"};
  bool gpu = std::ranges::find(kGpuDrivers, driver) != std::end(kGpuDrivers);
  return gpu ? std::optional(reporter) : std::nullopt;
}

void EventMaker::TakePcieError(const KernelNotice& notice, std::string_view message, Instant at) {
  KernelNotice of_gpu = notice;
  of_gpu.pci = GpuBehind(*notice.pci, notice.driver, at);
  if (!of_gpu.pci) return;
  bool corrected = notice.grade == ErrorGrade::kCorrected;
  if (corrected && IsMuted("aer " + BusOf(of_gpu), at)) return;
  Attributes attributes = {
      {"gpu.pcie.aer.severity", corrected ? std::string_view("correctable") : SeverityOf(notice.grade)}};
  if (!notice.type.empty()) attributes.push_back({"gpu.pcie.aer.layer", notice.type});
  Report(kEventGpuPcieAer.name, of_gpu, std::move(attributes), message, at);
}

bool SystemJournalReadable(const std::string& root) {
  namespace fs = std::filesystem;
  std::error_code failed;
  for (const char* journal : kJournals) {
    // One folder for each machine id that ever wrote here.
    for (fs::directory_iterator folder(root + journal, failed), end; !failed && folder != end;
         folder.increment(failed)) {
      if (::access((folder->path() / "system.journal").c_str(), R_OK) == 0) return true;
    }
  }
  return false;
}

void CheckLog(const Config& config, ConfigFaults& faults) {
  const Options options(config);
  if (options.Text("source") == "file" && options.Text("path").empty())
    options.Refuse("source", faults, "source: file needs path");
}

Result<ChosenLog> ChooseLog(const Config& config, const Env& env) {
  RETURN_IF_ERROR(RefuseFaults(&CheckLog, config));
  const Options options(config);
  LogStart from = options.Text("since") == "boot" ? LogStart::kBoot : LogStart::kNow;
  const std::string& source = options.Text("source");
  const std::string& path = options.Text("path");
  if (source == "file") return Made(kernel_log::FollowFile(path, from), "file", path);
  if (source == "kmsg") {
    std::string device = path.empty() ? Below(env, "/dev/kmsg") : path;
    return Made(kernel_log::OpenKmsg(device, from), "kmsg", device);
  }
  if (source == "journald") return Journal(env, from);
  return First(env, from);
}

std::vector<Finding> ProbeLog(const Config& config, const Env& env) {
  Finding finding;
  finding.subject = "kernel log";
  const Options options(config);
  const std::string& source = options.Text("source");
  std::string device = Below(env, "/dev/kmsg");
  UniqueFd kmsg;
  int error = 0;
  if (source == "auto" || source == "kmsg") {
    kmsg.reset(::open(device.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    error = errno;
  }
  std::string file = source == "file" ? options.Text("path") : FirstReadable(env, kFiles);
  bool journal = !Journalctl(env).empty() && JournalReadable(env);
  if (kmsg) {
    finding.what = device;
  } else if ((source == "auto" || source == "journald") && journal) {
    finding.what = "the journal, by journalctl";
  } else if ((source == "auto" || source == "file") && !file.empty() && ::access(file.c_str(), R_OK) == 0) {
    finding.what = file;
  } else {
    bool denied = error == EACCES || error == EPERM || (source == "journald" && !Journalctl(env).empty());
    finding.kind = denied ? Finding::kNoPermission : Finding::kNotHere;
    finding.what =
        "messages of the kernel: XIDs with their process, SXids, OOM kills, errors of PCIe and memory";
    if (!denied) finding.why = "no kernel log here";
    else finding.why = (source == "journald" ? "the journal" : device) + " may not be read";
    if (denied)
      finding.remedy =
          "systemctl edit gpulens: AmbientCapabilities=CAP_SYSLOG or SupplementaryGroups=systemd-journal";
  }
  return {finding};
}

extern const CollectorSpec kernel_log_collector;
const CollectorSpec kernel_log_collector{.name = "kernel_log",
                                         .help = "Events from the messages of the kernel: XIDs, OOM kills.",
                                         .period = std::chrono::seconds(1),
                                         .ttl = std::chrono::seconds(10),
                                         .options = kOptions,
                                         .metrics = kMetrics,
                                         .create = &Create,
                                         .probe = &Probe,
                                         .check = &CheckLog,
                                         .rights = &NeededRights};

}  // namespace gpulens
