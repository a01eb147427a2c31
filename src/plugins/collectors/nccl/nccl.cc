// Collector of NCCL and RCCL: job pages of the profiler plugin, files of NCCL Inspector, and NCCL's RAS; and
// the diagnosis of slow and hung ranks from all of them.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "base/files.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/result.h"
#include "catalog/nccl.h"
#include "plugins/collectors/nccl/collectives_join.h"
#include "plugins/collectors/nccl/diagnosis_feed.h"
#include "plugins/collectors/nccl/hint_feed.h"
#include "plugins/collectors/nccl/inspector_pages.h"
#include "plugins/collectors/nccl/rank_table.h"
#include "plugins/collectors/nccl/ras_feed.h"
#include "plugins/collectors/nccl/slowest_rule.h"
#include "plugins/plugin.h"
#include "plugins/simulated_owners.h"
#include "sources/job_pages/job_pages.h"
#include "sources/nccl_files/inspector_files.h"
#include "sources/nvml/processes/process_table.h"
#include "sources/slurm/local_jobs.h"

namespace gpulens {
namespace {

using std::chrono::seconds;

constexpr std::string_view kReadFrom[] = {"end", "start"};
constexpr OptionSpec kOptions[] = {
    BoolOption("pages", false,
               "Read the pages of jobs with gpulens' NCCL profiler plugin: gpulens run --probes=nccl"),
    TextsOption("files", {},
                "Files of NCCL Inspector: files, folders, or paths whose last part has a star. Of folders "
                "*.log, *.json, *.jsonl, and the nccl_inspector_metrics_*.prom of its Prometheus mode"),
    TextOption("read_from", "end",
               "Where JSON files that are there at the start are read from; later ones are read whole",
               kReadFrom),
    TimeOption(
        "straggler_threshold", "1s",
        "The l9gpu project's nccl_rank_straggler alone: an operation that takes a rank so much longer than "
        "the median of its peers",
        0.000001, 86400),
    TextsOption(
        "ras", {},
        "Addresses of NCCL's RAS, such as 127.0.0.1:28028; auto: NCCL_RAS_ADDR, else that. On one host of "
        "each job: it has the whole job"),
    TimeOption("ras_interval", "60s",
               "Time between two queries of RAS, which every process of the job answers; less while a rank "
               "is behind",
               10, 86400),
    GroupOption("collectives", "Slow and hung ranks, and where they are found.", kCollectivesOptions),
};
using Options = OptionsOf<kOptions>;

CollectivesOptions CollectivesOf(const Options& options) { return options.Group("collectives"); }

bool IsConfigured(const Options& options) {
  return options.Bool("pages") || !options.Texts("files").empty() || !options.Texts("ras").empty() ||
         CollectivesOf(options).Text("role") == "join";
}

constexpr std::string_view kRemedy = "set collectors.nccl.pages, .files or .ras: docs/nccl.md";

// Whether a process is stopped by a signal or a debugger.
bool IsStopped(const std::string& root, int32_t pid) {
  std::string text;
  if (!ReadFile((root + "/proc/" + std::to_string(pid) + "/stat").c_str(), text, 4096).ok()) return false;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

constexpr size_t kLongestText = 128;  // of collectives::Process
constexpr Duration kLinksFor = seconds(10), kLinksPause = seconds(60);

// The Slurm job of the process's control group, which only root can set. Empty: none. Its environment is not
// read, since that can wait for the process; the page has what is in it.
std::string JobOf(const std::string& root, int32_t pid) {
  std::string text;
  if (!ReadFile((root + "/proc/" + std::to_string(pid) + "/cgroup").c_str(), text, 65'536).ok()) return {};
  const auto found = slurm::JobOfCgroup(text);
  return found ? std::to_string(found->job) : std::string();
}

class Nccl final : public Collector {
 public:
  Nccl(const Options& options, std::unique_ptr<CollectivesJoin> join, Env& env)
      : env_(env),
        names_(env.root, FindSimulated<nvml::ProcessDetails>(env.simulated)),
        slowest_(
            {.threshold_us =
                 std::chrono::duration<double, std::micro>(options.Time("straggler_threshold")).count()}),
        host_(HostName()),
        table_(RankTable::Options{}),
        join_(std::move(join)),
        // Differs between agents and their restarts.
        feed_(static_cast<uint64_t>(env.clock->Now().unix_ns) ^ static_cast<uint64_t>(::getpid()) << 40) {
    if (options.Bool("pages") && env.job_pages) pages_ = env.job_pages->Subscribe("nccl");
    if (!options.Texts("files").empty())
      files_ = std::make_unique<nccl_files::InspectorFiles>(nccl_files::InspectorFiles::Options{
          .places = options.Texts("files"), .from_start = options.Text("read_from") == "start"});
    ras_interval_ = options.Time("ras_interval");
    for (const std::string& text : options.Texts("ras")) {
      const auto at = RasAddress(text);
      if (at && env.io)
        ras_.push_back({at->ToString(),
                        std::make_unique<nccl_ras::RasClient>(
                            *env.io, nccl_ras::RasClient::Options{.at = *at, .query_every = ras_interval_})});
    }
  }

  ~Nccl() override {
    for (const auto& [id, page] : of_page_) {
      if (page.links_until.boot_ns != 0)
        static_cast<void>(env_.job_pages->SetLevel(id, job_page::Level::kTime));
    }
  }

  Status Collect(FrameWriter& out) override {
    const Instant now = out.begun_at();
    names_.NextRound();
    if (pages_) TakePages(now);
    Status status;
    if (files_) status = TakeFiles(now, out);
    if (Status ras = TakeRas(now); !ras && status) status = std::move(ras);
    slowest_.Evaluate(now, [&](uint64_t communicator, int32_t rank, const std::string& operation,
                               bool slowest) { table_.SetSlowest(communicator, rank, operation, slowest); });
    table_.Write(out);
    inspector_pages_.Keep(out);
    ras_feed_.Write(out);
    ras_feed_.Feed(feed_, now, 2 * ras_interval_);
    join_->Take(feed_.Make(now), now);
    SetLevels(now);
    if (collectives::Diagnosis* diagnosis = join_->diagnosis()) {
      series_.Write(*diagnosis, out);
      series_.Report(diagnosis->TakeChanges(), now, env_.events);
    }
    join_->Count(out);
    Count(out, now);
    return status;
  }

 private:
  struct Page {
    EntityRef process;
    collectives::Process identity;
    std::array<uint64_t, job_page::kLosses> lost{};
    uint64_t rejected = 0, missed = 0;
    job_page::Level wanted = job_page::Level::kOff;
    std::vector<uint64_t> communicators;
    Instant links_until, links_again;  // until when steps are measured, and when they may be again
  };

  void TakePages(Instant now) {
    live_pages_ = 0;
    pages_->Visit([&](const JobPageView& view) {
      if (view.page.writer == job_page::Writer::kCudaInjection) return;
      Page& page = of_page_[view.owner.id];
      if (!page.process) Identify(view, page);
      if (view.page.phases) page.identity.phase = view.page.phases->current;
      page.identity.state = view.ended ? collectives::ProcessState::kUnknown
                            : view.owner.pid > 0 && IsStopped(env_.root, view.owner.pid)
                                ? collectives::ProcessState::kStopped
                                : collectives::ProcessState::kRuns;
      for (const job_page::CommunicatorCopy& copy : view.page.communicators) {
        if (copy.closed && !view.ended) continue;
        const job_page::CommunicatorIdentity& who = *copy.identity;
        if (view.owner.simulated) series_.MarkSimulated(who.hash);
        table_.TakeProgress({.communicator = who.hash,
                             .rank = who.rank,
                             .ranks = who.ranks,
                             .name = who.name,
                             .device_id = who.device_id,
                             .process = page.process},
                            copy, now);
      }
      for (const job_page::RecordCopy& record : view.records) table_.TakeRecord(record, page.process, now);
      page_records_ += view.records.size();
      page.wanted = view.page.wanted;
      page.communicators.clear();
      // Only the plugin measures steps of the network on request.
      if (view.page.writer == job_page::Writer::kNcclPlugin && !view.owner.simulated) {
        for (const job_page::CommunicatorCopy& copy : view.page.communicators) {
          if (!copy.closed) page.communicators.push_back(copy.identity->hash);
        }
      }
      AddLosses(view, page);
      feed_.TakePage(view, page.identity, now);
      if (!view.page.trouble.empty())
        Log(LogLevel::kInfo, "nccl", "trouble", "a job measures less than was wanted: " + view.page.trouble,
            "pid " + std::to_string(view.owner.pid));
      if (view.ended) {
        table_.EndOf(page.process);
        of_page_.erase(view.owner.id);
      } else {
        ++live_pages_;
      }
    });
  }

  // Raises the level of ranks whose steps are wanted, for kLinksFor. Only from the level that times: a lower
  // one, and a higher one, is an operator's.
  void SetLevels(Instant now) {
    using job_page::Level;
    if (of_page_.empty()) return;
    const std::vector<uint64_t> wanted = join_->wanted_links();
    for (auto& [id, page] : of_page_) {
      if (page.links_until.boot_ns != 0) {
        if (now.boot_ns < page.links_until.boot_ns) continue;
        page.links_until = {};
        page.links_again = now + kLinksPause;
        if (page.wanted == Level::kLink) static_cast<void>(env_.job_pages->SetLevel(id, Level::kTime));
      } else if (page.wanted == Level::kTime && now.boot_ns >= page.links_again.boot_ns &&
                 std::ranges::find_first_of(page.communicators, wanted) != page.communicators.end()) {
        page.links_again = now + kLinksPause;
        if (env_.job_pages->SetLevel(id, Level::kLink)) page.links_until = now + kLinksFor;
      }
    }
  }

  void Identify(const JobPageView& view, Page& page) {
    const JobPageOwner& owner = view.owner;
    std::vector<AttributeSet::Attribute> attributes, facts;
    page.identity.host = host_;
    page.identity.pid = owner.pid;
    if (owner.pid > 0) {
      const nvml::ProcessDetails& details = names_.Find(static_cast<uint32_t>(owner.pid));
      attributes.push_back({"process.pid", int64_t{owner.pid}});
      const auto text = [&](std::string_view key, std::string_view value) {
        if (!value.empty()) attributes.push_back({key, value});
      };
      text("process.executable.name", details.name);
      text("process.owner", details.owner);
      text("container.id", details.container_id);
      text("k8s.pod.uid", details.pod_uid);
      page.identity.pod = details.pod_uid;
      if (!owner.simulated) page.identity.job = JobOf(env_.root, owner.pid);
      if (details.simulated) attributes.push_back({"simulated", true});
      if (details.start_ticks != 0)
        facts.push_back({"process.start_ticks", static_cast<int64_t>(details.start_ticks)});
    }
    if (page.identity.job.empty()) page.identity.job = view.page.job.substr(0, kLongestText);
    page.process =
        MakeRef<Entity>("process", AttributeSet(std::span<const AttributeSet::Attribute>(attributes)),
                        EntityRef(), AttributeSet(std::span<const AttributeSet::Attribute>(facts)));
  }

  void AddLosses(const JobPageView& view, Page& page) {
    constexpr std::string_view kReasons[] = {"ring_full",     "no_handle", "no_communicator", "stale_timer",
                                             "unknown_event", "no_device", "error",           "dropped"};
    static_assert(std::size(kReasons) == static_cast<size_t>(job_page::Loss::kCount));
    for (size_t i = 0; i < std::size(kReasons); ++i) {
      if (view.page.lost[i] > page.lost[i]) lost_[kReasons[i]] += view.page.lost[i] - page.lost[i];
      page.lost[i] = view.page.lost[i];
    }
    lost_["impossible"] += view.page.rejected - std::exchange(page.rejected, view.page.rejected);
    lost_["read_late"] += view.missed - std::exchange(page.missed, view.missed);
  }

  Status TakeFiles(Instant now, FrameWriter& out) {
    const auto take = [&](nccl_files::InspectorRecord&& record) {
      slowest_.Add(record, now);
      if (!table_.TakeRecord(record, now)) {
        ++doubled_;
        return;
      }
      ++file_records_;
      feed_.TakeRecord(record, now);
    };
    return files_->Poll(now, take,
                        [&](const nccl_files::InspectorPage& page) { inspector_pages_.Take(page, out); });
  }

  // The first of several servers that does not answer; that nothing listens is no error: there is no job.
  Status TakeRas(Instant now) {
    Status worst;
    ras_servers_ = 0;
    for (Ras& ras : ras_) {
      nccl_ras::RasClient::Taken taken = ras.client->Take();
      if (taken.status) ++ras_servers_;
      else if (taken.status.code != Code::kUnavailable && worst.ok()) worst = taken.status;
      if (!taken.report.empty()) {
        const auto report = nccl_ras::ParseRasReport(taken.report);
        if (report) {
          ras_feed_.Take(*report, now);
          lost_["ras_timeout"] += report->timeouts;
        } else if (worst.ok()) {
          worst = report.error();
        }
      }
      for (const std::string& text : taken.events) {
        if (const auto event = nccl_ras::ParseRasEvent(text)) {
          RasFeed::Report(*event, now, env_.events);
          ras.client->QuerySoon();
        } else {
          ++lost_["invalid_ras_event"];
        }
      }
      if (ras_feed_.suspicious()) ras.client->QuerySoon();
    }
    return worst;
  }

  void Count(FrameWriter& out, Instant now) {
    const auto records = [&](Series& series, std::string_view source, uint64_t count) {
      out.DeclareAndSet(series, kSelfNcclRecords, {}, {{"nccl.source", source}}, count);
    };
    const auto sources = [&](Series& series, std::string_view source, size_t count) {
      out.DeclareAndSet(series, kSelfNcclSources, {}, {{"nccl.source", source}}, count);
    };
    if (pages_) {
      records(page_series_, "page", page_records_);
      sources(pages_series_, "page", live_pages_);
    }
    if (files_) {
      const nccl_files::InspectorFiles::Counts& counts = files_->counts();
      records(file_series_, "file", file_records_);
      records(doubled_series_, "file_of_page", doubled_);
      sources(files_series_, "file", counts.files);
      lost_["invalid_line"] = counts.invalid + inspector_pages_.invalid();
      lost_["inspector_ring_full"] = counts.overwritten;
      if (inspector_pages_.not_taken() > 0) lost_["too_many_kinds"] = inspector_pages_.not_taken();
      if (counts.newest_unix_ns > 0)
        out.DeclareAndSet(
            age_series_, kSelfNcclFileAge, {}, {},
            std::max<double>(static_cast<double>(now.unix_ns - counts.newest_unix_ns) * 1e-9, 0));
    }
    if (!ras_.empty()) sources(ras_series_, "ras", ras_servers_);
    for (const auto& [reason, count] : lost_)
      out.DeclareAndSet(lost_series_[reason], kSelfNcclLost, {}, {{"gpulens.reason", reason}}, count);
  }

  Env& env_;
  nvml::ProcessTable names_;
  SlowestRule slowest_;
  const std::string host_;
  RankTable table_;
  std::unique_ptr<CollectivesJoin> join_;
  DiagnosisFeed feed_;
  DiagnosisSeries series_;
  std::unique_ptr<JobPages::Feed> pages_;
  std::unique_ptr<nccl_files::InspectorFiles> files_;
  InspectorPages inspector_pages_;
  struct Ras {
    std::string address;
    std::unique_ptr<nccl_ras::RasClient> client;
  };
  std::vector<Ras> ras_;
  RasFeed ras_feed_;
  Duration ras_interval_{};
  size_t ras_servers_ = 0;
  Series ras_series_;
  std::map<uint64_t, Page> of_page_;
  std::map<std::string_view, uint64_t> lost_;
  uint64_t page_records_ = 0, file_records_ = 0, doubled_ = 0;
  size_t live_pages_ = 0;
  Series page_series_, pages_series_, file_series_, doubled_series_, files_series_, age_series_;
  std::map<std::string_view, Series> lost_series_;
};

Result<std::unique_ptr<Collector>> Create(const Config& config, Env& env) {
  const Options options(config);
  if (!IsConfigured(options))
    return Status{Code::kUnavailable, "nothing of NCCL is read; " + std::string(kRemedy)};
  if (options.Bool("pages") && !env.job_pages)
    return Status{Code::kUnavailable, "job pages are read by the agent alone"};
  if (!options.Texts("ras").empty() && !env.io) return Status{Code::kUnavailable, "there is no network here"};
  ASSIGN_OR_RETURN(auto join, CollectivesJoin::Open(CollectivesOf(options), env));
  return std::unique_ptr<Collector>(std::make_unique<Nccl>(options, std::move(join), env));
}

std::vector<Finding> Probe(const Config& config, Env&) {
  const Options options(config);
  if (!IsConfigured(options))
    return {{Finding::kNotHere, "nccl", "", "nothing of NCCL is read", std::string(kRemedy)}};
  std::vector<Finding> findings;
  if (options.Bool("pages"))
    findings.push_back({Finding::kFound, "nccl", "pages of jobs with the NCCL profiler plugin", "", ""});
  for (const std::string& place : options.Texts("files")) {
    const auto found = nccl_files::FilesOfPlace(place, 4096);
    Finding finding{Finding::kFound, "nccl", "", "", ""};
    if (!found) {
      finding.kind =
          found.error().code == Code::kPermissionDenied ? Finding::kNoPermission : Finding::kNotHere;
      finding.why = found.error().detail;
      finding.remedy =
          "NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_DIR=FOLDER in the job; one folder for all jobs";
    } else {
      finding.what = std::to_string(found->size()) + " files of NCCL Inspector at " + place +
                     "; it leaves out operations below NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES, 8,192 unless set";
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

void Check(const Config& config, ConfigFaults& faults) {
  const Options options(config);
  CheckCollectives(CollectivesOf(options), faults);
  for (const std::string& text : options.Texts("ras")) {
    const auto at = RasAddress(text);
    if (!at) options.Refuse("ras", faults, at.error());
    else if (at->port == 0 || at->any_family)
      options.Refuse("ras", faults, "ras: " + text + " is no HOST:PORT");
  }
}

}  // namespace

extern const CollectorSpec nccl_collector;
const CollectorSpec nccl_collector{
    .name = "nccl",
    .help = "Collectives of NCCL and RCCL: durations, bandwidth, slow and hung ranks.",
    // A slow rank is to be named within five seconds.
    .period = std::chrono::milliseconds(500),
    .ttl = seconds(60),
    .options = kOptions,
    .metrics = kNcclRows,
    .create = &Create,
    .probe = &Probe,
    .check = &Check};

}  // namespace gpulens
