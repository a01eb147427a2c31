#include "agent/run/agent.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <gpulens/status.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "agent/api/api.h"
#include "agent/api/event_ring.h"
#include "agent/api/experiments.h"
#include "agent/api/explain.h"
#include "agent/api/fleet.h"
#include "agent/api/history_pages.h"
#include "agent/api/live.h"
#include "agent/api/why.h"
#include "agent/control/control_socket.h"
#include "agent/demo/demo.h"
#include "agent/fleet/fleet_table.h"
#include "agent/plugin_tables.h"
#include "agent/run/config_file.h"
#include "agent/run/endpoints.h"
#include "agent/run/plan.h"
#include "agent/run/rights.h"
#include "agent/status/agent_watch.h"
#include "agent/targets/found_targets.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/sandbox/launcher.h"
#include "base/sandbox/sandbox.h"
#include "base/service_manager.h"
#include "base/threads.h"
#include "base/version.h"
#include "collectives/batch_queue.h"
#include "history/history.h"
#include "net/auth/authenticator.h"
#include "net/blocking/inherited_sockets.h"
#include "net/client/http_client.h"
#include "pipeline/pipeline.h"
#include "plugins/agent_stats.h"
#include "plugins/event_queue.h"
#include "plugins/gpu_pod_table.h"
#include "store/incident_store.h"

namespace gpulens {
namespace {

// Open files: more than the agent needs with every plugin on, and the least it needs without any client.
constexpr rlim_t kFilesWanted = 4096, kFilesLeast = 64;

// Interval of WATCHDOG=1: half of $WATCHDOG_USEC when that is set for this process; zero: never.
Duration WatchdogInterval() {
  const char* pid = ::getenv("WATCHDOG_PID");
  if (pid && ParseInt<int64_t>(pid) != static_cast<int64_t>(::getpid())) return {};
  const char* period = ::getenv("WATCHDOG_USEC");
  int64_t microseconds = period ? ParseInt<int64_t>(period).value_or(0) : 0;
  return microseconds > 0 ? std::chrono::microseconds(microseconds / 2) : Duration{};
}

// Raises the limit of open files as far as allowed. kExhausted: too few to serve anyone.
Status RaiseFileLimit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return Ok();
  if (files.rlim_cur < kFilesWanted) {
    rlimit raised = files;
    raised.rlim_cur = std::min(files.rlim_max, kFilesWanted);
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  }
  if (files.rlim_cur >= kFilesLeast) return Ok();
  return {Code::kExhausted, "the agent may open " + std::to_string(files.rlim_cur) + " files and needs " +
                                std::to_string(kFilesLeast) + ": raise LimitNOFILE, or ulimit -n"};
}

// The first and the last lines of `gpulens agent`: what was found, what is absent, where it is served, how it
// ended. AfterTick comes from a worker, Farewell from the main thread when no more ticks come.
class Banner {
 public:
  struct Options {
    std::string config_file;
    Instant started;
    bool quiet = false;
    bool tls = false;
    std::string simulated;  // what is simulated besides the GPUs, as a sentence; empty: nothing
  };

  Banner(Env& env, const Config& config, const Pipeline& pipeline, Options options);

  // Prints once, when every source has answered or two seconds have passed.
  void AfterTick();
  void Farewell() const;

 private:
  struct Summary {
    std::string found, absent;  // names of collectors
    uint64_t series = 0;
  };
  std::string Found(const Pipeline::InstanceView& view) const;
  Summary Summarize() const;
  std::string PageAddress() const;
  // `up`: time since the start.
  std::string Text(std::string_view up) const;

  Env& env_;
  const Config& config_;
  const Pipeline& pipeline_;
  const Options options_;
  std::atomic<bool> printed_{false};
};

constexpr Duration kTimeout = std::chrono::seconds(2);
// Collectors whose devices the banner lists.
constexpr std::string_view kGpuCollectors[] = {"nvidia", "amd", "gaudi"};

std::string Uptime(Duration d) {
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(d).count();
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600) return std::to_string(seconds / 60) + " m " + std::to_string(seconds % 60) + " s";
  if (seconds < 86400)
    return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " m";
  return std::to_string(seconds / 86400) + " d " + std::to_string(seconds / 3600 % 24) + " h";
}

// The first address; empty: none.
std::string FirstOf(const std::vector<std::string>& addresses) {
  return addresses.empty() ? "" : addresses.front();
}

Banner::Banner(Env& env, const Config& config, const Pipeline& pipeline, Options options)
    : env_(env), config_(config), pipeline_(pipeline), options_(std::move(options)) {}

// The devices that the collector's probe found: "8 NVIDIA H100". Empty when it reports no details.
std::string Banner::Found(const Pipeline::InstanceView& view) const {
  if (!view.spec->probe) return {};
  for (const Finding& finding : view.spec->probe(PartOf(*view.spec, config_), env_)) {
    if (finding.kind == Finding::kFound && finding.subject == view.spec->name) return finding.what;
  }
  return {};
}

Banner::Summary Banner::Summarize() const {
  Summary summary;
  auto add = [](std::string& list, std::string_view name) {
    list.append(list.empty() ? "" : ", ").append(name);
  };
  for (const Pipeline::InstanceView& view : pipeline_.instances()) {
    summary.series += view.stats.series;
    add(view.stats.up ? summary.found : summary.absent, view.name);
  }
  return summary;
}

std::string Banner::Text(std::string_view up) const {
  utsname machine{};
  ::uname(&machine);
  std::string text = "gpulens " + std::string(Version()) + " (" + std::string(Revision()) + ") on " +
                     machine.nodename + ", ready after " + std::string(up) + ".";
  if (env_.demo) text += " SIMULATED GPUs: no GPU is read.";
  if (!options_.config_file.empty()) text += " Configuration: " + options_.config_file;
  text += "\n";
  const Summary summary = Summarize();
  for (const Pipeline::InstanceView& view : pipeline_.instances()) {
    const bool gpus =
        view.stats.up && std::ranges::find(kGpuCollectors, view.name) != std::end(kGpuCollectors);
    if (!gpus) continue;
    if (const std::string what = Found(view); !what.empty()) text += "  " + view.name + ": " + what + "\n";
  }
  text += "  found    " + summary.found + ": " + std::to_string(summary.series) + " series\n";
  if (!summary.absent.empty()) text += "  absent   " + summary.absent + "; see gpulens doctor\n";
  const std::string websocket = FirstOf(config_.Group("websocket").Texts("listen"));
  if (!options_.simulated.empty()) text += "  engines  " + options_.simulated + "\n";
  text += "  serving  http://" + FirstOf(config_.Group("http").Texts("listen")) + "/metrics";
  if (!websocket.empty()) text += "   ws://" + websocket;
  text += "\n";
  if (const std::string page = PageAddress(); !page.empty()) text += "  open     " + page + "\n";
  return text;
}

// The address of the page for a browser on this machine; empty: it has none there.
std::string Banner::PageAddress() const {
  const Result<Endpoint> at = ParseListenAddress(FirstOf(config_.Group("http").Texts("listen")));
  if (!at || at->family == Endpoint::Family::kUnix) return {};
  // An address that a browser cannot open: every one of this machine, or this machine itself.
  const std::string address = at->ToString();
  const size_t colon = address.rfind(':');
  const bool here = at->IsLoopback() || address.starts_with("0.0.0.0:") || address.starts_with("[::]:");
  return (options_.tls ? "https://" : "http://") + (here ? "localhost" + address.substr(colon) : address) +
         "/";
}

void Banner::AfterTick() {
  if (printed_.load(std::memory_order_relaxed)) return;
  Duration up = env_.clock->Now() - options_.started;
  auto views = pipeline_.instances();
  bool answered = std::ranges::all_of(views, [](const auto& view) { return view.answered; });
  if (!answered && up < kTimeout) return;
  if (printed_.exchange(true)) return;
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(up).count();
  if (options_.quiet || ::isatty(STDERR_FILENO) == 0) {
    const Summary summary = Summarize();
    if (!summary.absent.empty())
      Log(LogLevel::kInfo, "agent", "absent",
          "not on this machine, or not readable: " + summary.absent + ". See gpulens doctor.");
    Log(LogLevel::kInfo, "agent", "ready",
        "gpulens " + std::string(Version()) + " serves " + std::to_string(summary.series) +
            " series at http://" + FirstOf(config_.Group("http").Texts("listen")) + "/ after " +
            std::to_string(ms) + " ms.");
    if (!options_.simulated.empty()) Log(LogLevel::kInfo, "demo", "engines", options_.simulated);
    return;
  }
  ::dprintf(STDERR_FILENO, "%s", Text(std::to_string(ms) + " ms").c_str());
}

void Banner::Farewell() const {
  std::string text = "stopped. Up " + Uptime(env_.clock->Now() - options_.started) + ", " +
                     std::to_string(pipeline_.ticks()) + " ticks.";
  if (options_.quiet || ::isatty(STDERR_FILENO) == 0) return Log(LogLevel::kInfo, "agent", "stopped", text);
  ::dprintf(STDERR_FILENO, "  %s\n", text.c_str());
}

// Start-up code pages are released after this: the first ticks are over.
constexpr Duration kStartTime = std::chrono::seconds(3);
// Ctrl-C ends the agent within a second; sinks get most of it to flush.
constexpr Duration kFlushTime = std::chrono::milliseconds(700);
constexpr Duration kHttpLinger = std::chrono::milliseconds(100);

// Whether this process has a terminal: it was started in one, and that has not been closed.
bool OnTerminal() { return UniqueFd(::open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY)).get() >= 0; }

bool IgnoresHangups() {
  struct sigaction hangup{};
  return ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
}

bool LauncherEnded() {
  pollfd end{.fd = LauncherEndFd(), .events = POLLIN, .revents = 0};
  return end.fd >= 0 && ::poll(&end, 1, 0) > 0;
}

// What is there before the agent has threads.
struct LoadedAgent {
  Instant started = RealClock().Now();
  std::unique_ptr<Schema> schema;
  std::string file;  // of the configuration; empty: none
  Config config;
  std::string state_dir;
  std::optional<Rights> granted;  // nullopt: it is not confined
  SandboxMode sandbox_mode = SandboxMode::kEnforce;
  std::vector<SandboxLayer> sandbox;
};

// The running program. Members are destroyed in the reverse order of their declaration.
class Agent {
 public:
  Agent(const AgentOptions& options, LoadedAgent loaded)
      : options_(options),
        schema_(std::move(loaded.schema)),
        started_(loaded.started),
        file_(std::move(loaded.file)),
        config_(std::move(loaded.config)),
        granted_(std::move(loaded.granted)) {
    stats_.sandbox_mode = loaded.sandbox_mode;
    stats_.sandbox = std::move(loaded.sandbox);
    env_.state_dir = std::move(loaded.state_dir);
    env_.demo = options.demo;
  }

  int Run();

 private:
  Status Start();
  Status Refuse(const Config& config);
  Status OpenControl();
  Status StartDemo();
  void StartPages();
  Status Reload();
  Status ReloadNow();
  void TakeFound();
  std::string StatusPage();
  PipelinePlan Plan(const Config& config) const;
  JobPages::Options PagesOf(const Config& config) const;
  void WatchSignals();
  void KeepWatchdogQuiet();
  void WaitForStop();
  // `code` is what the process ends with.
  int Stop(int code);

  const AgentOptions options_;
  const std::unique_ptr<Schema> schema_;
  const Instant started_;
  const std::string file_;
  Config config_;
  const std::optional<Rights> granted_;  // when it started; nullopt: it is not confined
  IoLoop io_;
  // A job for each target, when all are due at once.
  Workers workers_{2, 8192};
  PasswordThread passwords_;
  HttpClient client_{io_};
  std::unique_ptr<Authenticator> authenticator_;
  LatestSnapshot hub_;
  PageRegistry pages_;
  AgentStats stats_;
  EventQueue events_;
  GpuPodTable gpu_pods_;
  ReaderControl nvml_control_;
  FaultFile faults_;
  AgentWatch watch_;
  JobPages job_pages_;
  collectives::BatchQueue collectives_;
  FleetTable fleet_{RealClock()};
  std::unique_ptr<History> history_;
  Api api_;
  ApiServer api_server_{api_, workers_};
  EventRing event_ring_;
  std::unique_ptr<LiveServer> live_;
  Env env_;
  std::unique_ptr<demo::Demo> demo_;  // null: no demo, or one without a scenario
  std::unique_ptr<SeriesBudget> budget_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<DiscoveryRunner> discoveries_;
  std::unique_ptr<Banner> banner_;
  std::unique_ptr<Endpoints> endpoints_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<ListenAddresses> listen_addresses_;
  std::unique_ptr<ControlSocket> control_;
  std::mutex reload_mutex_;  // one reload at a time
  bool ending_ = false;      // under reload_mutex_
  std::atomic<bool> launcher_ended_{false};

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  bool stop_ = false;
};

Status Agent::Refuse(const Config& config) {
  bool locked = false;
  io_.Call([&] { locked = IsLocked(authenticator_->config()); });
  return RefuseBeforeStart(config, locked);
}

// Without a configured path, a socket that cannot be made, or that another agent has, is no error.
Status Agent::OpenControl() {
  const std::string& configured = config_.Group("control").Text("socket");
  std::string path = configured.empty() ? DefaultControlSocket() : configured;
  if (path.empty() || path == "none") return Ok();
  Status status;
  io_.Call([&] {
    ControlHooks hooks{&workers_, [this] { return StatusPage(); }, &events_, {}, {}};
    hooks.get = std::bind_front(&ApiServer::Get, &api_server_);
    if (demo_) hooks.demo = [this](std::string_view command) { return demo_->Change(command); };
    control_ = std::make_unique<ControlSocket>(io_, *env_.clock, nvml_control_, &faults_, std::move(hooks));
    status = control_->Open(path);
    if (!status) control_.reset();
  });
  if (status || !configured.empty()) return status;
  Log(LogLevel::kInfo, "agent", "no_control_socket", "the control socket is not available: " + status.detail);
  return Ok();
}

Status Agent::StartDemo() {
  if (!options_.demo) return Ok();
  ASSIGN_OR_RETURN(const std::string scenario, demo::FindScenario(options_.scenario));
  if (scenario.empty()) return Ok();
  ASSIGN_OR_RETURN(demo_, demo::Demo::Start(scenario, env_));
  env_.simulated = &demo_->node();
  nvml_control_.SetProfileFile(demo_->profile_fd());
  return Ok();
}

void Agent::StartPages() {
  const Config& group = config_.Group("history");
  history_ = std::make_unique<History>(
      History::Options{group.Time("window"), static_cast<size_t>(group.Size("memory"))});
  // A demo is there to be looked at.
  if (options_.demo || group.Text("start") == "at_once") history_->Begin();
  const NodeReadings readings{history_.get(),
                              [this] { return hub_.latest(); },
                              env_.clock,
                              options_.demo,
                              [this] { return pipeline_->interval(); },
                              [this] { return fleet_.options().nodes > 0; }};
  AddNowPage(api_, readings);
  AddHistoryPage(api_, readings);
  EventRing::Options events{.store = {}, .start_ns = started_.unix_ns};
  if (!env_.state_dir.empty()) events.store = env_.state_dir + "/" + std::string(kIncidentFile);
  event_ring_.Begin(std::move(events));
  AddEventsPage(api_, event_ring_, *env_.clock);
  AddWhyPage(api_, readings);
  AddExplainPage(api_);
  AddExperimentsPage(api_, config_.Group("experiments").Text("db"));
  live_ = std::make_unique<LiveServer>(io_, readings,
                                       static_cast<size_t>(config_.Group("http").Int("max_connections")));
  AddFleetPage(api_, fleet_);
}

Status Agent::Start() {
  RETURN_IF_ERROR(RaiseFileLimit());
  env_.io = &io_;
  env_.http = &client_;
  env_.workers = &workers_;
  env_.latest = &hub_;
  env_.pages = &pages_;
  env_.stats = &stats_;
  env_.events = &events_;
  env_.gpu_pods = &gpu_pods_;
  env_.received = &fleet_;
  job_pages_.Configure(PagesOf(config_));
  env_.job_pages = &job_pages_;
  env_.collectives = &collectives_;
  ReportOfStateFolder(env_.state_dir);
  env_.nvml = &nvml_control_;
  if (faults_.Open()) nvml_control_.SetFaultFile(faults_.fd());
  io_.Start();
  RETURN_IF_ERROR(io_.status());
  RETURN_IF_ERROR(workers_.status());
  RETURN_IF_ERROR(StartDemo());
  ASSIGN_OR_RETURN(authenticator_, Authenticator::Open(io_, config_.Group("http").Text("web_config"),
                                                       std::bind_front(&PasswordThread::Post, &passwords_)));
  env_.authenticator = authenticator_.get();
  io_.Call([this] { authenticator_->AllowHosts(AllowedHosts(config_)); });
  budget_ = std::make_unique<SeriesBudget>(static_cast<uint64_t>(config_.Group("limits").Int("series")));
  pipeline_ = std::make_unique<Pipeline>(env_, workers_, hub_, *budget_);
  discoveries_ = std::make_unique<DiscoveryRunner>(env_, AllDiscoveries(), [this] { TakeFound(); });
  const char* page_folder = ::getenv(kPageFolderVariable);
  StartPages();
  endpoints_ = std::make_unique<Endpoints>(
      env_, *pipeline_, PageFiles(page_folder ? page_folder : ""), api_server_, &live_->upgrader(),
      [this] { return Reload(); }, [this] { return StatusPage(); });
  http_ = std::make_unique<HttpServer>(io_, *endpoints_,
                                       HttpOptions(config_.Group("http"), authenticator_.get()));
  listen_addresses_ = std::make_unique<ListenAddresses>(*http_);
  stats_.http = &http_->stats();
  RETURN_IF_ERROR(Refuse(config_));
  fleet_.Configure(FleetOptions(config_));
  RETURN_IF_ERROR(pipeline_->Apply(Plan(config_)));
  RETURN_IF_ERROR(listen_addresses_->Follow(config_));
  RETURN_IF_ERROR(OpenControl());
  if (const std::vector<std::string> unused = UnusedInheritedSockets(); !unused.empty())
    return {Code::kInvalidArgument,
            "the service manager hands over " + unused.front() +
                ", at which nothing of the configuration listens: name the address in http.listen, "
                "websocket.listen or a receiver, or take it out of the socket unit"};
  banner_ = std::make_unique<Banner>(env_, config_, *pipeline_,
                                     Banner::Options{.config_file = file_,
                                                     .started = started_,
                                                     .quiet = options_.quiet,
                                                     .tls = authenticator_->config().tls.has_value(),
                                                     .simulated = demo_ ? demo_->Summary() : std::string()});
  pipeline_->OnTick([this](const Ref<const Snapshot>& snapshot) {
    banner_->AfterTick();
    watch_.Observe(*snapshot);
    history_->Observe(*snapshot);
    live_->Tick();
  });
  pipeline_->OnEvents([this](const Ref<const Events>& events) {
    for (const std::string& event : event_ring_.Add(*events)) live_->Event(event);
  });
  pipeline_->Start();
  RETURN_IF_ERROR(pipeline_->status());
  return discoveries_->Apply(config_);
}

// For `gpulens doctor`. Called on a worker.
std::string Agent::StatusPage() {
  std::unique_lock one_at_a_time(reload_mutex_);
  Config config = config_;
  one_at_a_time.unlock();
  if (demo_) config = demo::Demo::WithJobs(WithFound(config, *schema_, demo_->targets()));
  return StatusJson(watch_.Report(config, env_, *pipeline_));
}

// Applies changed targets of a discovery.
void Agent::TakeFound() {
  std::lock_guard one_at_a_time(reload_mutex_);
  if (ending_) return;
  Status status = pipeline_->Apply(Plan(config_));
  if (!status) Log(LogLevel::kError, "discovery", "not_applied", status.detail);
}

// A demo has pages of its own: real jobs are left to the real agent, unless the configuration wants them
// here.
JobPages::Options Agent::PagesOf(const Config& config) const {
  JobPages::Options out = JobPagesOptions(config);
  if (options_.demo && !ReadsJobPages(config)) {
    out.socket.clear();
    out.folders.clear();
  }
  return out;
}

PipelinePlan Agent::Plan(const Config& config) const {
  std::vector<FoundTarget> found;
  if (demo_) found = demo_->targets();
  if (discoveries_) {
    for (FoundTarget& target : discoveries_->found()) found.push_back(std::move(target));
  }
  Config whole = WithFound(config, *schema_, found);
  if (demo_) whole = demo::Demo::WithJobs(std::move(whole));
  PipelinePlan plan = MakePlan(whole, {options_.demo, HostName()});
  if (options_.demo) demo::Demo::ReplaceEnrichers(plan.enrichers);
  return plan;
}

Status Agent::ReloadNow() {
  LoadOutcome outcome = LoadConfig(*schema_, file_, options_.flags);
  if (!outcome.ok()) return {Code::kInvalidArgument, outcome.Report()};
  if (outcome.config.Group("http").Text("web_config") != config_.Group("http").Text("web_config")) {
    return {Code::kInvalidArgument, "http.web_config names another file: that needs a restart"};
  }
  // The authenticator belongs to the loop.
  Status reread;
  io_.Call([&] { reread = authenticator_->Reload(); });
  RETURN_IF_ERROR(reread);
  if (outcome.config == config_) {
    ++stats_.reloads_unchanged;
    return Ok();
  }
  RETURN_IF_ERROR(Refuse(outcome.config));
  if (granted_) {
    const std::string missing =
        MissingRights(*granted_, RightsOf(config_, env_), RightsOf(outcome.config, env_));
    if (!missing.empty()) return {Code::kPermissionDenied, missing};
  }
  RETURN_IF_ERROR(listen_addresses_->Follow(outcome.config));
  RETURN_IF_ERROR(discoveries_->Apply(outcome.config));
  job_pages_.Configure(PagesOf(outcome.config));
  RETURN_IF_ERROR(pipeline_->Apply(Plan(outcome.config)));
  // Of sinks and receivers; http.listen refuses it.
  for (const std::string& unused : UnusedInheritedSockets())
    Log(LogLevel::kWarn, "config", "unused_socket",
        "nothing listens any more at " + unused +
            ", a socket of the service manager: clients wait there until its socket unit is stopped");
  fleet_.Configure(FleetOptions(outcome.config));
  static_cast<void>(SetLogLevels(outcome.config.Group("log").Text("level")));
  config_ = std::move(outcome.config);
  io_.Call([this] { authenticator_->AllowHosts(AllowedHosts(config_)); });
  ++stats_.reloads_applied;
  io_.After(kStartTime, [] { ReleaseStartPages(); });
  return Ok();
}

Status Agent::Reload() {
  std::lock_guard one_at_a_time(reload_mutex_);
  NotifyServiceManager("RELOADING=1");
  Status status = ReloadNow();
  stats_.last_reload_ok = status.ok();
  watch_.ReloadFailed(status ? "" : status.detail);
  if (status) {
    stats_.last_reload_unix_ns = env_.clock->Now().unix_ns;
    Log(LogLevel::kInfo, "config", "reloaded", "the configuration was read again and is in force.");
  } else {
    ++stats_.reloads_rejected;
    Log(LogLevel::kError, "config", "reload_rejected", "kept the old configuration: " + status.detail);
  }
  NotifyServiceManager("READY=1");
  return status;
}

void Agent::WatchSignals() {
  auto stop = [this] {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  };
  // A closed connection and a file limit are errors of a write, not the end of the program.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  for (int signal : {SIGINT, SIGTERM}) static_cast<void>(io_.OnSignal(signal, stop));
  static_cast<void>(io_.OnSignal(SIGCHLD, [this, stop] {
    if (!LauncherEnded() || launcher_ended_.exchange(true)) return;
    // Reader processes ended with it, and no other can be started by a confined process.
    Log(LogLevel::kError, "agent", "launcher_ended",
        "the process that starts programs has ended, so the agent ends, too: start it again.");
    stop();
  }));
  // SIGHUP means that the terminal was closed, which ends this as any other program of it, or that the
  // configuration is to be read again. nohup and services are not ended by terminals.
  const bool ends_with_terminal = OnTerminal() && !IgnoresHangups();
  static_cast<void>(io_.OnSignal(SIGHUP, [this, stop, ends_with_terminal] {
    if (ends_with_terminal && !OnTerminal()) return stop();
    workers_.Post([this] { static_cast<void>(Reload()); });
  }));
}

// An agent whose ticks have stopped sends no more and is restarted by the service manager.
void Agent::KeepWatchdogQuiet() {
  Duration interval = WatchdogInterval();
  if (interval.count() == 0) return;
  if (!pipeline_->Stuck(env_.clock->Now())) NotifyServiceManager("WATCHDOG=1");
  io_.After(interval, [this] { KeepWatchdogQuiet(); });
}

void Agent::WaitForStop() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] { return stop_; });
}

int Agent::Stop(int code) {
  NotifyServiceManager("STOPPING=1");
  if (discoveries_) discoveries_->Stop();
  {
    std::lock_guard one_at_a_time(reload_mutex_);
    ending_ = true;
  }
  std::mutex mutex;
  std::condition_variable ended;
  int open = 0;
  if (http_) {
    open = 2;
    io_.Post([&] {
      auto closed = [&] {
        std::lock_guard lock(mutex);
        --open;
        ended.notify_all();
      };
      http_->Shutdown(kHttpLinger, closed);
      live_->Shutdown(kHttpLinger, closed);
    });
  }
  const bool left_behind = pipeline_ && !pipeline_->Stop(env_.clock->Now() + kFlushTime);
  if (http_) {
    std::unique_lock lock(mutex);
    ended.wait_for(lock, kHttpLinger * 2, [&] { return open == 0; });
  }
  io_.Call([&] { control_.reset(); });
  if (demo_) demo_->Stop();
  io_.Stop();
  passwords_.Stop();
  workers_.Stop();
  if (code == 0) banner_->Farewell();
  // A sink's thread that hangs in a write may still come back to what this object owns.
  if (left_behind) std::_Exit(code);
  return code;
}

int Agent::Run() {
  WatchSignals();
  if (LauncherEnded()) ::raise(SIGCHLD);  // before that was watched
  Status status = Start();
  if (!status) {
    ::dprintf(STDERR_FILENO, "gpulens: %s\n", status.detail.c_str());
    return Stop(status.code == Code::kInvalidArgument ? 2 : 1);
  }
  NotifyServiceManager("READY=1");
  KeepWatchdogQuiet();
  io_.After(kStartTime, [] { ReleaseStartPages(); });
  WaitForStop();
  return Stop(launcher_ended_ ? 1 : 0);
}

// Without a sandbox every process does what its user may.
SandboxMode ModeOf(const Config& config) {
  return ParseSandboxMode(config.Group("sandbox").Text("mode")).value_or(SandboxMode::kEnforce);
}

// Folders that are to be written; a confined process makes none elsewhere. Whose cannot be made is reported
// by what writes there.
void MakeFolders(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) static_cast<void>(MakeFoldersAbove(folder + "/"));
}

// Starts the launcher and confines this process: before there are threads, since both hold for one thread and
// for what it starts.
Status Confine(LoadedAgent& loaded, const Env& env) {
  const SandboxMode mode = ModeOf(loaded.config);
  const Rights rights = RightsOf(loaded.config, env);
  SandboxPlan plan{.mode = mode, .filter = CallFilter::kAgent, .files = FileRights(), .capabilities = {}};
  if (mode == SandboxMode::kOff) {
    ::setenv(kSandboxVariable, "off", 1);  // for its reader processes
  } else {
    MakeFolders(rights.folders);
    RETURN_IF_ERROR(StartLauncher({.mode = mode, .programs = rights.programs, .root = env.root}));
    loaded.granted = rights;
  }
  if (mode == SandboxMode::kEnforce) {
    for (const std::string& path : AllowReadingAll(*plan.files))
      Log(LogLevel::kWarn, "agent", "does_not_answer",
          path + " does not answer; nothing there can be read until the agent is started again.");
  }
  plan.files->write = rights.folders;
  plan.files->devices.insert(plan.files->devices.end(), rights.devices.begin(), rights.devices.end());
  plan.capabilities = rights.capabilities;
  loaded.sandbox_mode = mode;
  loaded.sandbox = EnterSandbox(plan);
  return Ok();
}

}  // namespace

int RunAgent(const AgentOptions& options) {
  // Two arenas are enough for this program's threads; glibc would make eight times the cores.
  ::mallopt(M_ARENA_MAX, 2);
  // Large page buffers go back to the system when they are freed, however many there were before. A receiver
  // sets another threshold: ingest/otlp_ingest.cc.
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  if (Status status = TakeInheritedSockets(); !status) {
    ::dprintf(STDERR_FILENO, "gpulens: %s\n", status.detail.c_str());
    return 2;
  }
  ::signal(SIGCHLD, SIG_DFL);  // who started this may have left it ignored
  LoadedAgent loaded;
  loaded.schema = MakeSchema();
  loaded.file = FindConfigFile(options.config_file);
  LoadOutcome outcome = LoadConfig(*loaded.schema, loaded.file, options.flags);
  const std::string report = outcome.FullReport();
  if (!report.empty()) ::dprintf(STDERR_FILENO, "%s", report.c_str());
  if (!outcome.ok()) return 2;
  loaded.config = std::move(outcome.config);
  SetLogOptions(LogOptionsFor(loaded.config.Group("log")));
  static_cast<void>(SetLogLevels(loaded.config.Group("log").Text("level")));
  loaded.state_dir = StateDir(loaded.config.Text("state_dir"));
  if (options.demo) loaded.state_dir = DemoStateDir(loaded.state_dir);
  Env env;
  env.state_dir = loaded.state_dir;
  env.demo = options.demo;
  if (Status status = Confine(loaded, env); !status) {
    ::dprintf(STDERR_FILENO, "gpulens: %s\n", status.detail.c_str());
    return 1;
  }
  Agent agent(options, std::move(loaded));
  return agent.Run();
}

}  // namespace gpulens
