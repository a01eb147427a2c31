// Collector of what probes and libraries inside jobs measure of CUDA: counts of the probe host, and the CUDA
// part of job pages.

#include "plugins/collectors/probes/probes.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/threads.h"
#include "catalog/cuda.h"
#include "catalog/events.h"
#include "plugins/collectors/probes/probe_client.h"
#include "plugins/event_queue.h"
#include "plugins/plugin.h"
#include "plugins/simulated_owners.h"
#include "sources/job_pages/job_pages.h"
#include "sources/nvml/processes/process_table.h"

namespace gpulens::probes {
namespace {

using job_page::HistogramCopy;
using std::chrono::seconds;

constexpr Duration kBeat = seconds(1);       // the probe host detaches after 3 s of silence
constexpr Duration kReplyTime = seconds(2);  // of one request
constexpr int64_t kFreshNs = 3'000'000'000;  // of the last frame
constexpr int64_t kKeptNs = 10'000'000'000;  // after which counts of a process that fell silent end
constexpr uint64_t kTickNs = 10'000'000;     // of field 22 of /proc/PID/stat

// ---- Options.

constexpr std::string_view kProbeWords[] = {"cuda", "dataload"};
constexpr OptionSpec kTargets[] = {
    TextsOption("users", {}, "Processes of these users: names or numbers"),
    TextsOption("cgroups", {}, "Processes in these cgroups, or below: \"/kubepods.slice\""),
    TextsOption("executables", {}, "Processes whose program has one of these names: \"python3.11\""),
};
constexpr OptionSpec kBudget[] = {
    TextOption("thread", "0.2%", "What probes may take of the time of the thread that calls most"),
    TextOption("host", "1%", "What all probes may take of one CPU"),
};
constexpr OptionSpec kDeny[] = {
    TextOption("driver", "", "Version of NVIDIA's driver, or its first numbers: \"570.86\""),
    TextOption("kernel", "", "Version of Linux, or its first numbers: \"6.8\""),
    TextOption("cpu", "", "A part of the CPU's model, or the architecture: \"aarch64\""),
    TextOption("gpu", "", "A part of a GPU's model: \"GB200\""),
    TextOption("why", "", "The reason, for who is refused"),
};
constexpr std::string_view kDenyConditions[] = {"driver", "kernel", "cpu", "gpu"};
constexpr OptionSpec kOptions[] = {
    TextOption("socket", kDefaultProbeSocket, "Socket of the probe host"),
    TextsOption("probes", {}, "Probes that are attached to `targets` without a request: cuda, dataload",
                kProbeWords),
    GroupOption("targets", "Processes to which `probes` are attached", kTargets),
    GroupOption("budget", "Above it fewer calls are timed, then none, then the probes are removed", kBudget),
    GroupsOption("deny", "Machines on which nothing is attached: a row that meets all its conditions", kDeny),
    BoolOption("owners_may_attach", false, "Whether users may attach probes to their own processes"),
    BoolOption("allow_seccomp_targets", false,
               "Whether calls of processes with a filter of system calls are timed, too. On newer kernels "
               "such a filter may end the process"),
    BoolOption("injection", true, "Export what the CUDA injection library and the SDK measure inside jobs"),
};
using Options = OptionsOf<kOptions>;

void Check(const Config& config, ConfigFaults& faults) {
  const Config& budget = Options(config).Group("budget");
  for (const std::string_view key : {"thread", "host"}) {
    if (const auto share = ParseShare(budget.Text(key)); !share) faults.Refuse(budget, key, share.status());
  }
  for (const Config& row : Options(config).Groups("deny")) {
    if (std::ranges::all_of(kDenyConditions, [&](std::string_view key) { return row.Text(key).empty(); }))
      faults.Refuse(config, "deny", Status{Code::kInvalidArgument, "a row needs driver, kernel, cpu or gpu"});
  }
}

// ---- The connection to the probe host: a thread, so that the host knows that the agent lives however often
// this collector runs.

class HostLink {
 public:
  explicit HostLink(std::string path) : path_(std::move(path)), stop_(::eventfd(0, EFD_CLOEXEC)) {}
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;
  ~HostLink() {
    if (!thread_.joinable()) return;
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
  }

  Status Start() {
    if (thread_.joinable()) return Ok();
    if (!stop_) return {Code::kExhausted, "no descriptor is free"};
    return StartThread(thread_, [this] { Run(); });
  }

  struct View {
    Status status{Code::kUnavailable, "the probe host has not answered yet"};
    HostStatus host;
    int64_t at_ns = 0;  // of the last good frame; 0: none
    std::vector<ProbeNote> notes;
  };
  // Moves the notes out.
  View Take() {
    std::lock_guard lock(mutex_);
    View out = view_;
    view_.notes.clear();
    return out;
  }

 private:
  void Run() {
    std::optional<ProbeClient> client;
    uint64_t seen = 0;
    int64_t host_pid = 0;
    bool first = true;
    while (true) {
      Status status;
      if (!client) {
        Result<ProbeClient> connected = ProbeClient::Connect(path_);
        status = connected.status();
        if (connected) client = *std::move(connected);
      }
      Result<ProbeReply> reply = client ? Result<ProbeReply>(ProbeReply()) : Result<ProbeReply>(status);
      if (client) {
        ProbeRequest request;
        request.verb = RequestVerb::kFrame;
        request.seen_notes = seen;
        reply = client->Send(request, kReplyTime, stop_.get());
        if (reply && !reply->refusal.empty())
          reply = Status{Code::kPermissionDenied, reply->sentence.empty() ? reply->refusal : reply->sentence};
        if (!reply) client.reset();
      }
      {
        std::lock_guard lock(mutex_);
        view_.status = reply.status();
        if (reply) {
          HostStatus& host = reply->status;
          // Another process counts its notes from 1. The notes of before this agent's start are not its own.
          if (host.pid != host_pid && !first) seen = 0;
          host_pid = host.pid;
          for (ProbeNote& note : host.notes) {
            seen = std::max(seen, note.number);
            if (!first && view_.notes.size() < kMostNotes) view_.notes.push_back(std::move(note));
          }
          // What came before is read in one go.
          if (host.notes.size() < kMostNotes) first = false;
          host.notes.clear();
          view_.host = std::move(host);
          view_.at_ns = RealClock().Now().boot_ns;
        }
      }
      pollfd stop{stop_.get(), POLLIN, 0};
      const bool more = reply && first;
      if (::poll(&stop, 1, more ? 0 : static_cast<int>(kBeat.count() / 1'000'000)) > 0) return;
    }
  }

  const std::string path_;
  const UniqueFd stop_;
  std::mutex mutex_;
  View view_;  // guarded by mutex_
  std::thread thread_;
};

// ---- Histograms: cumulative cells over a part of the buckets, since a series with 124 is long.

struct BucketRange {
  size_t first = 0, last = 0;  // buckets whose bounds are exported, inclusive
};
// 256 ns … 1.07 s, and 16 us … 137 s: four buckets for each doubling.
constexpr BucketRange kCalls{7, 95}, kWaits{31, job_page::kBuckets - 2};

Ref<const Shape> ShapeOf(BucketRange range) {
  auto shape = MakeRef<Shape>();
  for (size_t i = range.first; i <= range.last; ++i) shape->bounds.push_back(job_page::BucketBound(i) * 1e-9);
  shape->bounds.push_back(std::numeric_limits<double>::infinity());
  return shape;
}

void FillCells(std::span<Cell> cells, BucketRange range, const HistogramCopy& histogram) {
  const size_t bounds = range.last - range.first + 2;
  if (cells.size() != bounds + 2) return;
  double below = 0;
  size_t bucket = 0, cell = 0;
  for (size_t i = range.first; i <= range.last; ++i) {
    for (; bucket <= i; ++bucket) below += static_cast<double>(histogram.buckets[bucket]);
    cells[cell++].d = below;
  }
  cells[cell++].d = static_cast<double>(histogram.count);
  cells[cell++].d = static_cast<double>(histogram.sum_ns) * 1e-9;
  cells[cell].d = static_cast<double>(histogram.count);
}

void AddTo(HistogramCopy& to, const HistogramCopy& from) {
  to.count += from.count;
  to.sum_ns += from.sum_ns;
  for (size_t i = 0; i < to.buckets.size(); ++i) to.buckets[i] += from.buckets[i];
}

// ---- The series of one process.

class ProcessSeriesOfProbes {
 public:
  explicit ProcessSeriesOfProbes(EntityRef entity) : entity_(std::move(entity)) {}

  const EntityRef& entity() const noexcept { return entity_; }
  int64_t seen_ns = 0;

  using Extra = std::vector<AttributeSet::Attribute>;

  void Count(FrameWriter& out, const MetricDesc& desc, Extra extra, uint64_t value) {
    Series& series = Of(desc, extra);
    if (!series) series = out.table().Declare(desc, entity_, AttributeSet(extra));
    out.SetInt(series, static_cast<int64_t>(value));
  }
  void Fill(FrameWriter& out, const MetricDesc& desc, const Ref<const Shape>& shape, BucketRange range,
            Extra extra, const HistogramCopy& histogram) {
    if (histogram.count == 0 && !Known(desc, extra)) return;
    Series& series = Of(desc, extra);
    if (!series) series = out.table().Declare(desc, entity_, AttributeSet(extra), {.shape = shape});
    FillCells(out.Cells(series), range, histogram);
  }

 private:
  static std::pair<const MetricDesc*, std::string> KeyOf(const MetricDesc& desc, const Extra& extra) {
    std::string text;
    const AttributeSet set(extra);
    for (const auto& [key, value] : set) text += std::string(key) + "=" + set.Text(key) + ";";
    return {&desc, std::move(text)};
  }
  Series& Of(const MetricDesc& desc, const Extra& extra) { return series_[KeyOf(desc, extra)]; }
  bool Known(const MetricDesc& desc, const Extra& extra) const {
    return series_.contains(KeyOf(desc, extra));
  }

  EntityRef entity_;
  std::map<std::pair<const MetricDesc*, std::string>, Series> series_;
};

constexpr std::string_view kUprobe = "uprobe", kInjection = "injection";

// By job_page::Loss.
constexpr std::string_view kLossWords[] = {"ring_full",     "no_handle", "no_communicator", "stale_timer",
                                           "unknown_event", "no_device", "error",           "dropped"};
static_assert(std::size(kLossWords) == static_cast<size_t>(job_page::Loss::kCount));

class Probes final : public Collector {
 public:
  Probes(const Options& options, Env& env)
      : env_(env),
        link_(options.Text("socket")),
        injection_(options.Bool("injection")),
        names_(env.root, FindSimulated<nvml::ProcessDetails>(env.simulated)),
        calls_(ShapeOf(kCalls)),
        waits_(ShapeOf(kWaits)) {}

  Status Collect(FrameWriter& out) override {
    const Instant now = out.begun_at();
    names_.NextRound();
    injected_.clear();
    dated_.clear();
    if (injection_ && env_.job_pages) {
      if (!feed_) feed_ = env_.job_pages->Subscribe("probes");
      feed_->Visit([&](const JobPageView& view) { TakePage(out, view, now); });
      CountLossOfPages(out);
    }
    RETURN_IF_ERROR(link_.Start());
    HostLink::View view = link_.Take();
    Report(view.notes, now);
    const bool fresh = view.at_ns != 0 && now.boot_ns - view.at_ns < kFreshNs;
    if (fresh) {
      for (const ProcessCounts& process : view.host.processes) TakeProcess(out, process, now);
      TakeHost(out, view.host);
    }
    EndSeries(out, now);
    if (view.status.ok() && !view.host.reason.empty() && fresh)
      return {Code::kPermissionDenied, view.host.reason + ": " + view.host.sentence};
    // Pages alone are enough to run.
    return !view.status.ok() && !series_.empty() ? Ok() : view.status;
  }

 private:
  // Key: pid, start in ticks, source.
  using Key = std::tuple<int64_t, uint64_t, std::string_view>;

  ProcessSeriesOfProbes& SeriesOf(int64_t pid, uint64_t start_ticks, std::string_view source, Instant now) {
    const Key key{pid, start_ticks, source};
    auto at = series_.find(key);
    if (at == series_.end()) at = series_.emplace(key, ProcessSeriesOfProbes(MakeEntity(pid))).first;
    at->second.seen_ns = now.boot_ns;
    return at->second;
  }

  EntityRef MakeEntity(int64_t pid) {
    std::vector<AttributeSet::Attribute> attributes = {{"process.pid", pid}}, facts;
    const nvml::ProcessDetails& details = names_.Find(static_cast<uint32_t>(pid));
    const auto text = [&](std::string_view name, std::string_view value) {
      if (!value.empty()) attributes.push_back({name, value});
    };
    text("process.executable.name", details.name);
    text("process.owner", details.owner);
    text("container.id", details.container_id);
    text("k8s.pod.uid", details.pod_uid);
    if (details.simulated) attributes.push_back({"simulated", true});
    if (details.start_ticks != 0)
      facts.push_back({"process.start_ticks", static_cast<int64_t>(details.start_ticks)});
    return MakeRef<Entity>("process", AttributeSet(attributes), EntityRef(), AttributeSet(facts));
  }

  void TakePage(FrameWriter& out, const JobPageView& view, Instant now) {
    const job_page::PageCopy& page = view.page;
    if (page.writer == job_page::Writer::kCudaInjection) {
      lost_in_pages_[view.owner.id] = page.lost;
      if (view.ended) {
        for (size_t i = 0; i < page.lost.size(); ++i) lost_before_[i] += page.lost[i];
        lost_in_pages_.erase(view.owner.id);
      }
    }
    if (view.owner.pid == 0 || view.ended) return;
    if (page.data_loading) {
      dated_.insert(view.owner.pid);
      ProcessSeriesOfProbes& series = SeriesOf(view.owner.pid, view.owner.start_ticks, "sdk", now);
      series.Fill(out, kDataloaderWaitDuration, waits_, kWaits,
                  {{"dataloader.source", std::string_view("sdk")}}, page.data_loading->wait);
    }
    if (page.writer != job_page::Writer::kCudaInjection) return;
    injected_.insert(view.owner.pid);
    ProcessSeriesOfProbes& series = SeriesOf(view.owner.pid, view.owner.start_ticks, kInjection, now);
    // Launches are counted for the process, as from outside; times on a GPU are of that GPU.
    for (size_t type = 0; type < kLaunchTypes; ++type) {
      uint64_t launches = 0;
      HistogramCopy enqueue;
      for (const job_page::CudaDeviceCopy& device : page.devices) {
        launches += device.launches[type];
        AddTo(enqueue, device.enqueue[type]);
      }
      const std::vector<AttributeSet::Attribute> extra = {{"cuda.source", kInjection},
                                                          {"cuda.launch.type", LaunchTypeName(type)}};
      series.Count(out, kCudaLaunches, extra, launches);
      series.Fill(out, kCudaLaunchEnqueueDuration, calls_, kCalls, extra, enqueue);
    }
    for (const job_page::CudaDeviceCopy& device : page.devices) {
      const std::vector<AttributeSet::Attribute> extra = {{"cuda.source", kInjection},
                                                          {"cuda.device", int64_t{device.device}}};
      series.Fill(out, kCudaLaunchQueueDuration, calls_, kCalls, extra, device.queue_delay);
      series.Fill(out, kCudaKernelDuration, calls_, kCalls, extra, device.kernel);
      series.Fill(out, kCudaSyncWaitDuration, waits_, kWaits, extra, device.sync_wait);
    }
  }

  void TakeProcess(FrameWriter& out, const ProcessCounts& process, Instant now) {
    const uint64_t start_ticks = process.start_boot_ns / kTickNs;
    if (process.has_data && !dated_.contains(process.pid)) {
      SeriesOf(process.pid, start_ticks, "waker", now)
          .Fill(out, kDataloaderWaitDuration, waits_, kWaits,
                {{"dataloader.source", std::string_view("waker")}}, process.data_wait);
    }
    // Never both for one process: they count the same calls.
    if (!process.has_cuda || injected_.contains(process.pid)) return;
    ProcessSeriesOfProbes& series = SeriesOf(process.pid, start_ticks, kUprobe, now);
    for (size_t type = 0; type < kLaunchTypes; ++type) {
      std::vector<AttributeSet::Attribute> extra = {{"cuda.source", kUprobe},
                                                    {"cuda.launch.type", LaunchTypeName(type)}};
      std::vector<AttributeSet::Attribute> timed = extra;
      if (!process.exact) extra.push_back({"cuda.quality", std::string_view("sampled")});
      if (!process.exact || !process.all_timed)
        timed.push_back({"cuda.quality", std::string_view("sampled")});
      series.Count(out, kCudaLaunches, extra, process.launches[type]);
      series.Fill(out, kCudaLaunchEnqueueDuration, calls_, kCalls, timed, process.enqueue[type]);
    }
    for (size_t type = 0; type < kSyncTypes; ++type) {
      std::vector<AttributeSet::Attribute> extra = {{"cuda.source", kUprobe},
                                                    {"cuda.sync.type", SyncTypeName(type)}};
      if (!process.exact || !process.all_timed)
        extra.push_back({"cuda.quality", std::string_view("sampled")});
      series.Fill(out, kCudaSyncWaitDuration, waits_, kWaits, extra, process.sync_wait[type]);
    }
  }

  void CountWords(FrameWriter& out, const MetricDesc& desc, const std::vector<WordCount>& counts,
                  double unit = 0) {
    for (const WordCount& one : counts) {
      std::vector<AttributeSet::Attribute> extra;
      if (!one.probe.empty()) extra.push_back({"probe", std::string_view(one.probe)});
      if (!one.reason.empty()) extra.push_back({"reason", std::string_view(one.reason)});
      Series& series = own_[{&desc, one.probe, one.reason}];
      if (!series) series = out.table().Declare(desc, {}, AttributeSet(extra));
      if (unit == 0) out.SetInt(series, static_cast<int64_t>(one.count));
      else out.Set(series, static_cast<double>(one.count) * unit);
    }
  }

  void CountLossOfPages(FrameWriter& out) {
    std::vector<WordCount> counts;
    for (size_t i = 0; i < std::size(kLossWords); ++i) {
      uint64_t total = lost_before_[i];
      for (const auto& [id, lost] : lost_in_pages_) total += lost[i];
      if (total != 0) counts.push_back({std::string(kInjection), std::string(kLossWords[i]), total});
    }
    CountWords(out, kSelfProbeLost, counts);
  }

  void TakeHost(FrameWriter& out, const HostStatus& host) {
    for (const uint8_t probe : {kCudaProbe, kDataloadProbe}) {
      const auto attached = static_cast<uint64_t>(std::ranges::count_if(
          host.targets, [&](const AttachedTarget& target) { return (target.probes & probe) != 0; }));
      CountWords(out, kSelfProbeAttached, {{.probe = ProbeNames(probe), .reason = {}, .count = attached}});
    }
    CountWords(out, kSelfProbeEvents, host.events);
    CountWords(out, kSelfProbeCost, host.cost_ns, 1e-9);
    CountWords(out, kSelfProbeLost, host.lost);
    CountWords(out, kSelfProbeDetached, host.detached);
    CountWords(out, kSelfProbeRefused, host.refused);
  }

  // Ends the series of processes that are in no frame any more, and of those whose source changed.
  void EndSeries(FrameWriter& out, Instant now) {
    for (auto at = series_.begin(); at != series_.end();) {
      const auto& [pid, start, source] = at->first;
      const bool replaced =
          (source == kUprobe && injected_.contains(pid)) || (source == "waker" && dated_.contains(pid));
      const bool gone =
          at->second.seen_ns != now.boot_ns && (now.boot_ns - at->second.seen_ns > kKeptNs ||
                                                names_.Find(static_cast<uint32_t>(pid)).start_ticks != start);
      if (!replaced && !gone) {
        ++at;
        continue;
      }
      out.table().Retire(at->second.entity());
      at = series_.erase(at);
    }
  }

  void Report(const std::vector<ProbeNote>& notes, Instant now) {
    if (!env_.events) return;
    for (const ProbeNote& note : notes) {
      Event event;
      event.at = now;
      std::vector<AttributeSet::Attribute> attributes;
      std::string whose, name;  // attributes keep no copy
      if (note.pid != 0) {
        attributes.push_back({"process.pid", note.pid});
        name = names_.Find(static_cast<uint32_t>(note.pid)).name;
        if (!name.empty()) attributes.push_back({"process.executable.name", std::string_view(name)});
        whose = (name.empty() ? "process" : name) + " (pid " + std::to_string(note.pid) + ")";
        attributes.push_back({"gpulens.user", int64_t{note.user}});
      }
      if (note.change == "attached") {
        event.name = kEventProbeAttached.name;
        const std::string_view probes = TakeUntilBlank(note.sentence);
        if (!probes.empty()) attributes.push_back({"probe", probes});
        event.body = "Probes were attached to " + whose + ": " + note.sentence;
      } else if (note.change == "detached" || note.change == "limited") {
        event.name = kEventProbeDetached.name;
        attributes.push_back({"gpulens.reason", std::string_view(note.reason)});
        event.body = note.change == "detached" ? "Probes were removed from " + whose
                                               : "Probes of " + whose + " measure less";
        event.body += ": " + note.sentence;
        if (note.reason == "budget") event.severity = EventSeverity::kWarning;
      } else if (note.change == "refused") {
        event.name = kEventProbeRefused.name;
        attributes.push_back({"gpulens.reason", std::string_view(note.reason)});
        event.body = "No probes were attached to " + whose + ": " + note.sentence;
      } else {
        event.name = kEventProbeSwitch.name;
        attributes.push_back({"gpulens.change", std::string_view(note.change)});
        event.body = note.change == "switched_off" ? "Probes are switched off: " : "Probes are switched on: ";
        event.body += note.sentence;
      }
      event.attributes = AttributeSet(attributes);
      env_.events->Report(std::move(event));
    }
  }

  static std::string_view TakeUntilBlank(std::string_view text) { return text.substr(0, text.find(' ')); }

  Env& env_;
  HostLink link_;
  const bool injection_;
  std::unique_ptr<JobPages::Feed> feed_;
  nvml::ProcessTable names_;
  const Ref<const Shape> calls_, waits_;
  std::map<Key, ProcessSeriesOfProbes> series_;
  std::map<std::tuple<const MetricDesc*, std::string, std::string>, Series> own_;
  std::set<int64_t> injected_, dated_;  // of this run
  // Of pages of the CUDA injection library: those that are there, and the sum of those that ended.
  std::map<uint64_t, std::array<uint64_t, job_page::kLosses>> lost_in_pages_;
  std::array<uint64_t, job_page::kLosses> lost_before_{};
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  RETURN_IF_ERROR(RefuseFaults(&Check, config));
  return std::unique_ptr<Collector>(std::make_unique<Probes>(config, env));
}

std::vector<Finding> FindProbeHost(const Config& config, Env&) {
  Finding finding;
  finding.subject = "probes";
  Result<ProbeClient> client = ProbeClient::Connect(Options(config).Text("socket"));
  Result<ProbeReply> reply = client ? Result<ProbeReply>(ProbeReply()) : Result<ProbeReply>(client.status());
  if (client) {
    ProbeRequest request;
    request.verb = RequestVerb::kStatus;
    reply = client->Send(request, seconds(1));
  }
  if (!reply) {
    finding.kind = reply.error().code == Code::kPermissionDenied ? Finding::kNoPermission : Finding::kNotHere;
    finding.why = reply.error().detail;
    finding.remedy = "systemctl enable --now gpulens-probes, or as root: gpulens probe-host";
    return {finding};
  }
  const HostStatus& host = reply->status;
  if (host.switched_off) {
    finding.kind = Finding::kWarning;
    finding.what = "probes are switched off: " + host.switch_file + " is there";
    finding.why = host.switch_reason;
    finding.remedy = "gpulens probe kill-switch off";
  } else if (!host.reason.empty()) {
    finding.kind = host.reason == "no_rights" ? Finding::kNoPermission : Finding::kNotHere;
    (finding.kind == Finding::kNotHere ? finding.why : finding.what) = host.reason + ": " + host.sentence;
  } else {
    finding.what = "can be attached (" + host.mechanism + "), " + std::to_string(host.targets.size()) +
                   (host.targets.size() == 1 ? " process has some" : " processes have some");
  }
  return {finding};
}

}  // namespace

std::string ProbeSocketOf(const Config& probes) { return Options(probes).Text("socket"); }

ProbeHostOptions ProbeHostOptionsOf(const Config& probes) {
  const Options options(probes);
  ProbeHostOptions out;
  const Config& budget = options.Group("budget");
  out.thread_budget_ppm = ParseShare(budget.Text("thread")).value_or(0);
  out.host_budget_ppm = ParseShare(budget.Text("host")).value_or(0);
  out.owners_may_attach = options.Bool("owners_may_attach");
  out.allow_seccomp_targets = options.Bool("allow_seccomp_targets");
  for (const std::string& word : options.Texts("probes")) out.probes |= ParseProbes(word).value_or(0);
  for (const Config& row : options.Groups("deny")) {
    bpf::MachineRefusal& refusal = out.deny.emplace_back(
        bpf::MachineRefusal{.driver = row.Text("driver"),
                            .kernel = row.Text("kernel"),
                            .cpu = row.Text("cpu"),
                            .gpu = row.Text("gpu"),
                            .why = "the configuration forbids probes on this machine ("});
    std::string conditions;
    for (const std::string_view key : kDenyConditions) {
      if (!row.Text(key).empty())
        conditions += (conditions.empty() ? "" : ", ") + std::string(key) + " " + row.Text(key);
    }
    refusal.why += conditions + ")" + (row.Text("why").empty() ? "" : ": " + row.Text("why"));
  }
  const Config& targets = options.Group("targets");
  out.users = targets.Texts("users");
  out.cgroups = targets.Texts("cgroups");
  out.executables = targets.Texts("executables");
  return out;
}

Result<uint64_t> ParseShare(std::string_view text) {
  std::string_view number = Trim(text);
  const bool percent = number.ends_with('%');
  if (percent) number = Trim(number.substr(0, number.size() - 1));
  const std::optional<double> value = ParseDouble(number);
  const double share = value.value_or(-1) * (percent ? 0.01 : 1);
  if (!(share >= 1e-6 && share <= 0.1))
    return Status{Code::kInvalidArgument, "expected a share of at most 10%, such as 0.2%"};
  return static_cast<uint64_t>(std::llround(share * 1e6));
}

}  // namespace gpulens::probes

namespace gpulens {

extern const CollectorSpec probes_collector;
const CollectorSpec probes_collector{
    .name = "probes",
    .help = "CUDA launches and waits for data, by probes or from libraries inside jobs.",
    .period = std::chrono::seconds(1),
    .ttl = std::chrono::seconds(10),
    .options = probes::kOptions,
    .metrics = kCudaRows,
    .create = &probes::Create,
    .probe = &probes::FindProbeHost,
    .check = &probes::Check,
    .on_by_default = false};

}  // namespace gpulens
