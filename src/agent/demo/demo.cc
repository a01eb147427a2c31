#include "agent/demo/demo.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "agent/demo/engine_pages.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::demo {
namespace {

constexpr Duration kRefresh = std::chrono::milliseconds(100);  // as moments of phases are known so well
constexpr std::string_view kInterval = "5s";                   // between two scrapes of a page

std::string BootId() {
  std::string text;
  if (!ReadFile("/proc/sys/kernel/random/boot_id", text, 256)) return {};
  return std::string(Trim(text));
}

// Describes simulated GPUs and processes. `env.simulated` outlives it.
class OwnersOfDemo final : public Enricher {
 public:
  explicit OwnersOfDemo(const SimulatedOwners& owners) : owners_(owners) {}
  void Fetch(Instant, std::function<void(Status)> done) override { done(Ok()); }
  uint64_t generation() const noexcept override { return owners_.generation(); }
  AttributeSet Describe(const Entity& entity) const override { return owners_.OwnerOf(entity); }

 private:
  const SimulatedOwners& owners_;
};

Result<std::unique_ptr<Enricher>> CreateOwners(const Config&, Env& env) {
  if (!env.simulated) return Status{Code::kUnavailable, "no owners are simulated"};
  return std::unique_ptr<Enricher>(std::make_unique<OwnersOfDemo>(*env.simulated));
}

constexpr EnricherSpec kOwnersSpec{.name = "demo",
                                   .help = "Pods, jobs and tenants of simulated GPUs.",
                                   .period = std::chrono::seconds(1),
                                   .create = &CreateOwners};

}  // namespace

Result<std::string> FindScenario(const std::string& wanted) {
  auto text_of = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::string file = wanted.empty() ? text_of(kScenarioVariable) : wanted;
  if (file == kNoScenario || (file.empty() && !text_of("GPULENS_FAKE_NVML").empty())) return std::string();
  if (file.empty()) return std::string(BuiltInScenario());
  if (file == kCalmScenario) return CalmScenario();
  Result<std::string> text = ReadFile(file, kMostScenarioBytes);
  if (!text) return Status{Code::kInvalidArgument, "the scenario cannot be read: " + text.error().detail};
  return text;
}

// Answers for one engine.
class Demo::Page final : public HttpHandler {
 public:
  Page(const DemoNode& node, size_t workload, const Clock& clock)
      : node_(node), workload_(workload), clock_(clock) {}

  void Handle(const HttpRequest& request, HttpResponder responder) override {
    const Workload& work = node_.scenario().workloads[workload_];
    const int64_t now_ns = clock_.Now().boot_ns;
    if (!node_.Runs(workload_, now_ns))
      return responder.Send(HttpResponse::Text(503, work.name + " does not run now"));
    if (request.path() == "/metrics") {
      HttpResponse response;
      response.content_type = "text/plain; version=0.0.4; charset=utf-8";
      response.body = SharedBytes(EnginePage(node_, workload_, now_ns));
      return responder.Send(std::move(response));
    }
    std::string api = EngineApi(work, request.path());
    if (api.empty()) return responder.Send(HttpResponse::Text(404, "the simulated page is /metrics"));
    HttpResponse response;
    response.content_type = "application/json";
    response.body = SharedBytes(std::move(api));
    responder.Send(std::move(response));
  }

 private:
  const DemoNode& node_;
  const size_t workload_;
  const Clock& clock_;
};

Demo::Demo(Scenario scenario, DemoNode::Options options, Env& env)
    : env_(env), node_(std::move(scenario), std::move(options)) {
  if (env.job_pages) jobs_ = std::make_unique<DemoJobs>(node_, *env.job_pages, env.collectives);
}

Result<std::unique_ptr<Demo>> Demo::Start(std::string_view text, Env& env) {
  ASSIGN_OR_RETURN(Scenario scenario, ParseScenario(text));
  DemoNode::Options options;
  if (!env.state_dir.empty()) options.state_file = env.state_dir + "/scenario-changes";
  options.boot_id = BootId();
  std::unique_ptr<Demo> demo(new Demo(std::move(scenario), std::move(options), env));
  RETURN_IF_ERROR(demo->profile_.Open());
  RETURN_IF_ERROR(demo->Listen());
  env.io->Call([&] { demo->Follow(); });
  return demo;
}

Demo::~Demo() {
  if (env_.gpu_pods) env_.gpu_pods->Clear(this);
}

void Demo::Stop() {
  env_.io->Call([this] {
    if (timer_) env_.io->Cancel(timer_);
    timer_ = 0;
  });
  servers_.clear();
}

std::string Demo::Summary() const {
  if (targets_.empty()) return {};
  return std::to_string(targets_.size()) + " simulated pages: curl " + targets_.front().url +
         "; gpulens sim status lists them";
}

// The kernel chooses the ports: several demos on one machine do not meet.
Status Demo::Listen() {
  const std::vector<Workload>& workloads = node_.scenario().workloads;
  for (size_t i = 0; i < workloads.size(); ++i) {
    const Workload& work = workloads[i];
    if (!HasPage(work.kind)) continue;
    pages_.push_back(std::make_unique<Page>(node_, i, *env_.clock));
    servers_.push_back(std::make_unique<HttpServer>(*env_.io, *pages_.back(), HttpServer::Options{}));
    ASSIGN_OR_RETURN(Endpoint any, ParseListenAddress("127.0.0.1:0"));
    Result<Endpoint> at = servers_.back()->Listen(any);
    if (!at) return {Code::kUnavailable, "the simulated engines cannot listen: " + at.error().detail};
    FoundTarget target{
        .name = work.name, .url = "http://" + at->ToString() + "/metrics", .options = {}, .attributes = {}};
    target.options = {{"kind", std::string(TargetKindOf(work.kind))}, {"interval", std::string(kInterval)}};
    if (IsEngine(work.kind) && !work.gpus.empty()) target.options["pid"] = std::to_string(work.pid);
    target.attributes["simulated"] = "true";
    if (!work.cluster.empty()) target.attributes["cluster"] = work.cluster;
    for (auto [key, value] : node_.AttributesOf(work)) {
      std::string shown;
      AppendValue(shown, value);
      target.attributes[std::string(key)] = shown;
    }
    targets_.push_back(std::move(target));
  }
  return Ok();
}

void Demo::Follow() {
  Refresh();
  if (jobs_) jobs_->Advance(env_.clock->Now());
  timer_ = env_.io->After(kRefresh, [this] { Follow(); });
}

void Demo::Refresh() {
  const int64_t now_ns = env_.clock->Now().boot_ns;
  const uint64_t running = node_.RunningHash(now_ns);
  if (running != running_) {
    running_ = running;
    node_.OwnersChanged();
    if (env_.gpu_pods) env_.gpu_pods->Set(this, node_.Holdings(now_ns));
    written_ = false;
  }
  if (written_) return;
  std::string profile = node_.Profile(now_ns);
  if (Status status = profile_.Write(profile); !status)
    return Log(LogLevel::kError, "demo", "profile", status.detail);
  written_ = true;
}

Result<std::string> Demo::Change(std::string_view command) {
  std::string_view words = command;
  const std::string_view verb = TakeUntil(words, ' ');
  const int64_t now_ns = env_.clock->Now().boot_ns;
  if (verb == "status") return Describe();
  Result<std::string> done = verb == "set"    ? node_.Set(words, now_ns)
                             : verb == "stop" ? node_.Stop(words, now_ns)
                                              : node_.Heal(words, now_ns);
  if (done) {
    written_ = false;
    Refresh();
  }
  return done;
}

std::string Demo::Describe() const {
  const int64_t now_ns = env_.clock->Now().boot_ns;
  std::string out = node_.Describe(now_ns);
  const std::vector<Workload>& workloads = node_.scenario().workloads;
  size_t page = 0;
  for (size_t i = 0; i < workloads.size(); ++i) {
    const EngineTime time = node_.TimeOf(i, now_ns);
    out += ";" + workloads[i].name;
    if (time.level < 0) out += " does not run";
    else if (workloads[i].of.empty()) out += " load " + std::to_string(time.level) + " %";
    else out += " of " + workloads[i].of;
    if (HasPage(workloads[i].kind)) out += ", " + targets_[page++].url;
  }
  return out;
}

Config Demo::WithJobs(Config config) {
  Config collectors = config.Group("collectors");
  const Origin demo{.where = Origin::kDefault, .name = "--demo"};
  auto set = [&](Config& group, std::string_view key, Config::Value value) {
    if (group.origin(key).where == Origin::kDefault) group.Set(key, std::move(value), demo);
  };
  Config nccl = collectors.Group("nccl"), phases = collectors.Group("phases"),
         probes = collectors.Group("probes"), join = nccl.Group("collectives");
  set(join, "role", std::string("join"));
  nccl.Set("collectives", std::move(join), demo);
  set(nccl, "pages", true);
  set(phases, "pages", true);
  // The probe host of this machine has real processes only.
  if (probes.origin("enabled").where == Origin::kDefault) set(probes, "socket", std::string());
  set(probes, "enabled", true);
  collectors.Set("nccl", std::move(nccl), demo);
  collectors.Set("phases", std::move(phases), demo);
  collectors.Set("probes", std::move(probes), demo);
  config.Set("collectors", std::move(collectors), demo);
  return config;
}

void Demo::ReplaceEnrichers(std::vector<EnricherSet::Setup>& setups) {
  std::erase_if(setups, [](const EnricherSet::Setup& setup) {
    return setup.spec->name == "kubernetes" || setup.spec->name == "slurm";
  });
  setups.push_back({&kOwnersSpec, Config(), kOwnersSpec.period});
}

}  // namespace gpulens::demo
